/* Wide & Deep (Cheng et al. 2016) for tables of numbers and categories, by default Criteo's 13 and
 * 26: a linear model over hashed categories beside a network over their embeddings and the numbers,
 * as TensorFlow's DNNLinearCombinedClassifier has it. Each part has its own update rule. */
#include <lockstep/model.h>
#include <stdio.h>

/* What the first dense layer reads: the rows of all categories, behind them the numbers in [0, 1].
 */
static value_id deep_input(struct graph *graph, value_id category, const struct model_args *args)
{
    value_id numeric = -1;
    if (args->numerics > 0) {
        struct shape shape = {2, {SHAPE_BATCH, args->numerics}};
        numeric = lockstep_input(graph, "numeric", DTYPE_F32, shape);
        numeric = normalize(graph, numeric, .name = "deep/numeric");
    }
    if (args->categoricals < 1)
        return numeric;
    return embedding(graph, category, args->embedding_dim, .rows = args->embedding_rows,
                     .buckets = args->buckets, .append = args->numerics > 0 ? &numeric : NULL,
                     .name = "deep/embedding");
}

static value_id deep_logits(struct graph *graph, value_id x, const struct model_args *args)
{
    for (int i = 0; i < MODEL_MAX_HIDDEN && args->hidden[i] > 0; i++) {
        char name[32];
        snprintf(name, sizeof name, "deep/dense%d", i + 1);
        x = relu(graph, dense(graph, x, args->hidden[i], .name = name));
        if (args->dropout > 0)
            x = dropout(graph, x, args->dropout);
    }
    return dense(graph, x, 1, .name = "deep/logits");
}

static value_id wide_logits(struct graph *graph, value_id category, const struct model_args *args)
{
    return embedding(graph, category, 1, .rows = args->embedding_rows, .buckets = args->buckets,
                     .combine = EMBEDDING_SUM, .bias = 1, .table_init = {.kind = INIT_ZEROS},
                     .name = "wide");
}

static void build(struct graph *graph, const struct model_args *args)
{
    value_id category = -1;
    if (args->categoricals > 0) {
        struct shape shape = {2, {SHAPE_BATCH, args->categoricals}};
        category = lockstep_input(graph, "category", DTYPE_I64, shape);
    }
    value_id logits = deep_logits(graph, deep_input(graph, category, args), args);
    if (args->categoricals > 0)
        logits = add(graph, logits, wide_logits(graph, category, args));
    lockstep_output(graph, "logits", logits);
    value_id label = lockstep_input(graph, "label", DTYPE_F32, (struct shape){1, {SHAPE_BATCH}});
    lockstep_loss(graph, lockstep_sigmoid_cross_entropy(
                             graph, logits, label,
                             (struct loss_options){.label_smoothing = args->label_smoothing}));
}

const struct model model_wide_deep = {
    .name = "wide_deep",
    .summary = "Wide & Deep: a linear model and a network over hashed categories and numbers",
    .dataset = "criteo",
    .recipe = "--batch-size=512 --epochs=10 --optimizer=adagrad --lr=0.001 "
              "--group=wide/=ftrl,lr=0.005",
    .defaults = {.embedding_rows = 1000,
                 .embedding_dim = 32,
                 .numerics = 13,
                 .categoricals = 26,
                 .hidden = {1024, 512, 256}},
    .build = build,
};
