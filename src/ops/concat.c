/* Puts values behind each other along the channels (axis 1). */
#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"

extern const struct op op_concat;

enum { CONCAT_MAX_INPUTS = 10, WIDEST_BLOCK = 16 };

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    out->shape = graph_value(graph, node->inputs[0])->shape;
    if (out->shape.ndim < 2)
        return error_set(err, ERROR_FORMAT, "a concatenation needs channels");
    for (int i = 1; i < node->input_count; i++) {
        struct shape next = graph_value(graph, node->inputs[i])->shape;
        int64_t channels = next.dim[1];
        next.dim[1] = out->shape.dim[1];
        if (!shape_equal(&next, &out->shape)) {
            char text[96];
            next.dim[1] = channels;
            return error_set(err, ERROR_FORMAT, "input %d is %s: only the channels may differ", i,
                             shape_text(&next, text, sizeof text));
        }
        out->shape.dim[1] += channels;
    }
    return 0;
}

struct state {
    struct dnn_call *forward, *backward[CONCAT_MAX_INPUTS];
};

/* The kernels' own layout when every part fills whole blocks; else row-major. */
static struct layout part_layout(const struct plan_builder *builder, const struct plan_node *node,
                                 int input)
{
    struct shape shape = builder_shape(builder, node->inputs[input]);
    struct layout_form first, form;
    bool whole = layout_form(builder_layout(builder, node->inputs[0]), &first);
    for (int i = 0; i < node->input_count; i++)
        whole = whole && layout_form(builder_layout(builder, node->inputs[i]), &form) &&
                form.inner == first.inner && form.blocks > 0 && form.inner > 1 &&
                form.inner <= WIDEST_BLOCK && form.channels % WIDEST_BLOCK == 0;
    return whole ? *builder_layout(builder, node->inputs[input]) : layout_plain(&shape);
}

static int prepare_backward(struct plan_builder *builder, struct plan_node *node,
                            const struct layout *whole, const struct layout *parts,
                            struct state *state, struct error *err)
{
    static const enum dnn_argument arguments[] = {DNN_FROM, DNN_TO};
    int64_t first = 0;
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, whole);
    for (int i = 0; i < node->input_count; i++) {
        int64_t channels = builder_shape(builder, node->inputs[i]).dim[1];
        if (builder_wants_gradient(builder, node->inputs[i])) {
            struct dnn_primitive *slice = NULL;
            const int roles[] = {ROLE_GRADIENT, ROLE_GRADIENT_OF_INPUT + i};
            if (dnn_slice(whole, first, &parts[i], &slice, err) < 0)
                return -1;
            builder_own(builder, slice);
            state->backward[i] =
                builder_call(builder, node, PASS_BACKWARD, slice, 2, arguments, roles, err);
            if (!state->backward[i])
                return -1;
        }
        first += channels;
    }
    return 0;
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a concatenation");
    node->state = state;
    struct layout parts[CONCAT_MAX_INPUTS];
    const struct layout *sources[CONCAT_MAX_INPUTS];
    enum dnn_argument arguments[CONCAT_MAX_INPUTS + 1];
    int roles[CONCAT_MAX_INPUTS + 1];
    for (int i = 0; i < node->input_count; i++) {
        parts[i] = part_layout(builder, node, i);
        sources[i] = &parts[i];
        arguments[i] = (enum dnn_argument)(DNN_MULTIPLE_SRC + i);
        roles[i] = ROLE_INPUT + i;
    }
    arguments[node->input_count] = DNN_DST;
    roles[node->input_count] = ROLE_OUTPUT;
    struct dnn_primitive *concat = NULL;
    if (dnn_concat(sources, node->input_count, &concat, err) < 0)
        return -1;
    builder_own(builder, concat);
    builder_kernel_name(builder, node, "%s", dnn_kernel(concat));
    struct layout whole = dnn_layout(concat, DNN_DST);
    builder_output(builder, node, &whole);
    state->forward = builder_call(builder, node, PASS_FORWARD, concat, node->input_count + 1,
                                  arguments, roles, err);
    if (!state->forward)
        return -1;
    return builder_is_training(builder) ? prepare_backward(builder, node, &whole, parts, state, err)
                                        : 0;
}

static void forward(const struct op_run *run)
{
    dnn_call_run(((const struct state *)run->state)->forward);
}

static void backward(const struct op_run *run)
{
    const struct state *state = run->state;
    for (int i = 0; i < run->node->input_count; i++)
        if (state->backward[i])
            dnn_call_run(state->backward[i]);
}

static const struct op_kernel kernel_dnn = {
    .name = "onednn",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_dnn, NULL};

value_id lockstep_concat(struct graph *graph, const value_id *values, int count)
{
    for (int i = 0; i < count; i++)
        if (!graph_holds(graph, values[i], "concat"))
            return -1;
    if (count < 1 || count > CONCAT_MAX_INPUTS)
        return graph_fail(graph, "a concatenation of %d values; between 1 and %d", count,
                          CONCAT_MAX_INPUTS);
    return graph_node(graph, &op_concat, graph_make_name(graph, "concat"), NULL, values, count);
}

static value_id example(struct graph *graph, int variant)
{
    static const int channels[][3] = {{3, 5, 2}, {16, 16, 32}};
    if (variant >= (int)(sizeof channels / sizeof channels[0]))
        return -1;
    static const char *const names[] = {"x", "y", "z"};
    value_id parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = lockstep_input(graph, names[i], DTYPE_F32,
                                  SHAPE(SHAPE_BATCH, channels[variant][i], 3, 4));
    return lockstep_concat(graph, parts, 3);
}

const struct op op_concat = {
    .name = "concat", .infer = infer, .kernels = kernels, .example = example};
