/* A network that is trained and saved in milliseconds, with all that a checkpoint must keep: batch
 * norm's statistics, dropout's random stream, convolutions whose channels fill no block. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 1, args->image_size);
    x = batch_norm(graph, conv2d(graph, x, 5, .kernel = 3, .stride = 4, .no_bias = 1));
    x = dropout(graph, relu(graph, flatten(graph, relu(graph, x))), 0.25F);
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "tiny",
    .summary = "one convolution with batch norm and dropout, one dense layer",
    .dataset = "digits",
    .recipe = "--optimizer=adam --lr=0.01 --batch-size=16",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};
