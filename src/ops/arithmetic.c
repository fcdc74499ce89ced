/* a + b, a - b, a * b, a / b element by element, where a dimension of one is repeated as often as
 * the other operand has it (numpy's broadcasting). Equal shapes are added by `add`, which other
 * operations can take in. An operand may be a parameter. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"
#include "ops/elements.h"

extern const struct op op_arithmetic;

static const char *const names[] = {"sum", "difference", "product", "quotient"};

static int64_t dim_from_back(const struct shape *shape, int back)
{
    return back < shape->ndim ? shape->dim[shape->ndim - 1 - back] : 1;
}

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct shape *a = &graph_value(graph, node->inputs[0])->shape;
    const struct shape *b = &graph_value(graph, node->inputs[1])->shape;
    char left[96], right[96];
    out->shape.ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    bool fits = true;
    for (int i = 0; i < out->shape.ndim; i++) {
        int64_t x = dim_from_back(a, i), y = dim_from_back(b, i);
        fits = fits && (x == y || x == 1 || y == 1);
        out->shape.dim[out->shape.ndim - 1 - i] = x == 1 ? y : x;
    }
    for (int i = 0; i < out->shape.ndim; i++)
        fits = fits && (out->shape.dim[i] == SHAPE_BATCH) == (i == 0);
    if (!fits)
        return error_set(err, ERROR_FORMAT, "%s and %s do not fit together",
                         shape_text(a, left, sizeof left), shape_text(b, right, sizeof right));
    return 0;
}

/* How far apart two neighbours along each dimension of the result lie in an operand; 0 where it is
 * repeated. */
struct operand {
    int64_t step[TENSOR_MAX_DIMS];
    int64_t count;
};

struct state {
    struct shape shape; /* of the result */
    int64_t rows, length;
    struct operand operands[2];
};

static struct operand describe(const struct shape *result, const struct shape *own)
{
    struct operand operand = {.count = shape_count(own)};
    int64_t step = 1;
    for (int i = 0; i < result->ndim; i++) {
        int64_t size = dim_from_back(own, i);
        operand.step[result->ndim - 1 - i] = size == 1 ? 0 : step;
        step *= size;
    }
    return operand;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for arithmetic");
    node->state = state;
    state->shape = builder_shape(builder, node->output);
    state->length = state->shape.dim[state->shape.ndim - 1];
    state->rows = shape_count(&state->shape) / state->length;
    struct layout plain = layout_plain(&state->shape);
    builder_output(builder, node, &plain);
    for (int i = 0; i < 2; i++) {
        struct shape shape = builder_shape(builder, node->inputs[i]);
        struct layout own = layout_plain(&shape);
        state->operands[i] = describe(&state->shape, &shape);
        builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + i, &own);
        builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT + i, &own);
        builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + i, &own);
    }
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &plain);
    return 0;
}

/* Where row `row` of the result finds its numbers in an operand. */
static int64_t row_start(const struct state *state, const struct operand *operand, int64_t row)
{
    int64_t start = 0;
    for (int i = state->shape.ndim - 2; i >= 0; i--) {
        start += row % state->shape.dim[i] * operand->step[i];
        row /= state->shape.dim[i];
    }
    return start;
}

/* a, b: steps of 0 or 1 along the row. */
static void forward_row(enum arithmetic kind, const float *a, int64_t a_step, const float *b,
                        int64_t b_step, float *out, int64_t length)
{
#define EACH(formula)                                                                              \
    for (int64_t i = 0; i < length; i++) {                                                         \
        float x = a[i * a_step], y = b[i * b_step];                                                \
        out[i] = formula;                                                                          \
    }                                                                                              \
    break
    switch (kind) {
    case ARITHMETIC_ADD:
        EACH(x + y);
    case ARITHMETIC_SUBTRACT:
        EACH(x - y);
    case ARITHMETIC_MULTIPLY:
        EACH(x * y);
    case ARITHMETIC_DIVIDE:
        EACH(x / y);
    }
#undef EACH
}

static void forward(const struct op_run *run)
{
    const struct arithmetic_attributes *attributes = run->node->node->attributes;
    const struct state *state = run->state;
    const struct operand *a = &state->operands[0], *b = &state->operands[1];
    int last = state->shape.ndim - 1;
#pragma omp parallel for schedule(static) if (state->rows * state->length > 16384)
    for (int64_t row = 0; row < state->rows; row++)
        forward_row(attributes->kind, run->inputs[0] + row_start(state, a, row), a->step[last],
                    run->inputs[1] + row_start(state, b, row), b->step[last],
                    run->output + row * state->length, state->length);
}

/* d result / d operand, times the result's gradient. */
static double slope(enum arithmetic kind, int operand, double x, double y, double gradient)
{
    switch (kind) {
    case ARITHMETIC_ADD:
        return gradient;
    case ARITHMETIC_SUBTRACT:
        return operand ? -gradient : gradient;
    case ARITHMETIC_MULTIPLY:
        return gradient * (operand ? x : y);
    case ARITHMETIC_DIVIDE:
        return operand ? -gradient * x / (y * y) : gradient / y;
    }
    return 0;
}

/* The share of one element of the operand: the sum over the places where it was repeated, in
 * their order in memory, so that threads do not matter. */
static float gather(const struct op_run *run, int operand, int64_t index)
{
    const struct arithmetic_attributes *attributes = run->node->node->attributes;
    const struct state *state = run->state;
    const struct operand *a = &state->operands[0], *b = &state->operands[1];
    const struct operand *own = &state->operands[operand];
    int64_t place[TENSOR_MAX_DIMS] = {0}; /* in the result: its own dimensions are fixed */
    int64_t rest = index;
    for (int i = 0; i < state->shape.ndim; i++)
        if (own->step[i]) {
            place[i] = rest / own->step[i];
            rest %= own->step[i];
        }
    double sum = 0;
    for (;;) {
        int64_t at = 0, left = 0, right = 0;
        for (int i = 0; i < state->shape.ndim; i++) {
            at = at * state->shape.dim[i] + place[i];
            left += place[i] * a->step[i];
            right += place[i] * b->step[i];
        }
        sum += slope(attributes->kind, operand, (double)run->inputs[0][left],
                     (double)run->inputs[1][right], (double)run->gradients[0][at]);
        int i = state->shape.ndim - 1;
        for (; i >= 0; i--) {
            if (own->step[i])
                continue;
            if (++place[i] < state->shape.dim[i])
                break;
            place[i] = 0;
        }
        if (i < 0)
            return (float)sum;
    }
}

static void backward(const struct op_run *run)
{
    const struct state *state = run->state;
    for (int operand = 0; operand < 2; operand++) {
        float *out = run->input_gradients[operand];
        int64_t count = state->operands[operand].count;
        if (!out)
            continue;
#pragma omp parallel for schedule(static) if (state->rows * state->length > 16384)
        for (int64_t i = 0; i < count; i++)
            out[i] = gather(run, operand, i);
    }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_arithmetic(struct graph *graph, value_id a, value_id b, enum arithmetic kind)
{
    if ((int)kind < 0 || kind > ARITHMETIC_DIVIDE)
        return graph_fail(graph, "there is no arithmetic %d", (int)kind);
    if (!graph_holds(graph, a, names[kind]) || !graph_holds(graph, b, names[kind]))
        return -1;
    const struct value *x = graph_value(graph, a), *y = graph_value(graph, b);
    if (kind == ARITHMETIC_ADD && shape_equal(&x->shape, &y->shape) && x->kind != VALUE_PARAM &&
        y->kind != VALUE_PARAM)
        return lockstep_add(graph, a, b);
    value_id inputs[] = {a, b};
    return graph_node(graph, &op_arithmetic, graph_make_name(graph, names[kind]),
                      &(struct arithmetic_attributes){kind}, inputs, 2);
}

/* By turns: rows repeated, columns repeated, nothing repeated, a parameter. */
static value_id example(struct graph *graph, int variant)
{
    static const struct shape shapes[] = {
        {4, {SHAPE_BATCH, 3, 1, 1}}, {4, {SHAPE_BATCH, 1, 4, 5}}, {4, {SHAPE_BATCH, 3, 4, 5}}};
    if (variant >= 16)
        return -1;
    enum arithmetic kind = (enum arithmetic)(variant / 4);
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3, 4, 5)), y;
    if (variant % 4 == 3)
        y = graph_param(graph, "y", SHAPE(3, 1, 5), (struct initializer){INIT_NORMAL, .value = 1},
                        PARAM_TRAINABLE);
    else
        y = lockstep_input(graph, "y", DTYPE_F32, shapes[variant % 4]);
    if (kind == ARITHMETIC_DIVIDE && variant % 4 != 3)
        y = lockstep_unary(graph, y, UNARY_EXP, 0, 0); /* away from zero */
    if (kind == ARITHMETIC_DIVIDE && variant % 4 == 3)
        return lockstep_arithmetic(graph, y, lockstep_unary(graph, x, UNARY_EXP, 0, 0), kind);
    return lockstep_arithmetic(graph, x, y, kind);
}

const struct op op_arithmetic = {.name = "arithmetic",
                                 .attributes_size = sizeof(struct arithmetic_attributes),
                                 .infer = infer,
                                 .kernels = kernels,
                                 .example = example};
