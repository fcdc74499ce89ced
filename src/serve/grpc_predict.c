/* PredictionService/Predict. */
#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/grpc_internal.h"
#include "serve/predict_message.h"

struct predict {
    struct predict_request request;
    const struct signature *signature;
    bool *wanted; /* outputs; NULL: all */
};

static int take_inputs(struct door_call *call, struct predict *predict, struct error *err)
{
    struct inference *inference = &call->questions[0].inference;
    size_t limit = call->thread->door->limits.message_bytes;
    struct tensor *inputs;
    if (predict_request_outputs(&predict->request, predict->signature, call->arena,
                                &predict->wanted, err) < 0 ||
        predict_request_inputs(&predict->request, predict->signature, limit ? limit : SIZE_MAX / 2,
                               call->arena, &inputs, err) < 0)
        return -1;
    inference->signature = predict->signature;
    inference->inputs = inputs;
    if (predict->signature->input_count > 0 && inputs[0].shape.ndim > 0)
        inference->rows = inputs[0].shape.dim[0];
    return 0;
}

void predict_handle(struct door_call *call)
{
    struct error err = {0};
    struct predict *predict = ARENA_NEW(call->arena, struct predict);
    if (!predict) {
        door_answer(call, SERVE_EXHAUSTED, "no memory for the request");
        return;
    }
    call->request = predict;
    if (predict_request_read(call->message, call->bytes, call->arena, &predict->request, &err) <
        0) {
        door_refuse(call, &err);
        return;
    }
    if (!door_hold(call, &predict->request.spec) || !door_make_questions(call, 1))
        return;
    const char *name = predict->request.spec.signature;
    predict->signature = door_signature(call, name);
    if (!predict->signature) {
        error_set(&err, ERROR_FORMAT, "Serving signature key \"%.200s\" not found.",
                  *name ? name : "serving_default");
        door_answer(call, SERVE_PRECONDITION, err.message);
        return;
    }
    if (take_inputs(call, predict, &err) < 0)
        door_refuse(call, &err);
    else
        door_ask(call);
}

enum serve_status predict_finish(struct door_call *call, struct error *err)
{
    const struct predict *predict = call->request;
    (void)err;
    predict_reply_write(predict->request.spec.name, predict->signature, call->version,
                        call->questions[0].inference.outputs, predict->wanted,
                        call->thread->door->options.tensor_content, &call->reply);
    return SERVE_OK;
}
