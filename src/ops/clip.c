/* min(max(x, low), high): ReLU6 and its kind. */
#include <math.h>

#include "base/arena.h"
#include "base/clones.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/op.h"
#include "ops/elements.h"

extern const struct op op_clip;

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct clip_attributes *a = node->attributes;
    if (!(a->low <= a->high))
        return error_set(err, ERROR_FORMAT, "nothing lies between %g and %g", (double)a->low,
                         (double)a->high);
    out->shape = graph_value(graph, node->inputs[0])->shape;
    return 0;
}

struct state {
    size_t count;
};

/* The padding of a blocked layout must stay zero: where zero itself is cut, row-major order. */
static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    const struct clip_attributes *a = node->node->attributes;
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a clip");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct layout plain = layout_plain(&shape);
    bool keeps_zero = a->low <= 0 && a->high >= 0;
    const struct layout *layout = keeps_zero ? builder_layout(builder, node->inputs[0]) : &plain;
    state->count = layout_bytes(layout) / sizeof(float);
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, layout);
    builder_output(builder, node, layout);
    builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, layout);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, layout);
    builder_gradient_in_place(builder, node);
    return 0;
}

/* Written so that a NaN passes through and stays visible. */
KERNEL_CLONES static void clip_piece(float *out, const float *in, float low, float high,
                                     size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float x = in[i] < low ? low : in[i];
        out[i] = x > high ? high : x;
    }
}

/* At the limits themselves the gradient is 0, as PyTorch has it: the result alone tells. */
KERNEL_CLONES static void gradient_piece(float *out, const float *gradient, const float *y,
                                         float low, float high, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float own = gradient[i]; /* read in any case: a branch would be guessed wrong */
        out[i] = y[i] > low && y[i] < high ? own : 0;
    }
}

static size_t piece_length(size_t first, size_t count)
{
    return count - first < ELEMENTWISE_PIECE ? count - first : ELEMENTWISE_PIECE;
}

static void forward(const struct op_run *run)
{
    const struct clip_attributes *a = run->node->node->attributes;
    size_t count = ((const struct state *)run->state)->count;
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE)
        clip_piece(run->output + at, run->inputs[0] + at, a->low, a->high, piece_length(at, count));
}

static void backward(const struct op_run *run)
{
    const struct clip_attributes *a = run->node->node->attributes;
    size_t count = ((const struct state *)run->state)->count;
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE)
        gradient_piece(run->input_gradients[0] + at, run->gradients[0] + at, run->output + at,
                       a->low, a->high, piece_length(at, count));
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_clip(struct graph *graph, value_id x, float low, float high)
{
    if (!graph_holds(graph, x, "clip"))
        return -1;
    return graph_node(graph, &op_clip, graph_make_name(graph, "clip"),
                      &(struct clip_attributes){low, high}, &x, 1);
}

static value_id example(struct graph *graph, int variant)
{
    static const struct clip_attributes variants[] = {{-0.6f, 0.9f}, {0.3f, INFINITY}};
    if (variant >= (int)(sizeof variants / sizeof variants[0]))
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    return lockstep_clip(graph, x, variants[variant].low, variants[variant].high);
}

const struct op op_clip = {.name = "clip",
                           .attributes_size = sizeof(struct clip_attributes),
                           .infer = infer,
                           .kernels = kernels,
                           .example = example};
