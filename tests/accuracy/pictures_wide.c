/* A small network for pictures of 32 pixels whose convolutions, but the first, have the channels that
 * Winograd's kernels of both strides ask for; it learns in a few passes over few pictures. */
#include <lockstep/model.h>

static value_id layer(struct graph *graph, value_id x, int channels, int stride)
{
    x = conv2d(graph, x, channels, .kernel = 3, .stride = stride, .padding = PADDING_EXPLICIT,
               .pad_before = 1, .pad_after = 1, .no_bias = 1);
    return relu(graph, batch_norm(graph, x));
}

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 3, args->image_size);
    x = layer(graph, layer(graph, x, 64, 2), 64, 1); /* 64x16x16 */
    x = layer(graph, x, 128, 2);                     /* 128x8x8 */
    x = global_avg_pool(graph, max_pool(graph, layer(graph, x, 128, 1), .kernel = 2));
    classifier_output(graph, dense(graph, flatten(graph, x), args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "pictures_wide",
    .summary = "four convolutions of 64 and 128 channels",
    .dataset = "images",
    .recipe = "--optimizer=adam --lr=0.002 --batch-size=32",
    .defaults = {.classes = 10, .image_size = 32},
    .build = build,
};
