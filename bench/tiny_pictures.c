/* A network that costs almost nothing, so that only reading pictures takes time. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = image_input(graph, 3, args->image_size); /* [N, 3, 224, 224] */
    x = flatten(graph, global_avg_pool(graph, x));
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "tiny_pictures",
    .summary = "the mean colour of a picture and one dense layer",
    .dataset = "synthetic",
    .recipe = "--optimizer=sgd --lr=1e-4",
    .defaults = {.classes = 1001, .image_size = 224},
    .build = build,
};
