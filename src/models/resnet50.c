/* ResNet-50 v1.5 (He et al. 2015; "v1.5": the stride sits on the 3x3 convolution, not on the
 * first 1x1), as TensorFlow's official model has it: padding that does not depend on the image
 * size, batch norm with momentum 0.9 and epsilon 1e-5, no decay on batch norm. */
#include <lockstep/model.h>
#include <stdio.h>

static value_id conv_norm(struct graph *graph, value_id x, int channels, int kernel, int stride,
                          const char *block, const char *name)
{
    char conv_name[64], norm_name[64];
    snprintf(conv_name, sizeof conv_name, "%sconv%s", block, name);
    snprintf(norm_name, sizeof norm_name, "%snorm%s", block, name);
    int padding = (kernel - 1) / 2;
    x = conv2d(graph, x, channels, .kernel = kernel, .stride = stride, .padding = PADDING_EXPLICIT,
               .pad_before = padding, .pad_after = padding, .no_bias = 1,
               .weights_init = {INIT_VARIANCE_SCALING, 1}, .name = conv_name);
    return batch_norm(graph, x, .momentum = 0.9f, .epsilon = 1e-5f, .name = norm_name);
}

/* 1x1 down to `channels`, 3x3 with the stride, 1x1 up to four times as many; and around. */
static value_id bottleneck(struct graph *graph, value_id x, int channels, int stride, int project,
                           const char *block)
{
    value_id around = project ? conv_norm(graph, x, channels * 4, 1, stride, block, "_around") : x;
    value_id y = relu(graph, conv_norm(graph, x, channels, 1, 1, block, "1"));
    y = relu(graph, conv_norm(graph, y, channels, 3, stride, block, "2"));
    y = conv_norm(graph, y, channels * 4, 1, 1, block, "3");
    return relu(graph, add(graph, y, around));
}

static void build(struct graph *graph, const struct model_args *args)
{
    static const int blocks[] = {3, 4, 6, 3};
    value_id x = image_input(graph, 3, args->image_size); /* [N, 3, 224, 224] */
    x = relu(graph, conv_norm(graph, x, 64, 7, 2, "stem/", ""));
    x = max_pool(graph, x, .kernel = 3, .stride = 2, .padding = PADDING_SAME);
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            char block[32];
            snprintf(block, sizeof block, "stage%d/block%d/", stage + 1, i + 1);
            int stride = stage > 0 && i == 0 ? 2 : 1;
            x = bottleneck(graph, x, 64 << stage, stride, i == 0, block);
        }
    x = flatten(graph, global_avg_pool(graph, x)); /* [N, 2048] */
    x = dense(graph, x, args->classes, .weights_init = {INIT_NORMAL, 0.01f}, .name = "dense");
    classifier_output(graph, x);
}

const struct model model_resnet50 = {
    .name = "resnet50",
    .summary = "ResNet-50 v1.5: 53 convolutions, residual blocks, 25.6 million parameters",
    .dataset = "synthetic",
    .recipe = "--batch-size=64 --optimizer=momentum --momentum=0.9 --weight-decay=1e-4 "
              "--lr=0.128/256 --warmup-epochs=5 "
              "--schedule=piecewise:30=0.1,60=0.01,80=0.001,90=0.0001",
    .defaults = {.classes = 1001, .image_size = 224},
    .build = build,
};
