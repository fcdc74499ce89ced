/* PredictionService/Classify, Regress and MultiInference: tf.Examples in, labels and numbers out. */
#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/example_message.h"
#include "serve/examples.h"
#include "serve/grpc_internal.h"

/* Fields of the replies. */
enum { REPLY_RESULT = 1, REPLY_SPEC = 2 };
enum { TASK_SPEC = 1, TASK_CLASSIFICATION = 2, TASK_REGRESSION = 3 };

static int take_inputs(struct door_call *call, const struct example_request *request,
                       const struct signature *signature, struct inference *inference,
                       struct error *err)
{
    struct tensor *inputs = ARENA_ARRAY(call->arena, struct tensor, signature->input_count);
    if (!inputs)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    if (request->example_count == 0)
        return error_set(err, ERROR_FORMAT, "Input is empty.");
    if (examples_to_inputs(signature, request->examples, request->example_count, request->context,
                           call->arena, inputs, err) < 0)
        return -1;
    inference->signature = signature;
    inference->inputs = inputs;
    inference->rows = request->example_count;
    return 0;
}

/* True: the question is ready to be asked; otherwise the call was answered. */
static bool prepare_task(struct door_call *call, int index, bool regress)
{
    const struct example_request *request = call->request;
    const struct imported *model = call->thread->door->backend.model(call->servable);
    enum serve_status status = SERVE_INVALID;
    struct error err = {0};
    const struct signature *signature =
        examples_signature(model, request->tasks[index].spec.signature, regress, &status, &err);
    if (!signature) {
        door_answer(call, status, err.message);
        return false;
    }
    if (take_inputs(call, request, signature, &call->questions[index].inference, &err) < 0) {
        door_refuse(call, &err);
        return false;
    }
    return true;
}

static struct example_request *make_request(struct door_call *call)
{
    struct example_request *request = ARENA_NEW(call->arena, struct example_request);
    call->request = request;
    if (!request)
        door_answer(call, SERVE_EXHAUSTED, "no memory for the request");
    return request;
}

static void handle_one(struct door_call *call, bool regress)
{
    struct error err = {0};
    struct example_request *request = make_request(call);
    if (!request)
        return;
    if (example_request_read(call->message, call->bytes, call->arena, request, &err) < 0)
        door_refuse(call, &err);
    else if (door_hold(call, &request->tasks[0].spec) && door_make_questions(call, 1) &&
             prepare_task(call, 0, regress))
        door_ask(call);
}

void classify_handle(struct door_call *call)
{
    handle_one(call, false);
}

void regress_handle(struct door_call *call)
{
    handle_one(call, true);
}

/* ---- results -------------------------------------------------------------------------------- */

static int write_result(struct door_call *call, int index, uint32_t number, bool regress,
                        struct error *err)
{
    const struct inference *inference = &call->questions[index].inference;
    struct classification classes;
    const float *values;
    int64_t rows;
    if (regress) {
        if (examples_regression(inference->signature, inference->outputs, &values, &rows, err) < 0)
            return -1;
        regress_result_write(number, values, rows, &call->reply);
        return 0;
    }
    if (examples_classification(inference->signature, inference->outputs, call->arena, &classes,
                                err) < 0)
        return -1;
    classify_result_write(number, &classes, &call->reply);
    return 0;
}

static enum serve_status finish_one(struct door_call *call, bool regress, struct error *err)
{
    if (write_result(call, 0, REPLY_RESULT, regress, err) < 0)
        return SERVE_INVALID;
    model_spec_write(REPLY_SPEC, call->model, call->questions[0].inference.signature->name,
                     call->version, &call->reply);
    return SERVE_OK;
}

enum serve_status classify_finish(struct door_call *call, struct error *err)
{
    return finish_one(call, false, err);
}

enum serve_status regress_finish(struct door_call *call, struct error *err)
{
    return finish_one(call, true, err);
}

/* ---- several at once ------------------------------------------------------------------------ */

static bool is_regress(const struct example_task *task)
{
    return strcmp(task->method, REGRESS_METHOD) == 0;
}

static enum serve_status check_tasks(const struct example_request *request, struct error *err)
{
    for (int i = 0; i < request->task_count; i++) {
        const struct example_task *task = &request->tasks[i];
        if (!*task->spec.name) {
            error_set(err, ERROR_FORMAT, "Found ModelSpec with an empty model name.");
            return SERVE_INVALID;
        }
        if (strcmp(task->spec.name, request->tasks[0].spec.name) != 0) {
            error_set(err, ERROR_FORMAT,
                      "All ModelSpecs in a MultiInferenceRequest must access the same model name.");
            return SERVE_INVALID;
        }
        for (int other = 0; other < i; other++)
            if (strcmp(task->spec.signature, request->tasks[other].spec.signature) == 0) {
                error_set(err, ERROR_FORMAT, "Duplicate evaluation of signature: %.200s",
                          *task->spec.signature ? task->spec.signature : "serving_default");
                return SERVE_INVALID;
            }
        if (!is_regress(task) && strcmp(task->method, CLASSIFY_METHOD) != 0) {
            error_set(err, ERROR_FORMAT, "Unsupported signature method_name: %.200s", task->method);
            return SERVE_UNIMPLEMENTED;
        }
    }
    return SERVE_OK;
}

void multi_handle(struct door_call *call)
{
    struct error err = {0};
    struct example_request *request = make_request(call);
    if (!request)
        return;
    if (multi_request_read(call->message, call->bytes, call->arena, request, &err) < 0) {
        door_refuse(call, &err);
        return;
    }
    if (request->task_count == 0) {
        door_answer(call, SERVE_INVALID, "ModelSpec has no name specified.");
        return;
    }
    enum serve_status status = check_tasks(request, &err);
    if (status != SERVE_OK) {
        door_answer(call, status, err.message);
        return;
    }
    if (!door_hold(call, &request->tasks[0].spec) ||
        !door_make_questions(call, request->task_count))
        return;
    for (int i = 0; i < request->task_count; i++)
        if (!prepare_task(call, i, is_regress(&request->tasks[i])))
            return;
    door_ask(call);
}

enum serve_status multi_finish(struct door_call *call, struct error *err)
{
    const struct example_request *request = call->request;
    for (int i = 0; i < request->task_count; i++) {
        bool regress = is_regress(&request->tasks[i]);
        size_t result = proto_begin(&call->reply, 1);
        model_spec_write(TASK_SPEC, call->model, call->questions[i].inference.signature->name,
                         call->version, &call->reply);
        if (write_result(call, i, regress ? TASK_REGRESSION : TASK_CLASSIFICATION, regress, err) <
            0)
            return SERVE_INVALID;
        proto_end(&call->reply, result);
    }
    return SERVE_OK;
}
