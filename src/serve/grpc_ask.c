/* From a request that was read to its questions' answers: what all methods that compute share. */
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/grpc_internal.h"
#include "serve/model_spec.h"

/* A version below zero was given, though no version has such a number; to the core it would mean
 * that none was. */
bool door_target(struct door_call *call, const struct model_spec *spec, struct serve_target *out)
{
    *out = (struct serve_target){.model = spec->name,
                                 .version = spec->has_version ? spec->version : SERVE_NO_VERSION,
                                 .label = spec->label};
    if (!spec->has_version || spec->version >= 0)
        return true;
    struct error err = {0};
    error_set(&err, ERROR_ABSENT, "Servable not found for request: Specific(%.128s, %" PRId64 ")",
              spec->name, spec->version);
    door_answer(call, SERVE_NOT_FOUND, err.message);
    return false;
}

bool door_hold(struct door_call *call, const struct model_spec *spec)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct serve_target target;
    enum serve_status status = SERVE_NOT_FOUND;
    struct error err = {0};
    call->model = spec->name;
    if (!spec->present) {
        door_answer(call, SERVE_INVALID, "Missing ModelSpec");
        return false;
    }
    if (!*spec->name) {
        door_answer(call, SERVE_INVALID, "ModelSpec has no name specified.");
        return false;
    }
    if (!door_target(call, spec, &target))
        return false;
    call->servable = backend->hold(backend->context, &target, &status, &err);
    if (!call->servable) {
        door_answer(call, status, err.message);
        return false;
    }
    call->version = backend->version(call->servable);
    return true;
}

const struct signature *door_signature(const struct door_call *call, const char *name)
{
    const struct imported *model = call->thread->door->backend.model(call->servable);
    if (!*name)
        name = "serving_default";
    for (int i = 0; i < model->signature_count; i++)
        if (strcmp(model->signatures[i].name, name) == 0)
            return &model->signatures[i];
    return NULL;
}

/* Questions are answered side by side, and an arena is one thread's: all but the first have their
 * own. */
bool door_make_questions(struct door_call *call, int count)
{
    call->questions = ARENA_ARRAY(call->arena, struct door_question, count);
    for (int i = 0; call->questions && i < count; i++) {
        call->questions[i].call = call;
        call->questions[i].own = i > 0 ? arena_create() : NULL;
        call->question_count++;
        if (i > 0 && !call->questions[i].own)
            break;
    }
    if (call->question_count == count && (count < 2 || call->questions[count - 1].own))
        return true;
    door_answer(call, SERVE_EXHAUSTED, "no memory for the request");
    return false;
}

static void answer_all(struct door_call *call)
{
    struct error err = {0};
    for (int i = 0; i < call->question_count; i++) {
        struct inference *inference = &call->questions[i].inference;
        if (inference->status != SERVE_OK) {
            door_answer(call, inference->status, inference->error.message);
            return;
        }
    }
    enum serve_status status = call->method->finish(call, &err);
    door_answer(call, status, err.message);
}

/* On a worker's thread, on the door's when it helps, or inside the core's inference_ask. */
static void question_done(struct inference *inference)
{
    struct door_question *question = inference->context;
    struct door_call *call = question->call;
    if (atomic_fetch_sub(&call->unanswered, 1) == 1)
        answer_all(call);
}

/* The call may be over before the last ask returns. */
void door_ask(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct door_question *questions = call->questions;
    int count = call->question_count;
    atomic_store(&call->unanswered, count);
    for (int i = 0; i < count; i++) {
        struct inference *inference = &questions[i].inference;
        inference->servable = call->servable;
        inference->deadline = call->deadline;
        inference->arena = questions[i].own ? questions[i].own : call->arena;
        inference->done = question_done;
        inference->context = &questions[i];
    }
    for (int i = 0; i < count; i++)
        backend->ask(backend->context, &questions[i].inference);
}
