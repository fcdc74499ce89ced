/* Cross-entropy of sigmoid(logits) and labels in [0, 1], both [N, K], or labels [N] where K is 1:
 * one loss per example, the mean over K. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"

extern const struct op op_sigmoid_cross_entropy;

struct attributes {
    float label_smoothing;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct attributes *a = node->attributes;
    const struct value *logits = graph_value(graph, node->inputs[0]);
    const struct value *labels = graph_value(graph, node->inputs[1]);
    bool single = labels->shape.ndim == 1 && logits->shape.dim[1] == 1;
    if (labels->dtype != DTYPE_F32 || logits->shape.ndim != 2 ||
        !(single || shape_equal(&logits->shape, &labels->shape)))
        return error_set(err, ERROR_FORMAT,
                         "logits and labels must both be float32 [N, K], or labels [N] for K = 1");
    if (!(a->label_smoothing >= 0 && a->label_smoothing < 1))
        return error_set(err, ERROR_FORMAT, "label smoothing of %g; it must be in [0, 1)",
                         (double)a->label_smoothing);
    out->shape = SHAPE(logits->shape.dim[0]);
    return 0;
}

struct state {
    int64_t rows, width;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a loss");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct shape rows = builder_shape(builder, node->output);
    struct shape label_shape = builder_shape(builder, node->inputs[1]);
    struct layout plain = layout_plain(&shape), losses = layout_plain(&rows);
    struct layout labels = layout_plain(&label_shape);
    *state = (struct state){shape.dim[0], shape.dim[1]};
    node->state = state;
    for (int pass = PASS_FORWARD; pass < PASS_COUNT; pass += PASS_BACKWARD) {
        builder_use(builder, node, (enum op_pass)pass, ROLE_INPUT, &plain);
        builder_use(builder, node, (enum op_pass)pass, ROLE_INPUT + 1, &labels);
    }
    builder_output(builder, node, &losses);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &losses);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, &plain);
    return 0;
}

static float smooth(float label, float smoothing)
{
    return label * (1 - smoothing) + smoothing / 2;
}

/* max(x, 0) - x * z + log(1 + exp(-|x|)): never overflows. */
static void forward(const struct op_run *run)
{
    const struct attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
    for (int64_t n = 0; n < state->rows; n++) {
        double sum = 0;
        for (int64_t k = 0; k < state->width; k++) {
            float x = run->inputs[0][n * state->width + k];
            float z = smooth(run->inputs[1][n * state->width + k], a->label_smoothing);
            sum += (double)(fmaxf(x, 0) - x * z + log1pf(expf(-fabsf(x))));
        }
        run->output[n] = (float)(sum / (double)state->width);
    }
}

static void backward(const struct op_run *run)
{
    const struct attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
    for (int64_t n = 0; n < state->rows; n++) {
        float scale = run->gradients[0][n] / (float)state->width;
        for (int64_t k = 0; k < state->width; k++) {
            int64_t i = n * state->width + k;
            float z = smooth(run->inputs[1][i], a->label_smoothing);
            run->input_gradients[0][i] = scale * (1 / (1 + expf(-run->inputs[0][i])) - z);
        }
    }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_sigmoid_cross_entropy(struct graph *graph, value_id logits, value_id labels,
                                        struct loss_options options)
{
    if (!graph_holds(graph, logits, "sigmoid_cross_entropy") ||
        !graph_holds(graph, labels, "sigmoid_cross_entropy"))
        return -1;
    const char *name =
        options.name ? options.name : graph_make_name(graph, "sigmoid_cross_entropy");
    value_id inputs[] = {logits, labels};
    return graph_node(graph, &op_sigmoid_cross_entropy, name,
                      &(struct attributes){options.label_smoothing}, inputs, 2);
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 1)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, variant ? 1 : 3));
    struct shape shape = variant ? SHAPE(SHAPE_BATCH) : SHAPE(SHAPE_BATCH, 3);
    value_id labels = lockstep_input(graph, "target", DTYPE_F32, shape);
    return lockstep_sigmoid_cross_entropy(graph, x, labels, (struct loss_options){0});
}

const struct op op_sigmoid_cross_entropy = {
    .name = "sigmoid_cross_entropy",
    .attributes_size = sizeof(struct attributes),
    .infer = infer,
    .kernels = kernels,
    .example = example,
};
