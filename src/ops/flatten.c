/* [N, ...] to [N, K], row-major: the same memory under another shape. */
#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/op.h"

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct shape *x = &graph_value(graph, node->inputs[0])->shape;
    if (x->ndim < 2)
        return error_set(err, ERROR_FORMAT, "nothing to flatten in %d dimensions", x->ndim);
    int64_t rest = 1;
    for (int i = 1; i < x->ndim; i++)
        rest *= x->dim[i];
    out->shape = SHAPE(x->dim[0], rest);
    return 0;
}

static const struct op_kernel *const kernels[] = {&kernel_view, NULL};

value_id lockstep_flatten(struct graph *graph, value_id x)
{
    if (!graph_holds(graph, x, "flatten"))
        return -1;
    return graph_node(graph, &op_flatten, graph_make_name(graph, "flatten"), NULL, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    return lockstep_flatten(graph, x);
}

const struct op op_flatten = {
    .name = "flatten", .infer = infer, .kernels = kernels, .example = example};
