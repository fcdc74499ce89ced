/* [N, ...] to another [N, ...] of as many elements, row-major: the same memory under another shape.
 * To [N, K] there is flatten, which a dense layer looks through. */
#include "base/error.h"
#include "exec/op.h"
#include "ops/elements.h"

extern const struct op op_reshape;

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct reshape_attributes *a = node->attributes;
    const struct shape *x = &graph_value(graph, node->inputs[0])->shape;
    bool valid =
        a->shape.ndim >= 1 && a->shape.ndim <= TENSOR_MAX_DIMS && a->shape.dim[0] == SHAPE_BATCH;
    for (int i = 1; valid && i < a->shape.ndim; i++)
        valid = a->shape.dim[i] > 0;
    if (!valid || shape_count(&a->shape) != shape_count(x)) {
        char from[96], to[96];
        return error_set(err, ERROR_FORMAT, "%s cannot become %s", shape_text(x, from, sizeof from),
                         shape_text(&a->shape, to, sizeof to));
    }
    out->shape = a->shape;
    return 0;
}

static const struct op_kernel *const kernels[] = {&kernel_view, NULL};

value_id lockstep_reshape(struct graph *graph, value_id x, struct shape shape)
{
    if (!graph_holds(graph, x, "reshape"))
        return -1;
    return graph_node(graph, &op_reshape, graph_make_name(graph, "reshape"),
                      &(struct reshape_attributes){shape}, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 0)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 6, 4, 5));
    return lockstep_reshape(graph, x, SHAPE(SHAPE_BATCH, 3, 2, 20));
}

const struct op op_reshape = {.name = "reshape",
                              .attributes_size = sizeof(struct reshape_attributes),
                              .infer = infer,
                              .kernels = kernels,
                              .example = example};
