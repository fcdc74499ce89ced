#include "support/subject.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "exec/dnn.h"
#include "exec/sparse.h"
#include "support/network_text.h"
#include "support/test.h"
#include "tensor/random.h"

/* One of a few, so that rows are read more than once, or the one that means a missing value. */
static int64_t draw_fingerprint(struct random *random)
{
    int64_t which = random_below(random, 8);
    return which ? (int64_t)random_at(99, (uint64_t)which) : (int64_t)0x9ae16a3b2f90404f;
}

static struct tensor draw(struct subject *subject, const struct value *value, int batch,
                          uint64_t seed)
{
    struct error err = {0};
    struct tensor tensor;
    struct shape shape = shape_with_batch(value->shape, batch);
    if (value->channels_last && shape.ndim == 4) {
        struct shape logical = shape; /* [N, C, H, W] */
        shape.dim[1] = logical.dim[2];
        shape.dim[2] = logical.dim[3];
        shape.dim[3] = logical.dim[1];
    }
    ASSERT_OK(tensor_create(subject->arena, value->dtype, shape, &tensor, &err), err);
    struct random random = {random_key_text(seed, value->name), 0};
    bool label = strcmp(value->name, "label") == 0 || value->dtype != DTYPE_F32;
    for (int64_t i = 0; value->dtype == DTYPE_I64 && i < shape_count(&shape); i++)
        ((int64_t *)tensor.data)[i] = draw_fingerprint(&random);
    for (int64_t i = 0; value->dtype != DTYPE_I64 && i < shape_count(&shape); i++) {
        float number = label ? (float)random_below(&random, 2) : random_normal(&random);
        if (value->dtype == DTYPE_F32)
            ((float *)tensor.data)[i] = number;
        else if (value->dtype == DTYPE_I32)
            ((int32_t *)tensor.data)[i] = (int32_t)number;
        else
            FAIL("input %s: a type this test cannot draw", value->name);
    }
    return tensor;
}

void subject_draw_inputs(struct subject *subject, const struct plan *plan, uint64_t seed,
                         struct tensor *inputs)
{
    for (int i = 0; i < plan_input_count(plan); i++) {
        value_id id = graph_find_input(subject->graph, plan_input_name(plan, i));
        ASSERT_INT(id, >=, 0);
        inputs[i] = draw(subject, graph_value(subject->graph, id), plan_batch(plan), seed);
    }
}

struct subject subject_open_graph(struct graph *graph, struct plan_options options, uint64_t seed)
{
    struct error err = {0};
    struct subject subject = {.arena = arena_create(), .graph = graph};
    ASSERT_TRUE(subject.arena != NULL);
    ASSERT_OK(params_create(graph, 0, NULL, &subject.params, &err), err);
    ASSERT_OK(plan_create(graph, subject.params, &options, &subject.plan, &err), err);
    ASSERT_OK(params_initialize(subject.params, seed, &err), err);
    ASSERT_OK(plan_refresh_weights(subject.plan, &err), err);
    plan_set_random(subject.plan, seed, 1);
    subject_draw_inputs(&subject, subject.plan, seed, subject.inputs);
    return subject;
}

struct subject subject_open(const char *text, struct plan_options options, uint64_t seed)
{
    struct error err = {0};
    struct graph *graph;
    ASSERT_OK(network_from_text(text, &graph, &err), err);
    return subject_open_graph(graph, options, seed);
}

void subject_close(struct subject *subject)
{
    plan_destroy(subject->plan);
    params_destroy(subject->params);
    graph_destroy(subject->graph);
    arena_destroy(subject->arena);
    *subject = (struct subject){0};
}

struct plan *subject_plan(struct subject *subject, struct plan_options options)
{
    struct error err = {0};
    struct plan *plan;
    ASSERT_OK(plan_create(subject->graph, subject->params, &options, &plan, &err), err);
    return plan;
}

double subject_loss(struct subject *subject)
{
    plan_forward(subject->plan, subject->inputs, subject->outputs);
    int last = plan_output_count(subject->plan) - 1;
    ASSERT_TEXT(plan_output_name(subject->plan, last), "loss");
    const float *losses = subject->outputs[last].data;
    double sum = 0;
    for (int i = 0; i < plan_batch(subject->plan); i++)
        sum += losses[i];
    return sum / plan_batch(subject->plan);
}

static struct tensor make_tensor(struct subject *subject, int index)
{
    struct error err = {0};
    struct tensor tensor;
    struct param_range range = params_range(subject->params, index);
    ASSERT_OK(tensor_create(subject->arena, DTYPE_F32, range.shape, &tensor, &err), err);
    return tensor;
}

/* A list of rows as a whole table; the list itself is gone after the next forward pass. */
static void keep_rows(struct subject *subject, int list)
{
    struct sparse_rows rows;
    plan_sparse(subject->plan, list, &rows);
    struct tensor out = make_tensor(subject, rows.param);
    memset(out.data, 0, tensor_bytes(&out));
    for (int64_t r = 0; r < rows.count; r++) {
        ASSERT_TRUE(r == 0 || rows.rows[r] > rows.rows[r - 1]);
        memcpy((float *)out.data + rows.rows[r] * rows.dim, rows.values + r * rows.dim,
               (size_t)rows.dim * sizeof(float));
    }
    subject->tables[list].param = rows.param;
    subject->tables[list].gradient = out;
}

double subject_gradients(struct subject *subject)
{
    double loss = subject_loss(subject);
    plan_backward(subject->plan, 1.0f / (float)plan_batch(subject->plan), NULL, NULL);
    subject->table_count = plan_sparse_count(subject->plan);
    ASSERT_TRUE(subject->table_count <= SUBJECT_MAX_TABLES);
    for (int i = 0; i < subject->table_count; i++)
        keep_rows(subject, i);
    return loss;
}

struct tensor subject_read(struct subject *subject, int index)
{
    struct error err = {0};
    struct tensor tensor = make_tensor(subject, index);
    ASSERT_OK(params_read(subject->params, index, &tensor, &err), err);
    return tensor;
}

struct tensor subject_read_gradient(struct subject *subject, int index)
{
    struct error err = {0};
    struct tensor tensor = make_tensor(subject, index);
    for (int i = 0; i < subject->table_count; i++)
        if (subject->tables[i].param == index)
            return subject->tables[i].gradient;
    ASSERT_OK(params_read_gradient(subject->params, index, &tensor, &err), err);
    return tensor;
}

void subject_write(struct subject *subject, int index, struct tensor tensor)
{
    struct error err = {0};
    ASSERT_OK(params_write(subject->params, index, &tensor, &err), err);
}

static bool is_for_this_processor(const char *kernel)
{
#if defined(__x86_64__)
    if (strstr(kernel, ":avx512"))
        return strncmp(dnn_instruction_set(), "avx512", 6) == 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__aarch64__)
    return strncmp(kernel, "own:points", 10) != 0 && !strstr(kernel, ":avx512");
#else
    (void)kernel;
    return false;
#endif
}

void subject_need_processor(const char *kernel)
{
    if (!is_for_this_processor(kernel))
        test_skip("the kernel is not for this processor");
}

void subject_need_kernel(const struct subject *subject, const char *name)
{
    struct strbuf text;
    strbuf_init(&text);
    plan_explain(subject->plan, &text);
    if (!strstr(text.text, name))
        fail_msg("%s was not chosen:\n%s", name, text.text);
    strbuf_release(&text);
}
