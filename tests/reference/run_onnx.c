/* Evaluates an ONNX file, takes its gradients and trains it, for a script that compares.
 *
 *   run_onnx MODEL.onnx CASE RESULT        files as in tests/support/tensor_file.h
 *
 * A case holds "input/NAME" for each of `steps` batches, one behind the other, and notes: batch,
 * steps, rate, momentum, classes, image_size. A result holds "evaluate/NAME" and "serve/NAME" of each
 * output for the first batch, "gradient/PARAMETER" of its mean loss, "losses" of training, and
 * "trained/PARAMETER". */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "support/tensor_file.h"
#include "train/optimizer.h"

enum { MAX_RESULTS = 4096, MAX_FIELDS = 8 };

struct session {
    struct tensor_file file;
    struct arena *arena;
    const struct model *model;
    struct graph *graph;
    struct params *params;
    struct plan *plan;
    struct named_tensor results[MAX_RESULTS];
    int result_count, batch;
};

static float note(const struct session *session, const char *key, float missing)
{
    const char *text = tensor_file_note(&session->file, key, NULL);
    return text ? strtof(text, NULL) : missing;
}

static int add_result(struct session *session, const char *kind, const char *name,
                      struct shape shape, struct tensor *out, struct error *err)
{
    if (session->result_count == MAX_RESULTS)
        return error_set(err, ERROR_MEMORY, "more than %d results", MAX_RESULTS);
    if (tensor_create(session->arena, DTYPE_F32, shape, out, err) < 0)
        return -1;
    session->results[session->result_count++] = (struct named_tensor){
        arena_format(session->arena, "%s%s%s", kind, *name ? "/" : "", name), *out};
    return 0;
}

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
        inputs[i].shape.dim[0] = session->batch;
        inputs[i].data = (char *)tensor->data + (size_t)step * tensor_bytes(&inputs[i]);
    }
    return 0;
}

static int run_forward(struct session *session, enum plan_mode mode, const char *kind,
                       struct error *err)
{
    struct plan_options options = {.mode = mode, .batch = session->batch};
    struct tensor inputs[MAX_FIELDS], outputs[MAX_FIELDS], kept;
    struct plan *plan = NULL;
    if (plan_create(session->graph, session->params, &options, &plan, err) < 0)
        return -1;
    int status = bind_inputs(session, plan, 0, inputs, err);
    if (status == 0)
        plan_forward(plan, inputs, outputs);
    for (int i = 0; status == 0 && i < plan_output_count(plan); i++) {
        status = add_result(session, kind, plan_output_name(plan, i), outputs[i].shape, &kept, err);
        if (status == 0)
            memcpy(kept.data, outputs[i].data, tensor_bytes(&kept));
    }
    plan_destroy(plan);
    return status;
}

typedef int reader_fn(const struct params *params, int index, struct tensor *out,
                      struct error *err);

static int keep_params(struct session *session, const char *kind, unsigned flags, reader_fn *read,
                       struct error *err)
{
    for (int i = 0; i < params_count(session->params); i++) {
        struct param_range range = params_range(session->params, i);
        struct tensor kept;
        if ((range.flags & flags) != flags)
            continue;
        if (add_result(session, kind, range.name, range.shape, &kept, err) < 0 ||
            read(session->params, i, &kept, err) < 0)
            return -1;
    }
    return 0;
}

static int train_steps(struct session *session, struct updater *updater, struct error *err)
{
    int steps = (int)note(session, "steps", 1);
    struct tensor losses, inputs[MAX_FIELDS], outputs[MAX_FIELDS];
    if (add_result(session, "losses", "", SHAPE(steps), &losses, err) < 0)
        return -1;
    for (int step = 0; step < steps; step++) {
        if (bind_inputs(session, session->plan, step, inputs, err) < 0)
            return -1;
        plan_set_random(session->plan, 1, (uint64_t)step);
        plan_forward(session->plan, inputs, outputs);
        const float *each = outputs[plan_output_count(session->plan) - 1].data;
        double sum = 0;
        for (int i = 0; i < session->batch; i++)
            sum += (double)each[i];
        ((float *)losses.data)[step] = (float)(sum / session->batch);
        plan_backward(session->plan, 1.0f / (float)session->batch, NULL, NULL);
        if (step == 0 &&
            keep_params(session, "gradient", PARAM_TRAINABLE, params_read_gradient, err) < 0)
            return -1;
        updater_step(updater, note(session, "rate", 0.01f), step + 1);
        plan_commit_statistics(session->plan);
    }
    return keep_params(session, "trained", 0, params_read, err);
}

static int train(struct session *session, struct error *err)
{
    const struct optimizer *rule = optimizer_find("momentum");
    struct param_group group = {"", rule, rule->defaults, 1.0f};
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = session->batch};
    struct updater *updater = NULL;
    group.settings.momentum = note(session, "momentum", 0.9f);
    group.settings.weight_decay = 0;
    if (params_create(session->graph, updater_slots_needed(&group, 1), NULL, &session->params,
                      err) < 0 ||
        plan_create(session->graph, session->params, &options, &session->plan, err) < 0 ||
        params_initialize(session->params, 1, err) < 0 ||
        run_forward(session, PLAN_EVALUATE, "evaluate", err) < 0 ||
        run_forward(session, PLAN_SERVE, "serve", err) < 0 ||
        updater_create(session->params, &group, 1, 0, &updater, err) < 0)
        return -1;
    updater_initialize_slots(updater);
    int status = train_steps(session, updater, err);
    updater_destroy(updater);
    return status;
}

static int build(struct session *session, const char *path, struct error *err)
{
    if (model_open(path, &session->model, err) < 0)
        return -1;
    struct model_args args = session->model->defaults;
    args.classes = (int)note(session, "classes", (float)args.classes);
    args.image_size = (int)note(session, "image_size", (float)args.image_size);
    session->graph = graph_create();
    if (!session->graph)
        return error_set(err, ERROR_MEMORY, "no memory for a graph");
    session->model->build(session->graph, &args);
    return graph_finish(session->graph, err);
}

static int run(struct session *session, char **words, struct error *err)
{
    session->arena = arena_create();
    if (!session->arena || tensor_file_read(words[2], &session->file, err) < 0)
        return -1;
    session->batch = (int)note(session, "batch", 1);
    if (build(session, words[1], err) < 0 || train(session, err) < 0)
        return -1;
    return tensor_file_write(words[3], session->results, session->result_count, err);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    static struct session session;
    if (argc != 4) {
        fprintf(stderr, "usage: run_onnx MODEL.onnx CASE RESULT\n");
        return 2;
    }
    int status = run(&session, argv, &err);
    if (status < 0)
        fprintf(stderr, "run_onnx: %s\n", err.message);
    plan_destroy(session.plan);
    params_destroy(session.params);
    graph_destroy(session.graph);
    model_close(session.model);
    tensor_file_release(&session.file);
    arena_destroy(session.arena);
    return status < 0;
}
