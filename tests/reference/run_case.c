/* Runs networks that a Python script describes and writes down what came out of them.
 *
 *   run_case describe 'model resnet50 classes=5'   parameters in the order of the graph
 *   run_case CASE RESULT [CASE RESULT ...]         pairs of files (see tests/support/tensor_file.h)
 *
 * A case holds "input/NAME" and "parameter/N" (the N-th of the graph) and, in its metadata, the
 * network's text, the batch and the passes wanted. A result holds "PASS/output/NAME", "PASS/loss",
 * "PASS/gradient/N", "PASS/statistic/N" and "PASS/input_gradient/NAME". Judging is left to the
 * script: this program only reports failures of its own. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/op.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "exec/sparse.h"
#include "support/network_text.h"
#include "support/tensor_file.h"
#include "train/optimizer.h"

enum { MAX_RESULTS = 8192, MAX_FIELDS = 16 };

struct session {
    struct tensor_file file;
    struct arena *arena;
    struct graph *graph;
    const struct plan *plan; /* whose gradients are kept */
    struct named_tensor results[MAX_RESULTS];
    int result_count;
};

static int note_integer(const struct session *session, const char *key, int missing)
{
    const char *text = tensor_file_note(&session->file, key, NULL);
    return text ? (int)strtol(text, NULL, 10) : missing;
}

/* Whether the comma-separated list of passes has `pass` in it. */
static bool wants(const struct session *session, const char *pass)
{
    const char *at = tensor_file_note(&session->file, "passes", "");
    size_t bytes = strlen(pass);
    for (; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == bytes && strncmp(at, pass, bytes) == 0)
            return true;
    }
    return false;
}

static int keep(struct session *session, const char *name, struct tensor tensor, struct error *err)
{
    struct tensor copy;
    if (session->result_count == MAX_RESULTS)
        return error_set(err, ERROR_MEMORY, "more than %d results", MAX_RESULTS);
    if (tensor_create(session->arena, tensor.dtype, tensor.shape, &copy, err) < 0)
        return -1;
    memcpy(copy.data, tensor.data, tensor_bytes(&tensor));
    session->results[session->result_count++] =
        (struct named_tensor){arena_copy_text(session->arena, name), copy};
    return 0;
}

/* PyTorch cannot draw our masks, so here dropout drops nothing; tests/unit/ops/test_dropout.c looks
 * at what it draws. Its attributes are the rate and belong to the graph, which is ours. */
static void silence_dropout(const struct graph *graph)
{
    static const float none = 0;
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        if (strcmp(node->op->name, "dropout") == 0)
            memcpy((void *)(uintptr_t)node->attributes, &none, sizeof none);
    }
}

/* The N-th parameter of the graph has another index in params; finds both by walking values. */
typedef int parameter_fn(struct session *session, struct params *params, const char *pass,
                         int number, int index, struct error *err);

static int each_parameter(struct session *session, struct params *params, const char *pass,
                          parameter_fn *visit, struct error *err)
{
    int number = 0;
    for (value_id id = 0; id < graph_value_count(session->graph); id++) {
        const struct value *value = graph_value(session->graph, id);
        if (value->kind != VALUE_PARAM)
            continue;
        int index = params_find(params, value->name);
        if (index < 0)
            return error_set(err, ERROR_FORMAT, "params has no '%s'", value->name);
        if (visit(session, params, pass, number++, index, err) < 0)
            return error_wrap(err, "%s", value->name);
    }
    return 0;
}

static int write_parameter(struct session *session, struct params *params, const char *pass,
                           int number, int index, struct error *err)
{
    char name[64];
    (void)pass;
    snprintf(name, sizeof name, "parameter/%d", number);
    const struct tensor *tensor = tensor_file_find(&session->file, name);
    if (!tensor)
        return error_set(err, ERROR_FORMAT, "the case has no %s", name);
    return params_write(params, index, tensor, err);
}

/* The gradient of a whole table, from the list of its rows. */
static void read_rows(const struct plan *plan, int index, struct tensor *out)
{
    struct sparse_rows rows;
    memset(out->data, 0, tensor_bytes(out));
    for (int i = 0; i < plan_sparse_count(plan); i++) {
        plan_sparse(plan, i, &rows);
        for (int64_t r = 0; rows.param == index && r < rows.count; r++)
            memcpy((float *)out->data + rows.rows[r] * rows.dim, rows.values + r * rows.dim,
                   (size_t)rows.dim * sizeof(float));
    }
}

/* After a training step: the gradient of a weight, the new value of a statistic. */
static int keep_parameter(struct session *session, struct params *params, const char *pass,
                          int number, int index, struct error *err)
{
    char name[96];
    struct param_range range = params_range(params, index);
    bool statistic = range.flags & PARAM_STATISTIC;
    struct tensor tensor;
    if (tensor_create(session->arena, DTYPE_F32, range.shape, &tensor, err) < 0)
        return -1;
    int status = 0;
    if (range.flags & PARAM_SPARSE)
        read_rows(session->plan, index, &tensor);
    else
        status = statistic ? params_read(params, index, &tensor, err)
                           : params_read_gradient(params, index, &tensor, err);
    if (status < 0)
        return -1;
    snprintf(name, sizeof name, "%s/%s/%d", pass, statistic ? "statistic" : "gradient", number);
    if (session->result_count == MAX_RESULTS)
        return error_set(err, ERROR_MEMORY, "more than %d results", MAX_RESULTS);
    session->results[session->result_count++] =
        (struct named_tensor){arena_copy_text(session->arena, name), tensor};
    return 0;
}

/* Fills `inputs` in the plan's order; `step` picks a batch out of a file that holds many. */
static int bind_inputs(const struct session *session, const struct plan *plan, int step,
                       struct tensor *inputs, struct error *err)
{
    for (int i = 0; i < plan_input_count(plan); i++) {
        char name[96];
        snprintf(name, sizeof name, "input/%s", plan_input_name(plan, i));
        const struct tensor *tensor = tensor_file_find(&session->file, name);
        if (!tensor || i == MAX_FIELDS)
            return error_set(err, ERROR_FORMAT, "the case has no %s", name);
        inputs[i] = *tensor;
        if (step < 0)
            continue;
        inputs[i].shape.ndim--;
        memmove(inputs[i].shape.dim, inputs[i].shape.dim + 1,
                sizeof(int64_t) * (TENSOR_MAX_DIMS - 1));
        inputs[i].data = (char *)tensor->data + (size_t)step * tensor_bytes(&inputs[i]);
    }
    return 0;
}

static int keep_outputs(struct session *session, const struct plan *plan, const char *pass,
                        const struct tensor *outputs, struct error *err)
{
    for (int i = 0; i < plan_output_count(plan); i++) {
        char name[96];
        const char *output = plan_output_name(plan, i);
        bool loss = strcmp(output, "loss") == 0;
        snprintf(name, sizeof name, loss ? "%s/%s" : "%s/output/%s", pass, output);
        if (keep(session, name, outputs[i], err) < 0)
            return -1;
    }
    return 0;
}

static int run_forward(struct session *session, struct plan *plan, const char *pass,
                       struct error *err)
{
    struct tensor inputs[MAX_FIELDS], outputs[MAX_FIELDS];
    if (bind_inputs(session, plan, -1, inputs, err) < 0)
        return -1;
    plan_forward(plan, inputs, outputs);
    return keep_outputs(session, plan, pass, outputs, err);
}

static int keep_input_gradients(struct session *session, const struct plan *plan, const char *pass,
                                struct error *err)
{
    for (int i = 0; i < plan_input_count(plan); i++) {
        char name[96];
        struct tensor gradient = plan_input_gradient(plan, i);
        snprintf(name, sizeof name, "%s/input_gradient/%s", pass, plan_input_name(plan, i));
        if (gradient.data && keep(session, name, gradient, err) < 0)
            return -1;
    }
    return 0;
}

static int run_train(struct session *session, struct params *params, struct plan *plan,
                     const char *pass, struct error *err)
{
    struct tensor inputs[MAX_FIELDS], outputs[MAX_FIELDS];
    if (bind_inputs(session, plan, -1, inputs, err) < 0)
        return -1;
    /* Twice: what the first step leaves behind in reused memory must not reach the second. */
    for (int i = 0; i < 2; i++) {
        plan_set_random(plan, 1, 1);
        plan_forward(plan, inputs, outputs);
        plan_backward(plan, 1.0f / (float)plan_batch(plan), NULL, NULL);
    }
    plan_commit_statistics(plan);
    session->plan = plan;
    if (keep_outputs(session, plan, pass, outputs, err) < 0 ||
        each_parameter(session, params, pass, keep_parameter, err) < 0)
        return -1;
    return keep_input_gradients(session, plan, pass, err);
}

/* Ways to make the same plans: as training does, with the inputs' gradients too (which keeps some
 * kernels and fusions from being chosen), and every operation by itself. */
struct variant {
    const char *suffix;
    bool unfused, input_gradient, direct;
};

static struct plan_options plan_options(const struct session *session, enum plan_mode mode,
                                        const struct variant *variant)
{
    return (struct plan_options){.mode = mode,
                                 .batch = note_integer(session, "batch", 1),
                                 .threads = note_integer(session, "threads", 0),
                                 .unfused = variant->unfused,
                                 .direct = variant->direct,
                                 .want_input_gradient =
                                     mode == PLAN_TRAIN && variant->input_gradient};
}

/* A plan beside the training plan, on the same params and so with its layouts. */
static int run_beside(struct session *session, struct params *params, enum plan_mode mode,
                      const char *name, const struct variant *variant, struct error *err)
{
    struct plan *plan = NULL;
    struct plan_options options = plan_options(session, mode, variant);
    char pass[64];
    snprintf(pass, sizeof pass, "%s%s", name, variant->suffix);
    if (!wants(session, pass))
        return 0;
    if (plan_create(session->graph, params, &options, &plan, err) < 0)
        return -1;
    int status = run_forward(session, plan, pass, err);
    plan_destroy(plan);
    return status;
}

/* Training and what stands beside it. The other modes run first: training moves statistics. */
static int run_together(struct session *session, const struct variant *variant, struct error *err)
{
    int status = -1;
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct plan_options options = plan_options(session, PLAN_TRAIN, variant);
    char pass[64];
    snprintf(pass, sizeof pass, "train%s", variant->suffix);
    if (!wants(session, pass))
        return 0;
    if (params_create(session->graph, 0, NULL, &params, err) < 0 ||
        plan_create(session->graph, params, &options, &plan, err) < 0 ||
        each_parameter(session, params, pass, write_parameter, err) < 0 ||
        run_beside(session, params, PLAN_EVALUATE, "evaluate", variant, err) < 0 ||
        run_beside(session, params, PLAN_SERVE, "serve", variant, err) < 0 ||
        run_train(session, params, plan, pass, err) < 0)
        goto out;
    status = 0;
out:
    plan_destroy(plan);
    params_destroy(params);
    return status < 0 ? error_wrap(err, "%s", pass) : 0;
}

/* A server's life: its plan is the first, weights come later. */
static int run_alone(struct session *session, enum plan_mode mode, const char *pass,
                     struct error *err)
{
    static const struct variant plain = {.suffix = ""};
    int status = -1;
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct plan_options options = plan_options(session, mode, &plain);
    if (!wants(session, pass))
        return 0;
    if (params_create(session->graph, 0, NULL, &params, err) < 0 ||
        plan_create(session->graph, params, &options, &plan, err) < 0 ||
        each_parameter(session, params, pass, write_parameter, err) < 0)
        goto out;
    if (plan_refresh_weights(plan, err) < 0)
        goto out;
    status = run_forward(session, plan, pass, err);
out:
    plan_destroy(plan);
    params_destroy(params);
    return status < 0 ? error_wrap(err, "%s", pass) : 0;
}

static int train_steps(struct session *session, struct plan *plan, struct updater *updater,
                       struct error *err)
{
    struct tensor losses, inputs[MAX_FIELDS], outputs[MAX_FIELDS];
    int steps = note_integer(session, "steps", 1), batch = plan_batch(plan);
    float rate = strtof(tensor_file_note(&session->file, "rate", "0.01"), NULL);
    if (tensor_create(session->arena, DTYPE_F32, SHAPE(steps), &losses, err) < 0)
        return -1;
    for (int step = 0; step < steps; step++) {
        if (bind_inputs(session, plan, step, inputs, err) < 0)
            return -1;
        plan_forward(plan, inputs, outputs);
        const float *loss = outputs[plan_output_count(plan) - 1].data;
        double sum = 0;
        for (int i = 0; i < batch; i++)
            sum += loss[i];
        ((float *)losses.data)[step] = (float)(sum / batch);
        plan_backward(plan, 1.0f / (float)batch, NULL, NULL);
        plan_commit_statistics(plan);
        struct sparse_rows rows[MAX_FIELDS];
        for (int i = 0; i < plan_sparse_count(plan); i++)
            plan_sparse(plan, i, &rows[i]);
        updater_give_rows(updater, rows, plan_sparse_count(plan));
        updater_step(updater, rate, step + 1);
    }
    return keep(session, "curve/losses", losses, err);
}

static int run_curve(struct session *session, struct error *err)
{
    int status = -1;
    static const struct variant plain = {.suffix = ""};
    const struct optimizer *optimizer =
        optimizer_find(tensor_file_note(&session->file, "optimizer", "sgd"));
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct updater *updater = NULL;
    struct plan_options options = plan_options(session, PLAN_TRAIN, &plain);
    if (!wants(session, "curve"))
        return 0;
    if (!optimizer)
        return error_set(err, ERROR_USAGE, "no such optimizer");
    const char *wide_factor = tensor_file_note(&session->file, "wide_factor", "");
    int count = *wide_factor ? 2 : 1; /* of groups: only Wide & Deep has a wide part */
    struct param_group groups[] = {{"", optimizer, optimizer->defaults, 1.0f},
                                   {.prefix = "wide/", .optimizer = optimizer_find("ftrl")}};
    groups[0].settings.epsilon = strtof(tensor_file_note(&session->file, "epsilon", "0"), NULL);
    groups[1].settings = groups[1].optimizer->defaults;
    groups[1].rate_factor = strtof(wide_factor, NULL);
    if (params_create(session->graph, updater_slots_needed(groups, count), NULL, &params, err) < 0 ||
        plan_create(session->graph, params, &options, &plan, err) < 0 ||
        each_parameter(session, params, "curve", write_parameter, err) < 0 ||
        updater_create(params, groups, count, options.threads, &updater, err) < 0)
        goto out;
    updater_initialize_slots(updater);
    status = train_steps(session, plan, updater, err);
out:
    updater_destroy(updater);
    plan_destroy(plan);
    params_destroy(params);
    return status < 0 ? error_wrap(err, "curve") : 0;
}

static int run_passes(struct session *session, struct error *err)
{
    static const struct variant variants[] = {{"", false, false, false},
                                              {"_inputs", false, true, false},
                                              {"_unfused", true, true, false},
                                              {"_direct", false, false, true}};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (run_together(session, &variants[i], err) < 0)
            return -1;
    }
    if (run_alone(session, PLAN_SERVE, "serve_alone", err) < 0 ||
        run_alone(session, PLAN_EVALUATE, "evaluate_alone", err) < 0)
        return -1;
    return run_curve(session, err);
}

static int run_case(const char *case_path, const char *result_path, struct error *err)
{
    int status = -1;
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return error_set(err, ERROR_MEMORY, "no memory for a session");
    session->arena = arena_create();
    if (!session->arena || tensor_file_read(case_path, &session->file, err) < 0 ||
        network_from_text(tensor_file_note(&session->file, "network", ""), &session->graph, err) <
            0)
        goto out;
    silence_dropout(session->graph);
    if (run_passes(session, err) < 0)
        goto out;
    status = tensor_file_write(result_path, session->results, session->result_count, err);
out:
    graph_destroy(session->graph);
    arena_destroy(session->arena);
    tensor_file_release(&session->file);
    free(session);
    return status;
}

static int describe(const char *text, struct error *err)
{
    struct graph *graph;
    if (network_from_text(text, &graph, err) < 0)
        return -1;
    for (value_id id = 0; id < graph_value_count(graph); id++) {
        const struct value *value = graph_value(graph, id);
        char shape[128];
        if (value->kind == VALUE_RESULT)
            continue;
        printf("%s %s %s\n", value->kind == VALUE_INPUT ? "input" : "parameter", value->name,
               shape_text(&value->shape, shape, sizeof shape));
    }
    graph_destroy(graph);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    if (argc == 3 && strcmp(argv[1], "describe") == 0) {
        if (describe(argv[2], &err) == 0)
            return 0;
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    int status = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        printf("%s\n", argv[i]);
        fflush(stdout);
        if (run_case(argv[i], argv[i + 1], &err) < 0) {
            printf("failed: %s\n", err.message);
            status = 1;
        }
        fflush(stdout);
    }
    return status;
}
