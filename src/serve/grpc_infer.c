/* inference.GRPCInferenceService: the Open Inference Protocol. */
#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/grpc_internal.h"
#include "serve/infer_message.h"

struct infer {
    struct infer_request request;
    const struct signature *signature;
    bool *wanted; /* outputs; NULL: all */
};

static void add_true(struct door_call *call, bool value)
{
    if (value)
        proto_add_varint(&call->reply, 1, 1);
}

/* ---- ModelInfer ----------------------------------------------------------------------------- */

/* The protocol has no signatures: the default one, or the only one. */
static const struct signature *usual_signature(const struct door_call *call, const char *name)
{
    const struct imported *model = call->thread->door->backend.model(call->servable);
    const struct signature *signature = door_signature(call, name);
    return signature || *name || model->signature_count == 0 ? signature : &model->signatures[0];
}

static int take_inputs(struct door_call *call, struct infer *infer, struct error *err)
{
    struct inference *inference = &call->questions[0].inference;
    size_t limit = call->thread->door->limits.message_bytes;
    struct tensor *inputs;
    if (infer_request_outputs(&infer->request, infer->signature, call->arena, &infer->wanted, err) <
            0 ||
        infer_request_inputs(&infer->request, infer->signature, limit ? limit : SIZE_MAX / 2,
                             call->arena, &inputs, err) < 0)
        return -1;
    inference->signature = infer->signature;
    inference->inputs = inputs;
    if (infer->signature->input_count > 0 && inputs[0].shape.ndim > 0)
        inference->rows = inputs[0].shape.dim[0];
    return 0;
}

void infer_handle(struct door_call *call)
{
    struct error err = {0};
    struct infer *infer = ARENA_NEW(call->arena, struct infer);
    if (!infer) {
        door_answer(call, SERVE_EXHAUSTED, "no memory for the request");
        return;
    }
    call->request = infer;
    if (infer_request_read(call->message, call->bytes, call->arena, &infer->request, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!door_hold(call, &infer->request.spec) || !door_make_questions(call, 1))
        return;
    infer->signature = usual_signature(call, infer->request.spec.signature);
    if (!infer->signature)
        door_answer(call, SERVE_INVALID, "the model has no such signature");
    else if (take_inputs(call, infer, &err) < 0)
        door_refuse(call, &err);
    else
        door_ask(call);
}

enum serve_status infer_finish(struct door_call *call, struct error *err)
{
    const struct infer *infer = call->request;
    (void)err;
    infer_reply_write(&infer->request, infer->signature, call->version,
                      call->questions[0].inference.outputs, infer->wanted, &call->reply);
    return SERVE_OK;
}

/* ---- about server and models ---------------------------------------------------------------- */

void infer_live_handle(struct door_call *call)
{
    add_true(call, true);
    door_answer(call, SERVE_OK, "");
}

void infer_ready_handle(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    add_true(call, backend->ready(backend->context));
    door_answer(call, SERVE_OK, "");
}

void infer_server_handle(struct door_call *call)
{
    proto_add_text(&call->reply, 1, "lockstep");
    proto_add_text(&call->reply, 2, LOCKSTEP_VERSION);
    door_answer(call, SERVE_OK, "");
}

void infer_model_ready_handle(struct door_call *call)
{
    struct grpc_backend *backend = &call->thread->door->backend;
    struct model_spec spec;
    enum serve_status status = SERVE_OK;
    struct error err = {0};
    if (infer_name_read(call->message, call->bytes, call->arena, &spec, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    struct serve_target target = {.model = spec.name,
                                  .version = spec.has_version ? spec.version : SERVE_NO_VERSION,
                                  .label = spec.label};
    call->servable = backend->hold(backend->context, &target, &status, &err);
    add_true(call, call->servable != NULL);
    door_answer(call, SERVE_OK, "");
}

void infer_model_handle(struct door_call *call)
{
    struct model_spec spec;
    struct error err = {0};
    if (infer_name_read(call->message, call->bytes, call->arena, &spec, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (!door_hold(call, &spec))
        return;
    const struct signature *signature = usual_signature(call, "");
    if (!signature) {
        door_answer(call, SERVE_PRECONDITION, "the model has no signature");
        return;
    }
    infer_metadata_write(spec.name, call->version, signature, &call->reply);
    door_answer(call, SERVE_OK, "");
}
