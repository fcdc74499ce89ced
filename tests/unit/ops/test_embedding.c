/* What finite differences cannot see: which rows are read, missing values, threads, and that a
 * table's update is what a dense one would be. */
#include <math.h>

#include "base/arena.h"
#include "exec/params_layout.h"
#include "exec/sparse.h"
#include "graph/graph.h"
#include "support/subject.h"
#include "support/test.h"
#include "tensor/random.h"
#include "train/optimizer.h"

enum { COLUMNS = 5, DIM = 12, BATCH = 300 };
static const int64_t buckets[COLUMNS] = {1, 7, 4096, 100003, 3000000000};
static const int64_t small_buckets[COLUMNS] = {1, 7, 2048, 2049, 50021};
static const uint64_t missing = 0x9ae16a3b2f90404f;

static struct subject open_threads(enum embedding_combine combine, int threads)
{
    struct graph *graph = graph_create();
    value_id x = lockstep_input(graph, "x", DTYPE_I64, SHAPE(SHAPE_BATCH, COLUMNS));
    value_id y = lockstep_embedding(
        graph, x, DIM,
        (struct embedding_options){.buckets = small_buckets, .combine = combine, .name = "e"});
    value_id logits = lockstep_dense(graph, y, 1, (struct dense_options){.name = "d"});
    value_id label = lockstep_input(graph, "label", DTYPE_F32, SHAPE(SHAPE_BATCH));
    lockstep_output(graph, "y", y);
    lockstep_loss(graph,
                  lockstep_sigmoid_cross_entropy(graph, logits, label, (struct loss_options){0}));
    struct error err = {0};
    ASSERT_OK(graph_finish(graph, &err), err);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = BATCH, .threads = threads};
    return subject_open_graph(graph, options, 5);
}

static const uint64_t *fingerprints(const struct subject *subject)
{
    for (int i = 0; i < plan_input_count(subject->plan); i++)
        if (strcmp(plan_input_name(subject->plan, i), "x") == 0)
            return subject->inputs[i].data;
    return NULL;
}

TEST(embedding, reads_the_row_of_the_remainder_and_zeros_where_a_value_is_missing)
{
    struct subject subject = open_threads(EMBEDDING_CONCAT, 2);
    struct tensor table = subject_read(&subject, params_find(subject.params, "e/table"));
    uint64_t *x = (uint64_t *)(uintptr_t)fingerprints(&subject);
    x[0] = UINT64_MAX; /* where a division by a reciprocal would be wrong first */
    x[1] = UINT64_MAX / 7 * 7;
    x[2] = UINT64_MAX / 7 * 7 - 1;
    subject_loss(&subject);
    const float *out = subject.outputs[0].data;
    for (int n = 0; n < BATCH; n++) {
        int64_t first = 0;
        for (int c = 0; c < COLUMNS; c++) {
            uint64_t fingerprint = x[n * COLUMNS + c];
            const float *row = (float *)table.data +
                               (first + (int64_t)(fingerprint % (uint64_t)small_buckets[c])) * DIM;
            for (int i = 0; i < DIM; i++)
                ASSERT_NUMBER(out[(n * COLUMNS + c) * DIM + i], ==,
                              fingerprint == missing ? 0 : row[i]);
            first += small_buckets[c];
        }
    }
    subject_close(&subject);
}

static void check_threads(enum embedding_combine combine)
{
    struct subject one = open_threads(combine, 1), three = open_threads(combine, 3);
    subject_gradients(&one);
    subject_gradients(&three);
    ASSERT_INT(one.table_count, ==, 1);
    ASSERT_BYTES(one.tables[0].gradient.data, three.tables[0].gradient.data,
                 tensor_bytes(&one.tables[0].gradient));
    subject_close(&one);
    subject_close(&three);
}

TEST(embedding, has_the_same_gradient_bits_with_any_number_of_threads)
{
    check_threads(EMBEDDING_CONCAT);
    check_threads(EMBEDDING_SUM);
}

TEST(embedding, refuses_what_makes_no_sense)
{
    static const struct {
        struct embedding_options options;
        int dim;
        const char *words;
    } wrong[] = {{{.rows = 0}, 4, "0 buckets for column 1"},
                 {{.rows = 3}, 0, "rows of 0"},
                 {{.rows = 3, .bias = 1}, 4, "a bias belongs to rows that are summed"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct graph *graph = graph_create();
        struct error err = {0};
        value_id x = lockstep_input(graph, "x", DTYPE_I64, SHAPE(SHAPE_BATCH, COLUMNS));
        ASSERT_TRUE(lockstep_embedding(graph, x, wrong[i].dim, wrong[i].options) < 0);
        ASSERT_TRUE(graph_finish(graph, &err) < 0);
        ASSERT_TRUE(strstr(err.message, wrong[i].words) != NULL);
        graph_destroy(graph);
    }
}

/* A table of a hundred gigabytes is refused before anything is touched, with its size. */
TEST(embedding, too_large_for_the_memory_is_refused)
{
    struct graph *graph = graph_create();
    struct error err = {0};
    struct params *params;
    struct plan *plan;
    value_id x = lockstep_input(graph, "x", DTYPE_I64, SHAPE(SHAPE_BATCH, COLUMNS));
    lockstep_output(
        graph, "y",
        lockstep_embedding(graph, x, 1024, (struct embedding_options){.buckets = buckets}));
    ASSERT_OK(graph_finish(graph, &err), err);
    ASSERT_OK(params_create(graph, 1, NULL, &params, &err), err);
    ASSERT_TRUE(plan_create(graph, params,
                            &(struct plan_options){.mode = PLAN_EVALUATE, .batch = 1}, &plan,
                            &err) < 0);
    ASSERT_INT(err.code, ==, ERROR_MEMORY);
    ASSERT_TRUE(strstr(err.message, "GiB needed") != NULL);
    params_destroy(params);
    graph_destroy(graph);
}

/* --- updates: a table against an equal dense parameter --- */

enum { ROWS = 97, STEPS = 4 };

struct twin {
    struct graph *graph;
    struct params *params;
    struct updater *updater;
};

static struct twin open_twin(const char *rule, int dim, unsigned flags)
{
    struct twin twin = {.graph = graph_create()};
    struct error err = {0};
    const struct optimizer *optimizer = optimizer_find(rule);
    struct param_group group = {"", optimizer, optimizer->defaults, 1};
    /* ftrl replaces a start other than 0 at its first step, also where the gradient is 0. */
    struct initializer init = {strcmp(rule, "ftrl") ? INIT_NORMAL : INIT_ZEROS, .value = 0.5F};
    graph_param(twin.graph, "table", SHAPE(ROWS, dim), init, PARAM_TRAINABLE | flags);
    ASSERT_OK(params_create(twin.graph, optimizer->slot_count, NULL, &twin.params, &err), err);
    ASSERT_OK(params_fix(twin.params, true, &err), err);
    ASSERT_OK(params_initialize(twin.params, 3, &err), err);
    ASSERT_OK(updater_create(twin.params, &group, 1, 2, &twin.updater, &err), err);
    updater_initialize_slots(twin.updater);
    return twin;
}

static void close_twin(struct twin *twin)
{
    updater_destroy(twin->updater);
    params_destroy(twin->params);
    graph_destroy(twin->graph);
}

static void step_both(struct twin *sparse, struct twin *dense, int dim, int step)
{
    int64_t rows[ROWS];
    float values[ROWS * 40];
    struct sparse_rows list = {.dim = dim, .limit = ROWS, .rows = rows, .values = values};
    struct random random = {random_key(8, (uint64_t)step), 0};
    memset(params_gradients(dense->params), 0, ROWS * (size_t)dim * sizeof(float));
    for (int64_t row = 0; row < ROWS; row++) {
        if (random_below(&random, 2))
            continue;
        rows[list.count] = row;
        for (int i = 0; i < dim; i++) {
            float gradient = random_normal(&random);
            values[list.count * dim + i] = gradient;
            params_gradients(dense->params)[row * dim + i] = gradient;
        }
        list.count++;
    }
    updater_give_rows(sparse->updater, &list, 1);
    ASSERT_TRUE(updater_gradients_finite(sparse->updater));
    updater_step(sparse->updater, 0.05F, step);
    updater_step(dense->updater, 0.05F, step);
}

TEST(embedding, rows_are_updated_as_a_dense_parameter_would_be)
{
    static const char *const rules[] = {"sgd", "adagrad", "ftrl"};
    static const int dims[] = {1, 3, 8, 33};
    for (int r = 0; r < 3; r++)
        for (int d = 0; d < 4; d++) {
            struct twin sparse = open_twin(rules[r], dims[d], PARAM_SPARSE);
            struct twin dense = open_twin(rules[r], dims[d], 0);
            for (int step = 1; step <= STEPS; step++)
                step_both(&sparse, &dense, dims[d], step);
            size_t bytes = ROWS * (size_t)dims[d] * sizeof(float);
            ASSERT_BYTES(params_weights(sparse.params), params_weights(dense.params), bytes);
            for (int slot = 0; slot < params_slots(sparse.params); slot++)
                ASSERT_BYTES(params_slot(sparse.params, slot), params_slot(dense.params, slot),
                             bytes);
            close_twin(&sparse);
            close_twin(&dense);
        }
}

TEST(embedding, a_gradient_that_is_not_finite_is_seen)
{
    struct twin twin = open_twin("adagrad", 1, PARAM_SPARSE);
    int64_t row = 5;
    float value = NAN;
    struct sparse_rows list = {.dim = 1, .limit = 1, .count = 1, .rows = &row, .values = &value};
    updater_give_rows(twin.updater, &list, 1);
    ASSERT_FALSE(updater_gradients_finite(twin.updater));
    close_twin(&twin);
}

TEST(embedding, tables_are_refused_by_a_rule_that_needs_their_norm)
{
    struct graph *graph = graph_create();
    struct error err = {0};
    struct params *params;
    struct updater *updater;
    const struct optimizer *lars = optimizer_find("lars");
    struct param_group group = {"", lars, lars->defaults, 1};
    graph_param(graph, "table", SHAPE(ROWS, 2), (struct initializer){.kind = INIT_ZEROS},
                PARAM_TRAINABLE | PARAM_SPARSE);
    ASSERT_OK(params_create(graph, lars->slot_count, NULL, &params, &err), err);
    ASSERT_OK(params_fix(params, true, &err), err);
    ASSERT_TRUE(updater_create(params, &group, 1, 1, &updater, &err) < 0);
    ASSERT_TRUE(strstr(err.message, "needs the norm of all of table") != NULL);
    params_destroy(params);
    graph_destroy(graph);
}
