#include "cli/asked.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "exec/plan.h"

static int make_room(struct asked *asked, struct error *err)
{
    const struct imported *model = asked->model;
    asked->arena = arena_create();
    asked->answers = arena_create();
    if (!asked->arena || !asked->answers)
        return error_set(err, ERROR_MEMORY, "no memory for the answers");
    asked->inputs = ARENA_ARRAY(asked->arena, struct tensor, model->input_count + 1);
    asked->outputs = ARENA_ARRAY(asked->arena, struct tensor, model->output_count + 1);
    asked->reply = ARENA_ARRAY(asked->arena, struct tensor, asked->signature->output_count + 1);
    if (!asked->inputs || !asked->outputs || !asked->reply)
        return error_set(err, ERROR_MEMORY, "no memory for the answers");
    for (int i = 0; i < model->input_count; i++)
        if (tensor_create(asked->arena, model->inputs[i].dtype,
                          shape_with_batch(model->inputs[i].shape, asked->batch), &asked->inputs[i],
                          err) < 0)
            return -1;
    return 0;
}

int asked_open(struct asked *asked, const struct imported *model, const char *signature, int batch,
               int threads, struct error *err)
{
    struct plan_options options = {.mode = PLAN_SERVE, .batch = batch, .threads = threads};
    *asked = (struct asked){.model = model, .batch = batch};
    asked->signature = imported_signature(model, signature);
    if (!asked->signature)
        return error_set(err, ERROR_USAGE, "the export has no signature \"%s\"",
                         signature ? signature : "serving_default");
    if (make_room(asked, err) < 0)
        return -1;
    return plan_create(model->graph, model->params, &options, &asked->plan, err);
}

void asked_close(struct asked *asked)
{
    plan_destroy(asked->plan);
    arena_destroy(asked->answers);
    arena_destroy(asked->arena);
}

int asked_compute(struct asked *asked, int64_t rows, struct error *err)
{
    plan_forward(asked->plan, asked->inputs, asked->outputs);
    arena_reset(asked->answers);
    return imported_finish(asked->model, asked->signature, asked->outputs, 0, rows, asked->answers,
                           asked->reply, err);
}

int asked_answer(struct asked *asked, const struct tensor *request, int64_t rows, struct error *err)
{
    for (int i = 0; i < asked->model->input_count; i++)
        memset(asked->inputs[i].data, 0, tensor_bytes(&asked->inputs[i]));
    if (imported_prepare(asked->model, asked->signature, request, rows, asked->inputs, 0, err) < 0)
        return -1;
    return asked_compute(asked, rows, err);
}
