/* Rows of a table, one per categorical column, behind each other or summed.
 *
 * All columns share one table, their rows behind each other: one gather, one list of rows in the
 * backward pass and one to exchange, instead of 26. Which rows are whose is in the attributes, for
 * who writes a table per column.
 *
 * What follows the rows in the next layer's input is put there by this op, too (`append`), so that
 * the wide part of a concatenation is written once, where it is needed. */
#include "ops/embedding.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"

static int check_extra(const struct graph *graph, const struct node *node, struct value *out,
                       struct error *err)
{
    const struct embedding_attributes *a = node->attributes;
    if (node->input_count <= EMBEDDING_EXTRA || a->sum)
        return 0;
    const struct shape *extra = &graph_value(graph, node->inputs[EMBEDDING_EXTRA])->shape;
    if (extra->ndim != 2 || extra->dim[0] != SHAPE_BATCH)
        return error_set(err, ERROR_FORMAT, "what is appended must be [N, K]");
    out->shape.dim[1] += extra->dim[1];
    return 0;
}

static int infer(const struct graph *graph, const struct node *node, struct value *out,
                 struct error *err)
{
    const struct embedding_attributes *a = node->attributes;
    const struct value *x = graph_value(graph, node->inputs[EMBEDDING_X]);
    out->dtype = DTYPE_F32;
    out->shape = SHAPE(x->shape.dim[0], a->sum ? a->dim : (int64_t)a->columns * a->dim);
    return check_extra(graph, node, out, err);
}

static struct embedding_state *make_state(struct plan_builder *builder,
                                          const struct plan_node *node)
{
    const struct embedding_attributes *a = node->node->attributes;
    size_t bytes =
        sizeof(struct embedding_state) + (size_t)a->columns * sizeof(struct embedding_column);
    struct embedding_state *state = arena_take(builder_arena(builder), bytes);
    if (!state)
        return NULL;
    int64_t width = builder_shape(builder, node->output).dim[1];
    *state = (struct embedding_state){.batch = builder_batch(builder),
                                      .columns = a->columns,
                                      .dim = a->dim,
                                      .width = width,
                                      .extra = a->sum ? 0 : width - (int64_t)a->columns * a->dim,
                                      .sum = a->sum};
    int64_t first = 0;
    for (int c = 0; c < a->columns; c++) {
        uint64_t buckets = (uint64_t)a->buckets[c];
        state->column[c] = (struct embedding_column){first, buckets, UINT64_MAX / buckets};
        first += a->buckets[c];
    }
    return state;
}

static void declare_backward(struct plan_builder *builder, struct plan_node *node,
                             const struct embedding_state *state, const struct layout *output)
{
    bool bias = state->sum && node->input_count > EMBEDDING_EXTRA;
    builder_buffer(builder, node, ROLE_SCRATCH,
                   embedding_scratch_bytes(state->batch, state->columns));
    builder_sparse_gradient(builder, node, EMBEDDING_TABLE, state->batch * state->columns);
    enum op_pass pass = PASS_BACKWARD_WEIGHTS;
    builder_use(builder, node, pass, ROLE_WORKSPACE, NULL);
    builder_use(builder, node, pass, ROLE_SCRATCH, NULL);
    builder_use(builder, node, pass, ROLE_GRADIENT, output);
    builder_use(builder, node, pass, ROLE_GRADIENT_OF_INPUT + EMBEDDING_TABLE, NULL);
    if (bias)
        builder_use(builder, node, pass, ROLE_GRADIENT_OF_INPUT + EMBEDDING_EXTRA, NULL);
    if (state->extra == 0 || !builder_wants_gradient(builder, node->inputs[EMBEDDING_EXTRA]))
        return;
    struct shape extra = builder_shape(builder, node->inputs[EMBEDDING_EXTRA]);
    struct layout plain = layout_plain(&extra);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT, output);
    builder_use(builder, node, PASS_BACKWARD, ROLE_GRADIENT_OF_INPUT + EMBEDDING_EXTRA, &plain);
}

static int prepare(struct plan_builder *builder, struct plan_node *node, struct error *err)
{
    struct embedding_state *state = make_state(builder, node);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for an embedding");
    node->state = state;
    if (state->batch * state->columns > UINT32_MAX)
        return error_set(err, ERROR_USAGE, "%" PRId64 " categories in a batch; at most %" PRIu32,
                         state->batch * state->columns, UINT32_MAX);
    struct shape shape = builder_shape(builder, node->output);
    struct layout output = layout_plain(&shape);
    builder_kernel_name(builder, node, "%s", node->kernel->name);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + EMBEDDING_X, NULL);
    builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + EMBEDDING_TABLE, NULL);
    if (node->input_count > EMBEDDING_EXTRA) {
        struct shape extra = builder_shape(builder, node->inputs[EMBEDDING_EXTRA]);
        struct layout plain = layout_plain(&extra);
        builder_use(builder, node, PASS_FORWARD, ROLE_INPUT + EMBEDDING_EXTRA, &plain);
    }
    builder_buffer(builder, node, ROLE_WORKSPACE,
                   (size_t)(state->batch * state->columns) * sizeof(int64_t));
    builder_use(builder, node, PASS_FORWARD, ROLE_WORKSPACE, NULL);
    builder_output(builder, node, &output);
    if (builder_is_training(builder))
        declare_backward(builder, node, state, &output);
    return 0;
}

static const struct op_kernel kernel_own = {
    .name = "own",
    .prepare = prepare,
    .pass = {embedding_forward, embedding_backward_weights, embedding_backward},
};

static const struct op_kernel *const kernels[] = {&kernel_own, NULL};

/* --- The builder function --- */

/* Fills the bucket counts; returns the rows of all, or a failure. */
static int64_t count_rows(struct graph *graph, const char *name,
                          const struct embedding_options *options, struct embedding_attributes *a)
{
    int64_t total = 0;
    for (int c = 0; c < a->columns; c++) {
        a->buckets[c] = options->buckets ? options->buckets[c] : options->rows;
        if (a->buckets[c] < 1 || a->buckets[c] > UINT32_MAX)
            return graph_fail(graph,
                              "%s: %" PRId64 " buckets for column %d; between 1 and %" PRIu32, name,
                              a->buckets[c], c + 1, UINT32_MAX);
        total += a->buckets[c];
    }
    return total;
}

static bool right_options(struct graph *graph, const char *name, value_id x, int dim,
                          const struct embedding_options *options)
{
    const struct value *value = graph_value(graph, x);
    if (value->dtype != DTYPE_I64 || value->shape.ndim != 2)
        graph_fail(graph, "%s: an embedding takes fingerprints, int64 [N, columns]", name);
    else if (dim < 1 || value->shape.dim[1] < 1 || value->shape.dim[1] > EMBEDDING_MAX_COLUMNS)
        graph_fail(graph,
                   "%s: %" PRId64 " columns of rows of %d; between 1 and %d columns, rows of "
                   "at least 1",
                   name, value->shape.dim[1], dim, EMBEDDING_MAX_COLUMNS);
    else if (options->bias && options->combine != EMBEDDING_SUM)
        graph_fail(graph, "%s: a bias belongs to rows that are summed", name);
    else if (options->append && options->combine == EMBEDDING_SUM)
        graph_fail(graph, "%s: nothing can be put behind rows that are summed", name);
    else
        return true;
    return false;
}

value_id lockstep_embedding(struct graph *graph, value_id x, int dim,
                            struct embedding_options options)
{
    if (!graph_holds(graph, x, "embedding") ||
        (options.append && !graph_holds(graph, *options.append, "embedding")))
        return -1;
    const char *name = options.name ? options.name : graph_make_name(graph, "embedding");
    if (!right_options(graph, name, x, dim, &options))
        return -1;
    struct embedding_attributes attributes = {
        .dim = dim,
        .columns = (int)graph_value(graph, x)->shape.dim[1],
        .sum = options.combine == EMBEDDING_SUM,
    };
    int64_t rows = count_rows(graph, name, &options, &attributes);
    if (rows < 0)
        return -1;
    if (options.table_init.kind == INIT_DEFAULT)
        options.table_init =
            (struct initializer){INIT_TRUNCATED_NORMAL, .value = 1 / sqrtf((float)dim)};
    value_id inputs[3] = {x};
    int count = 2;
    inputs[EMBEDDING_TABLE] =
        graph_param(graph, graph_join_name(graph, name, "table"), SHAPE(rows, dim),
                    options.table_init, PARAM_TRAINABLE | PARAM_SPARSE);
    if (options.bias)
        inputs[count++] = graph_param(graph, graph_join_name(graph, name, "bias"), SHAPE(dim),
                                      (struct initializer){.kind = INIT_ZEROS}, PARAM_TRAINABLE);
    if (options.append)
        inputs[count++] = *options.append;
    return graph_node(graph, &op_embedding, name, &attributes, inputs, count);
}

static value_id example(struct graph *graph, int variant)
{
    static const int64_t buckets[] = {5, 1, 3000};
    if (variant > 3)
        return -1;
    value_id x = lockstep_input(graph, "x", DTYPE_I64, SHAPE(SHAPE_BATCH, 3));
    if (variant == 0)
        return lockstep_embedding(graph, x, 4, (struct embedding_options){.rows = 3});
    if (variant == 1)
        return lockstep_embedding(
            graph, x, 1,
            (struct embedding_options){.buckets = buckets, .combine = EMBEDDING_SUM, .bias = 1});
    if (variant == 2)
        return lockstep_embedding(graph, x, 9,
                                  (struct embedding_options){.rows = 7, .combine = EMBEDDING_SUM});
    value_id y = lockstep_input(graph, "y", DTYPE_F32, SHAPE(SHAPE_BATCH, 5));
    return lockstep_embedding(graph, x, 8,
                              (struct embedding_options){.buckets = buckets, .append = &y});
}

const struct op op_embedding = {
    .name = "embedding",
    .attributes_size = sizeof(struct embedding_attributes),
    .infer = infer,
    .label_input = 1 + EMBEDDING_X,
    .kernels = kernels,
    .example = example,
};
