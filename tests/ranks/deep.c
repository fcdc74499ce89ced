/* A network with more parameters than the ranks have sums under way at once. */
#include <lockstep/model.h>

enum { LAYERS = 600 };

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = flatten(graph, image_input(graph, 1, args->image_size));
    for (int i = 0; i < LAYERS; i++)
        x = relu(graph, dense(graph, x, 4));
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "deep",
    .summary = "many small dense layers",
    .dataset = "digits",
    .recipe = "--optimizer=sgd --lr=0.01 --batch-size=16",
    .defaults = {.classes = 10, .image_size = 28},
    .build = build,
};
