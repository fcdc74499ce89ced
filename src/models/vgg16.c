/* VGG16 (Simonyan and Zisserman 2014, configuration D), with the initialisers, dropout and rates
 * of tf_cnn_benchmarks. */
#include <lockstep/model.h>
#include <math.h>
#include <stdio.h>

static value_id conv_group(struct graph *graph, value_id x, int group, int convolutions,
                           int channels)
{
    for (int i = 1; i <= convolutions; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d_%d", group, i);
        x = relu(graph,
                 conv2d(graph, x, channels, .kernel = 3, .padding = PADDING_SAME, .name = name));
    }
    return max_pool(graph, x, .kernel = 2);
}

/* Deviation sqrt(factor / inputs): 2 before a ReLU, 1 before the softmax. */
static value_id affine(struct graph *graph, value_id x, int inputs, int units, float factor,
                       const char *name)
{
    return dense(graph, x, units,
                 .weights_init = {INIT_TRUNCATED_NORMAL, .value = sqrtf(factor / (float)inputs)},
                 .name = name);
}

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 3, args->image_size); /* [N, 3, 224, 224] */
    x = conv_group(graph, x, 1, 2, 64);
    x = conv_group(graph, x, 2, 2, 128);
    x = conv_group(graph, x, 3, 3, 256);
    x = conv_group(graph, x, 4, 3, 512);
    x = conv_group(graph, x, 5, 3, 512); /* [N, 512, 7, 7] */
    int side = args->image_size / 32;
    x = relu(graph, affine(graph, flatten(graph, x), 512 * side * side, 4096, 2, "dense1"));
    x = dropout(graph, x, 0.5f);
    x = relu(graph, affine(graph, x, 4096, 4096, 2, "dense2"));
    x = dropout(graph, x, 0.5f);
    classifier_output(graph, affine(graph, x, 4096, args->classes, 1, "dense3"));
}

const struct model model_vgg16 = {
    .name = "vgg16",
    .summary = "VGG16: 13 convolutions, 3 dense layers, 138 million parameters",
    .dataset = "synthetic",
    .recipe = "--batch-size=64 --optimizer=sgd --lr=0.005 --weight-decay=4e-5",
    .defaults = {.classes = 1001, .image_size = 224},
    .build = build,
};
