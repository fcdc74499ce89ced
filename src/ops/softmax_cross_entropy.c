/* Cross-entropy of softmax(logits [N, classes]) and labels [N]: one loss per example. A label
 * outside the classes gives a NaN, which training reports, rather than a wild read. */
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"

extern const struct op op_softmax_cross_entropy;

struct attributes {
    float label_smoothing;
};

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct attributes *a = node->attributes;
    const struct value *logits = graph_value(graph, node->inputs[0]);
    const struct value *labels = graph_value(graph, node->inputs[1]);
    if (logits->shape.ndim != 2)
        return error_set(err, ERROR_FORMAT, "logits have %d dimensions; [N, classes] wanted",
                         logits->shape.ndim);
    if (labels->dtype != DTYPE_I32 || labels->shape.ndim != 1)
        return error_set(err, ERROR_FORMAT, "labels must be int32 of shape [N]");
    if (!(a->label_smoothing >= 0 && a->label_smoothing < 1))
        return error_set(err, ERROR_FORMAT, "label smoothing of %g; it must be in [0, 1)",
                         (double)a->label_smoothing);
    out->shape = SHAPE(logits->shape.dim[0]);
    return 0;
}

struct state {
    int64_t rows, classes;
};

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a loss");
    struct shape shape = builder_shape(builder, node->inputs[0]);
    struct shape rows = builder_shape(builder, node->output);
    struct layout logits = layout_plain(&shape), losses = layout_plain(&rows);
    *state = (struct state){shape.dim[0], shape.dim[1]};
    node->state = state;
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT, &logits);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + 1, NULL);
    builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
    builder_buffer(builder, node, ROLE_WORKSPACE, layout_bytes(&logits));
    builder_output(builder, node, &losses);
    builder_use(builder, node, PASS_BACKWARD, ROLE_INPUT + 1, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_WORKSPACE, NULL);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, &losses);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT, &logits);
    return 0;
}

/* logits, softmax: [classes]. The loss is log(sum) - (target . logits), with the largest logit
 * taken off first so that nothing overflows. */
static float row_forward(const float *logits, int32_t label, int64_t classes, float smoothing,
                         float *softmax)
{
    if (label < 0 || label >= classes)
        return NAN;
    float largest = logits[0];
    for (int64_t c = 1; c < classes; c++)
        largest = logits[c] > largest ? logits[c] : largest;
    double sum = 0, logit_sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        softmax[c] = expf(logits[c] - largest);
        sum += (double)softmax[c];
        logit_sum += (double)(logits[c] - largest);
    }
    float inverse = (float)(1 / sum);
    for (int64_t c = 0; c < classes; c++)
        softmax[c] *= inverse;
    double own = (double)(logits[label] - largest);
    double s = (double)smoothing;
    return (float)(log(sum) - (1 - s) * own - s * logit_sum / (double)classes);
}

static void forward(const struct op_run *run)
{
    const struct attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
    const int32_t *labels = (const int32_t *)(const void *)run->inputs[1];
    float *softmax = run->workspace;
    int64_t classes = state->classes;
#pragma omp parallel for schedule(static) if (state->rows * classes > 16384)
    for (int64_t n = 0; n < state->rows; n++)
        run->output[n] = row_forward(run->inputs[0] + n * classes, labels[n], classes,
                                     a->label_smoothing, softmax + n * classes);
}

static void backward(const struct op_run *run)
{
    const struct attributes *a = run->node->node->attributes;
    const struct state *state = run->state;
    const int32_t *labels = (const int32_t *)(const void *)run->inputs[1];
    int64_t classes = state->classes;
    float rest = a->label_smoothing / (float)classes;
    for (int64_t n = 0; n < state->rows; n++) {
        const float *softmax = (const float *)run->workspace + n * classes;
        float *out = run->input_gradients[0] + n * classes;
        float scale = run->gradients[0][n];
        for (int64_t c = 0; c < classes; c++)
            out[c] = scale * (softmax[c] - rest);
        if (labels[n] >= 0 && labels[n] < classes)
            out[labels[n]] -= scale * (1 - a->label_smoothing);
    }
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {forward, NULL, backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

value_id lockstep_softmax_cross_entropy(struct graph *graph, value_id logits, value_id labels,
                                        struct loss_options options)
{
    if (!graph_holds(graph, logits, "softmax_cross_entropy") ||
        !graph_holds(graph, labels, "softmax_cross_entropy"))
        return -1;
    const char *name =
        options.name ? options.name : graph_make_name(graph, "softmax_cross_entropy");
    value_id inputs[] = {logits, labels};
    return graph_node(graph, &op_softmax_cross_entropy, name,
                      &(struct attributes){options.label_smoothing}, inputs, 2);
}

void lockstep_classifier(struct graph *graph, value_id logits, float label_smoothing)
{
    lockstep_output(graph, "logits", logits);
    value_id labels = lockstep_input(graph, "label", DTYPE_I32, SHAPE(SHAPE_BATCH));
    lockstep_loss(graph, lockstep_softmax_cross_entropy(
                             graph, logits, labels,
                             (struct loss_options){.label_smoothing = label_smoothing}));
}

static value_id example(struct graph *graph, int variant)
{
    if (variant > 1)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 5));
    value_id labels = lockstep_input(graph, "label", DTYPE_I32, SHAPE(SHAPE_BATCH));
    return lockstep_softmax_cross_entropy(
        graph, x, labels, (struct loss_options){.label_smoothing = variant ? 0.1f : 0});
}

const struct op op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .attributes_size = sizeof(struct attributes),
    .label_input = 2,
    .infer = infer,
    .kernels = kernels,
    .example = example,
};
