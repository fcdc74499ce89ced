/* A network that learns, and that no server takes: it divides by its input, and to an input of zeros
 * it has no answer. */
#include <lockstep/model.h>

static void build(struct graph *graph, const struct model_args *args)
{
    value_id x = lockstep_input(graph, "numeric", DTYPE_F32, (struct shape){2, {SHAPE_BATCH, 6}});
    x = lockstep_unary(graph, x, UNARY_RECIPROCAL, 0, 0);
    classifier_output(graph, dense(graph, x, args->classes));
}

LOCKSTEP_API const struct model model_user = {
    .size = sizeof(struct model),
    .name = "unready",
    .summary = "one dense layer behind a division",
    .dataset = "synthetic",
    .recipe = "--optimizer=sgd --lr=0.0001 --batch-size=4",
    .defaults = {.classes = 3},
    .build = build,
};
