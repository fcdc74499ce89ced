#include "network.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { IMAGENET_CLASSES = 1001 }; /* as in the TensorFlow recipes: one for "background" */

static int append(struct network *network, struct layer layer)
{
    assert(network->layer_count < NETWORK_MAX_LAYERS);
    network->layers[network->layer_count] = layer;
    return network->layer_count++;
}

static int out_size(int in, int kernel, int stride, int pad)
{
    return (in + 2 * pad - kernel) / stride + 1;
}

static struct extent output_of(const struct network *network, int source)
{
    return network->layers[source].out;
}

static int conv(struct network *network, const char *name, int source, struct extent in,
                int channels, int kernel, int stride, int pad)
{
    struct layer layer = {.kind = LAYER_CONV,
                          .source = source,
                          .in = in,
                          .kernel = kernel,
                          .stride = stride,
                          .pad = pad};
    layer.out = (struct extent){channels, out_size(in.height, kernel, stride, pad),
                                out_size(in.width, kernel, stride, pad)};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    return append(network, layer);
}

static int norm(struct network *network, const char *name, int source, bool relu)
{
    struct extent extent = output_of(network, source);
    struct layer layer = {
        .kind = LAYER_NORM, .source = source, .in = extent, .out = extent, .relu = relu};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    return append(network, layer);
}

static int pool(struct network *network, enum layer_kind kind, int source, int kernel, int stride,
                int pad)
{
    struct extent in = output_of(network, source);
    struct layer layer = {.kind = kind,
                          .name = "pool",
                          .source = source,
                          .in = in,
                          .kernel = kernel,
                          .stride = stride,
                          .pad = pad};
    layer.out = (struct extent){in.channels, out_size(in.height, kernel, stride, pad),
                                out_size(in.width, kernel, stride, pad)};
    return append(network, layer);
}

static int dense(struct network *network, const char *name, int source, int units, bool relu)
{
    struct layer layer = {.kind = LAYER_DENSE,
                          .source = source,
                          .in = output_of(network, source),
                          .out = {units, 1, 1},
                          .bias = true,
                          .relu = relu};
    snprintf(layer.name, sizeof layer.name, "%s", name);
    return append(network, layer);
}

static int conv_norm(struct network *network, const char *stem, const char *part, int source,
                     int channels, int kernel, int stride, bool relu)
{
    char name[24];
    snprintf(name, sizeof name, "%s.%s", stem, part);
    int x = conv(network, name, source, output_of(network, source), channels, kernel, stride,
                 kernel / 2);
    snprintf(name, sizeof name, "%s.%s.bn", stem, part);
    return norm(network, name, x, relu);
}

/* The residual addition is no primitive of the yardstick. The ReLU after it is counted at the
 * price of one fused into the last batch norm, which is less than it can cost. */
static int bottleneck(struct network *network, const char *stem, int source, int channels,
                      int stride, bool project)
{
    int x = conv_norm(network, stem, "conv1", source, channels, 1, 1, true);
    x = conv_norm(network, stem, "conv2", x, channels, 3, stride, true);
    x = conv_norm(network, stem, "conv3", x, 4 * channels, 1, 1, true);
    if (project)
        conv_norm(network, stem, "shortcut", source, 4 * channels, 1, stride, false);
    return x;
}

static void build_resnet50(struct network *network)
{
    static const int blocks[] = {3, 4, 6, 3};
    int x = conv(network, "conv1", LAYER_IMAGES, (struct extent){3, 224, 224}, 64, 7, 2, 3);
    x = norm(network, "conv1.bn", x, true);
    x = pool(network, LAYER_MAX_POOL, x, 3, 2, 1);
    for (int stage = 0; stage < 4; stage++) {
        for (int block = 0; block < blocks[stage]; block++) {
            char stem[16];
            snprintf(stem, sizeof stem, "%d.%d", stage + 1, block + 1);
            x = bottleneck(network, stem, x, 64 << stage, stage > 0 && block == 0 ? 2 : 1,
                           block == 0);
        }
    }
    x = pool(network, LAYER_AVG_POOL, x, 7, 1, 0);
    dense(network, "fc", x, IMAGENET_CLASSES, false);
}

static int conv_relu(struct network *network, const char *name, int source, struct extent in,
                     int channels, int pad)
{
    int x = conv(network, name, source, in, channels, 3, 1, pad);
    network->layers[x].bias = true;
    network->layers[x].relu = true;
    return x;
}

static void build_vgg16(struct network *network)
{
    static const int convolutions[] = {2, 2, 3, 3, 3};
    static const int channels[] = {64, 128, 256, 512, 512};
    struct extent extent = {3, 224, 224};
    int x = LAYER_IMAGES;
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < convolutions[stage]; i++) {
            char name[24];
            snprintf(name, sizeof name, "conv%d.%d", stage + 1, i + 1);
            x = conv_relu(network, name, x, extent, channels[stage], 1);
            extent = output_of(network, x);
        }
        x = pool(network, LAYER_MAX_POOL, x, 2, 2, 0);
        extent = output_of(network, x);
    }
    x = dense(network, "fc6", x, 4096, true);
    x = dense(network, "fc7", x, 4096, true);
    dense(network, "fc8", x, IMAGENET_CLASSES, false);
}

static void build_mnist(struct network *network)
{
    int x = conv_relu(network, "conv", LAYER_IMAGES, (struct extent){1, 28, 28}, 32, 0);
    x = pool(network, LAYER_MAX_POOL, x, 2, 2, 0);
    x = dense(network, "fc1", x, 64, true);
    dense(network, "fc2", x, 10, false);
}

bool network_find(const char *name, struct network *out)
{
    static const struct {
        const char *name;
        void (*build)(struct network *network);
    } all[] = {{"resnet50", build_resnet50}, {"vgg16", build_vgg16}, {"mnist", build_mnist}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) == 0) {
            *out = (struct network){.name = all[i].name};
            all[i].build(out);
            return true;
        }
    }
    return false;
}
