/* exp(x) / sum of exp(x) along one axis, or its logarithm. For results that people read; a loss
 * takes the logits themselves (softmax_cross_entropy). */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"
#include "ops/softmax.h"

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct softmax_attributes *a = node->attributes;
    const struct shape *x = &graph_value(graph, node->inputs[0])->shape;
    if (a->axis < 1 || a->axis >= x->ndim)
        return error_set(err, ERROR_FORMAT, "axis %d of %d dimensions; from 1 on, please", a->axis,
                         x->ndim);
    out->shape = *x;
    return 0;
}

/* Memory as [outer][count][inner]; sums run over count. */
struct state {
    int64_t outer, count, inner;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    const struct softmax_attributes *a = node->node->attributes;
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a softmax");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct layout plain = layout_plain(&shape);
    *state = (struct state){1, shape.dim[a->axis], 1};
    for (int i = 0; i < shape.ndim; i++) {
        if (i < a->axis)
            state->outer *= shape.dim[i];
        if (i > a->axis)
            state->inner *= shape.dim[i];
    }
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, &plain);
    builder_output(builder, node, &plain);
    builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, &plain);
    builder_gradient_in_place(builder, node);
    return 0;
}

/* x, y: `count` numbers, `step` apart. The largest is taken off first: nothing overflows. */
static void forward_one(const float *x, float *y, int64_t count, int64_t step, bool log_of_it)
{
    float largest = x[0];
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        largest = x[i * step] > largest ? x[i * step] : largest;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)(x[i * step] - largest));
    double shift = (double)largest + log(sum);
    for (int64_t i = 0; i < count; i++) {
        double logarithm = (double)x[i * step] - shift;
        y[i * step] = (float)(log_of_it ? logarithm : exp(logarithm));
    }
}

/* dx = y (dy - sum(y dy)); of the logarithm: dx = dy - exp(y) sum(dy). */
static void backward_one(const float *y, const float *dy, float *dx, int64_t count, int64_t step,
                         bool log_of_it)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (log_of_it ? 1 : (double)y[i * step]) * (double)dy[i * step];
    for (int64_t i = 0; i < count; i++) {
        double own = (double)dy[i * step], value = (double)y[i * step];
        dx[i * step] = (float)(log_of_it ? own - exp(value) * sum : value * (own - sum));
    }
}

static void forward(const struct op_run *run)
{
    const struct softmax_attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
#pragma omp parallel for schedule(static) if (state->outer * state->count > 16384)
    for (int64_t o = 0; o < state->outer; o++)
        for (int64_t i = 0; i < state->inner; i++) {
            int64_t at = o * state->count * state->inner + i;
            forward_one(run->inputs[0] + at, run->output + at, state->count, state->inner,
                        a->logarithm);
        }
}

static void backward(const struct op_run *run)
{
    const struct softmax_attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
#pragma omp parallel for schedule(static) if (state->outer * state->count > 16384)
    for (int64_t o = 0; o < state->outer; o++)
        for (int64_t i = 0; i < state->inner; i++) {
            int64_t at = o * state->count * state->inner + i;
            backward_one(run->output + at, run->gradients[0] + at, run->input_gradients[0] + at,
                         state->count, state->inner, a->logarithm);
        }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

static value_id build(struct graph *graph, value_id x, struct softmax_attributes attributes,
                      const char *stem)
{
    if (!graph_holds(graph, x, stem))
        return -1;
    return graph_node(graph, &op_softmax, graph_make_name(graph, stem), &attributes, &x, 1);
}

value_id lockstep_softmax(struct graph *graph, value_id x, int axis)
{
    return build(graph, x, (struct softmax_attributes){.axis = axis}, "softmax");
}

value_id lockstep_log_softmax(struct graph *graph, value_id x, int axis)
{
    return build(graph, x, (struct softmax_attributes){.axis = axis, .logarithm = true},
                 "log_softmax");
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 3)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    int axis = variant / 2 ? 3 : 1;
    return variant % 2 ? lockstep_log_softmax(graph, x, axis) : lockstep_softmax(graph, x, axis);
}

const struct op op_softmax = {.name = "softmax",
                              .attributes_size = sizeof(struct softmax_attributes),
                              .infer = infer,
                              .kernels = kernels,
                              .example = example};
