/* A network for MNIST whose second convolution has the channels that Winograd's kernels ask for. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size);
    x = max_pool(graph, relu(graph, conv2d(graph, x, 64, .kernel = 3, .padding = PADDING_SAME)),
                 .kernel = 2); /* 64x14x14 */
    x = max_pool(graph, relu(graph, conv2d(graph, x, 64, .kernel = 3, .padding = PADDING_SAME)),
                 .kernel = 2); /* 64x7x7 */
    x = relu(graph, dense(graph, flatten(graph, x), 64));
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "mnist_wide",
    .summary = "two convolutions of 64 channels, two dense layers",
    .dataset = "mnist",
    .recipe = "--optimizer=adam --lr=0.001 --batch-size=64",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};
