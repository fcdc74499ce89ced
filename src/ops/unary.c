/* Functions of one number: what networks use besides ReLU and sigmoid, one row each. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/elementwise.h"
#include "exec/op.h"
#include "ops/elements.h"

extern const struct op op_unary;

static float sigmoid_of(float x)
{
    return 1 / (1 + expf(-x));
}

static float cut(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* f(x), and df/dx from x and y = f(x). */
#define FUNCTION(name, value, slope)                                                               \
    static float name##_of(float x, float a, float b)                                              \
    {                                                                                              \
        (void)a, (void)b;                                                                          \
        return value;                                                                              \
    }                                                                                              \
    static float name##_slope(float x, float y, float a, float b)                                  \
    {                                                                                              \
        (void)x, (void)y, (void)a, (void)b;                                                        \
        return slope;                                                                              \
    }

FUNCTION(tanh, tanhf(x), 1 - y * y)
FUNCTION(leaky_relu, x < 0 ? a * x : x, x < 0 ? a : 1)
FUNCTION(elu, x < 0 ? a * expm1f(x) : x, x < 0 ? y + a : 1)
FUNCTION(softplus, fmaxf(x, 0) + log1pf(expf(-fabsf(x))), sigmoid_of(x))
FUNCTION(softsign, x / (1 + fabsf(x)), 1 / ((1 + fabsf(x)) * (1 + fabsf(x))))
FUNCTION(hard_sigmoid, cut(a *x + b, 0, 1), y > 0 && y < 1 ? a : 0)
FUNCTION(hard_swish, x *cut(x / 6 + 0.5f, 0, 1), x<-3 ? 0 : x> 3 ? 1 : x / 3 + 0.5f)
FUNCTION(silu, x *sigmoid_of(x), sigmoid_of(x) + y * (1 - sigmoid_of(x)))
/* 0.3989...: the density of the unit normal at 0, 1 / sqrt(2 pi). */
FUNCTION(gelu, 0.5f * x * (1 + erff(x * 0.70710678f)),
         0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x))
FUNCTION(erf, erff(x), 1.12837917f * expf(-x * x)) /* 2 / sqrt(pi) */
FUNCTION(exp, expf(x), y)
FUNCTION(log, logf(x), 1 / x)
FUNCTION(sqrt, sqrtf(x), 0.5f / y)
FUNCTION(abs, fabsf(x), x > 0 ? 1 : x < 0 ? -1 : 0)
FUNCTION(negate, -x, -1)
FUNCTION(reciprocal, 1 / x, -y *y)
FUNCTION(power, powf(x, a), a *powf(x, a - 1))

static const struct {
    const char *name;
    float (*of)(float x, float alpha, float beta);
    float (*slope)(float x, float y, float alpha, float beta);
} functions[] = {
#define ROW(kind, name) [kind] = {#name, name##_of, name##_slope}
    ROW(UNARY_TANH, tanh),
    ROW(UNARY_LEAKY_RELU, leaky_relu),
    ROW(UNARY_ELU, elu),
    ROW(UNARY_SOFTPLUS, softplus),
    ROW(UNARY_SOFTSIGN, softsign),
    ROW(UNARY_HARD_SIGMOID, hard_sigmoid),
    ROW(UNARY_HARD_SWISH, hard_swish),
    ROW(UNARY_SILU, silu),
    ROW(UNARY_GELU, gelu),
    ROW(UNARY_ERF, erf),
    ROW(UNARY_EXP, exp),
    ROW(UNARY_LOG, log),
    ROW(UNARY_SQRT, sqrt),
    ROW(UNARY_ABS, abs),
    ROW(UNARY_NEGATE, negate),
    ROW(UNARY_RECIPROCAL, reciprocal),
    ROW(UNARY_POWER, power),
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

struct state {
    size_t count;
};

/* In row-major order: most of these make something else of a blocked layout's zero padding. */
static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a function");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct layout plain = layout_plain(&shape);
    state->count = (size_t)shape_count(&shape);
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, &plain);
    builder_output(builder, node, &plain);
    if (!builder_is_training(builder))
        builder_allow_overwrite(builder, node, 0);
    builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_OUTPUT, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &plain);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, &plain);
    builder_gradient_in_place(builder, node);
    return 0;
}

static void forward(const struct op_run *run)
{
    const struct unary_attributes *a = run->node->node->attributes;
    size_t count = ((const struct state *)run->state)->count;
    const float *x = run->inputs[0];
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t i = 0; i < count; i++)
        run->output[i] = functions[a->kind].of(x[i], a->alpha, a->beta);
}

static void backward(const struct op_run *run)
{
    const struct unary_attributes *a = run->node->node->attributes;
    size_t count = ((const struct state *)run->state)->count;
    const float *x = run->inputs[0], *y = run->output, *gradient = run->gradients[0];
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t i = 0; i < count; i++)
        run->input_gradients[0][i] =
            gradient[i] * functions[a->kind].slope(x[i], y[i], a->alpha, a->beta);
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_unary(struct graph *graph, value_id x, enum unary kind, float alpha, float beta)
{
    if ((int)kind < 0 || (int)kind >= FUNCTIONS)
        return graph_fail(graph, "there is no function %d", (int)kind);
    if (!graph_holds(graph, x, functions[kind].name))
        return -1;
    return graph_node(graph, &op_unary, graph_make_name(graph, functions[kind].name),
                      &(struct unary_attributes){kind, alpha, beta}, &x, 1);
}

/* Logarithm, root and their kind need numbers above zero, which the exponential function gives. */
static value_id example(struct graph *graph, int variant)
{
    if (variant >= FUNCTIONS)
        return -1;
    bool positive = variant == UNARY_LOG || variant == UNARY_SQRT || variant == UNARY_POWER ||
                    variant == UNARY_RECIPROCAL;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5));
    if (positive)
        x = lockstep_unary(graph, x, UNARY_EXP, 0, 0);
    return lockstep_unary(graph, x, (enum unary)variant, 0.3f, 0.4f);
}

const struct op op_unary = {.name = "unary",
                            .attributes_size = sizeof(struct unary_attributes),
                            .infer = op_infer_same,
                            .kernels = kernels,
                            .example = example};
