/* One request of the REST door, from its arrival to its reply. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "convert/imported.h"
#include "net/server.h"
#include "serve/core.h"
#include "serve/examples.h"
#include "serve/rest_about.h"
#include "serve/rest_examples.h"
#include "serve/rest_internal.h"
#include "serve/rest_predict.h"
#include "serve/servable.h"

enum {
    INLINE_BYTES = 32 << 10, /* larger bodies are read by the pool */
    INLINE_ELEMENTS = 4096,  /* larger answers are written by it */
    KEPT_BYTES = 1 << 20,    /* a call that grew beyond gives its memory back */
    KEPT_CALLS = 64,
};

/* --- calls ----------------------------------------------------------------------------------- */

void rest_call_free(struct rest_call *call)
{
    if (!call)
        return;
    arena_destroy(call->arena);
    strbuf_release(&call->reply);
    memory_free(call);
}

static struct rest_call *make_call(struct rest_door *door)
{
    struct rest_call *call = memory_allocate(sizeof *call);
    if (!call)
        return NULL;
    call->door = door;
    strbuf_init(&call->reply);
    call->arena = arena_create();
    if (!call->arena) {
        rest_call_free(call);
        return NULL;
    }
    return call;
}

/* On the server's thread. NULL when memory is short. */
static struct rest_call *take_call(struct rest_door *door, struct server_request *request)
{
    struct rest_call *call = door->free;
    if (call)
        door->free = call->next;
    else
        call = make_call(door);
    if (!call)
        return NULL;
    struct rest_call kept = *call;
    *call = (struct rest_call){.door = door,
                               .arena = kept.arena,
                               .reply = kept.reply,
                               .request = request,
                               .start = clock_seconds(),
                               .version = -1,
                               .content_type = "application/json"};
    call->next = door->flying;
    call->before = &door->flying;
    if (call->next)
        call->next->before = &call->next;
    door->flying = call;
    pthread_mutex_lock(&door->lock);
    door->calls++;
    pthread_mutex_unlock(&door->lock);
    return call;
}

static void give_back(struct rest_call *call, bool keep)
{
    struct rest_door *door = call->door;
    *call->before = call->next;
    if (call->next)
        call->next->before = call->before;
    int spare = 0;
    for (const struct rest_call *other = door->free; other && spare < KEPT_CALLS; spare++)
        other = other->next;
    if (keep && spare < KEPT_CALLS) {
        arena_reset(call->arena);
        strbuf_clear(&call->reply);
        call->next = door->free;
        door->free = call;
    } else {
        rest_call_free(call);
    }
    pthread_mutex_lock(&door->lock);
    door->answered = clock_seconds();
    if (--door->calls == 0)
        pthread_cond_broadcast(&door->quiet);
    pthread_mutex_unlock(&door->lock);
}

/* --- answers --------------------------------------------------------------------------------- */

static enum serve_api api_of(const struct rest_call *call)
{
    switch (call->path.verb) {
    case REST_PREDICT:
        return API_PREDICT;
    case REST_CLASSIFY:
        return API_CLASSIFY;
    case REST_REGRESS:
        return API_REGRESS;
    case REST_INFER:
        return API_INFER;
    case REST_METADATA:
        return API_METADATA;
    default:
        return API_STATUS;
    }
}

static void write_error(struct rest_call *call)
{
    const char *message = call->inference.error.message;
    strbuf_clear(&call->reply);
    strbuf_add(&call->reply, "{ \"error\": ");
    rest_write_text(&call->reply, message, strlen(message));
    strbuf_add(&call->reply, " }\n");
}

static void write_examples(struct rest_call *call)
{
    struct inference *inference = &call->inference;
    int status;
    if (call->path.verb == REST_CLASSIFY) {
        struct classification result;
        status = examples_classification(inference->signature, inference->outputs, call->arena,
                                         &result, &inference->error);
        if (status == 0)
            rest_classification_write(&result, &call->reply);
    } else {
        const float *values;
        int64_t rows;
        status = examples_regression(inference->signature, inference->outputs, &values, &rows,
                                     &inference->error);
        if (status == 0)
            rest_regression_write(values, rows, &call->reply);
    }
    if (status < 0)
        inference->status = SERVE_INTERNAL;
}

/* What was computed, as text; on any thread. */
static void write_answer(struct rest_call *call)
{
    struct inference *inference = &call->inference;
    if (call->written || inference->status != SERVE_OK || !inference->outputs)
        return;
    call->written = true;
    if (call->path.verb == REST_INFER) {
        size_t json =
            rest_v2_write(servable_name(inference->servable), call->version, inference->signature,
                          &call->v2, inference->outputs, &call->reply);
        call->reply_json_bytes = json < call->reply.length ? json : 0;
    } else if (call->path.verb == REST_PREDICT) {
        rest_predict_write(inference->signature, inference->outputs, inference->rows, call->by_rows,
                           &call->reply);
    } else {
        write_examples(call);
    }
    if (call->reply.failed) {
        inference->status = SERVE_EXHAUSTED;
        error_set(&inference->error, ERROR_MEMORY, "no memory for the answer");
    }
}

static void tell(const struct rest_call *call, enum serve_status status)
{
    struct rest_door *door = call->door;
    double seconds = clock_seconds() - call->start;
    stats_request(core_stats(door->core), DOOR_REST, api_of(call),
                  call->path.model[0] ? call->path.model : NULL, call->version, status, seconds);
    if (!door->options.log)
        return;
    char what[512];
    snprintf(what, sizeof what, "%s %.440s", server_request_method(call->request),
             server_request_path(call->request));
    door->options.log(door->options.log_context, server_request_peer(call->request), what, status,
                      call->body_bytes, call->reply.length, seconds);
}

/* The last step, on the server's thread. */
static void reply(void *context)
{
    struct rest_call *call = context;
    write_answer(call);
    enum serve_status status = call->inference.status;
    if (status != SERVE_OK)
        write_error(call);
    if (call->reply_json_bytes) {
        char length[32];
        snprintf(length, sizeof length, "%zu", call->reply_json_bytes);
        server_reply_header(call->request, "Inference-Header-Content-Length", length);
        call->content_type = "application/octet-stream";
    }
    if (call->door->options.cors)
        server_reply_header(call->request, "Access-Control-Allow-Origin", "*");
    if (status == SERVE_EXHAUSTED)
        server_reply_header(call->request, "Retry-After", "1");
    tell(call, status);
    servable_release(call->inference.servable);
    bool keep = call->body_bytes + call->reply.length < KEPT_BYTES;
    server_reply(call->request, serve_status_http(status), call->content_type, call->reply.text,
                 call->reply.length);
    give_back(call, keep);
}

static void fail(struct rest_call *call, enum serve_status status)
{
    call->inference.status = status;
}

/* From any thread. */
static void post_reply(struct rest_call *call)
{
    /* Without memory for a message of a few words there is nobody who could be told. */
    while (server_post(call->door->server, reply, call, NULL) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* --- computing ------------------------------------------------------------------------------- */

static void run_write(struct rest_task *task)
{
    struct rest_call *call = (struct rest_call *)task;
    write_answer(call);
    post_reply(call);
}

static int64_t count_elements(const struct inference *inference)
{
    int64_t count = 0;
    for (int i = 0; inference->outputs && i < inference->signature->output_count; i++)
        count += shape_count(&inference->outputs[i].shape);
    return count;
}

/* On a worker's thread, or inside inference_ask. */
static void on_done(struct inference *inference)
{
    struct rest_call *call = inference->context;
    if (inference->status == SERVE_OK && count_elements(inference) > INLINE_ELEMENTS) {
        call->task.run = run_write;
        rest_pool_add(call->door->pool, &call->task);
    } else {
        post_reply(call);
    }
}

static int read_examples(struct rest_call *call, const struct rest_body *body)
{
    struct inference *inference = &call->inference;
    struct text_view *examples, context;
    int64_t count;
    if (rest_examples_read(body, call->arena, &examples, &count, &context, &inference->error) < 0)
        return -1;
    inference->rows = count;
    return examples_to_inputs(inference->signature, examples, count, context, call->arena,
                              call->inputs, &inference->error);
}

/* The signature that the body names; NULL with status and error. */
static const struct signature *find_signature(struct rest_call *call, const struct rest_body *body)
{
    struct inference *inference = &call->inference;
    const struct imported *model = servable_model(inference->servable);
    char name[256];
    snprintf(name, sizeof name, "%.*s",
             (int)(body->signature.count < 255 ? body->signature.count : 255),
             body->signature.count ? body->signature.bytes : "");
    if (call->path.verb != REST_PREDICT)
        return examples_signature(model, name, call->path.verb == REST_REGRESS, &inference->status,
                                  &inference->error);
    const struct signature *signature = imported_signature(model, name);
    if (!signature)
        error_set(&inference->error, ERROR_ABSENT,
                  "Serving signature name: \"%s\" not found in signature def",
                  *name ? name : "serving_default");
    return signature;
}

static int read_v1(struct rest_call *call)
{
    struct inference *inference = &call->inference;
    struct rest_body body;
    if (rest_body_read(call->body, call->body_bytes, call->arena, &body, &inference->error) < 0)
        return -1;
    inference->signature = find_signature(call, &body);
    if (!inference->signature)
        return -1;
    call->inputs = ARENA_ARRAY(call->arena, struct tensor, inference->signature->input_count + 1);
    if (!call->inputs)
        return error_set(&inference->error, ERROR_MEMORY, "no memory for the request");
    inference->inputs = call->inputs;
    if (call->path.verb != REST_PREDICT)
        return read_examples(call, &body);
    return rest_predict_read(&body, inference->signature, call->arena, call->inputs,
                             &inference->rows, &call->by_rows, &inference->error);
}

static int read_v2(struct rest_call *call)
{
    struct inference *inference = &call->inference;
    inference->signature = rest_v2_signature(servable_model(inference->servable));
    if (rest_v2_read(call->body, call->body_bytes, call->json_bytes, inference->signature,
                     call->arena, &call->v2, &inference->error) < 0)
        return -1;
    inference->inputs = call->v2.inputs;
    inference->rows = call->v2.rows;
    return 0;
}

static struct serve_target target_of(const struct rest_call *call)
{
    return (struct serve_target){
        .model = call->path.model, .version = call->path.version, .label = call->path.label};
}

static bool hold(struct rest_call *call)
{
    struct serve_target target = target_of(call);
    struct inference *inference = &call->inference;
    inference->servable = repository_hold(core_repository(call->door->core), &target,
                                          &inference->status, &inference->error);
    if (inference->servable)
        call->version = servable_version(inference->servable);
    return inference->servable != NULL;
}

/* Reads the body and asks; the answer comes to on_done. */
static void run_read(struct rest_task *task)
{
    struct rest_call *call = (struct rest_call *)task;
    struct inference *inference = &call->inference;
    const struct door_options *options = &call->door->options;
    if (!hold(call)) {
        post_reply(call);
        return;
    }
    if ((call->path.v2 ? read_v2(call) : read_v1(call)) < 0) {
        fail(call, inference->error.code == ERROR_MEMORY ? SERVE_EXHAUSTED : SERVE_INVALID);
        post_reply(call);
        return;
    }
    inference->arena = call->arena;
    inference->deadline = options->answer_seconds > 0 ? call->start + options->answer_seconds : 0;
    inference->done = on_done;
    inference->context = call;
    inference_ask(call->door->core, inference);
}

static void on_gone(void *context)
{
    struct rest_call *call = context;
    atomic_store(&call->inference.cancelled, true);
    stats_gone(core_stats(call->door->core), DOOR_REST);
}

/* Where the JSON of a body ends behind which binary tensors stand. */
static int read_json_bytes(struct rest_call *call)
{
    static const char name[] = "Inference-Header-Content-Length";
    const char *length = server_request_header(call->request, name);
    char *end;
    call->json_bytes = call->body_bytes;
    if (!length || !call->path.v2)
        return 0;
    errno = 0;
    call->json_bytes = strtoull(length, &end, 10);
    if (isdigit((unsigned char)*length) && !*end && !errno)
        return 0;
    return error_set(&call->inference.error, ERROR_FORMAT, "%s: '%.40s' is no number of bytes",
                     name, length);
}

static void begin_inference(struct rest_call *call)
{
    call->body = server_request_body(call->request, &call->body_bytes);
    if (!call->body)
        call->body = "";
    if (read_json_bytes(call) < 0) {
        fail(call, SERVE_INVALID);
        reply(call);
        return;
    }
    server_request_watch(call->request, on_gone, call);
    call->task.run = run_read;
    if (call->body_bytes > INLINE_BYTES)
        rest_pool_add(call->door->pool, &call->task);
    else
        run_read(&call->task);
}

/* --- questions about models ------------------------------------------------------------------ */

static void write_status(struct rest_call *call)
{
    struct serve_target target = target_of(call);
    struct model_status status;
    call->inference.status = repository_model_status(core_repository(call->door->core), &target,
                                                     call->arena, &status, &call->inference.error);
    if (call->inference.status == SERVE_OK)
        rest_status_write(&status, &call->reply);
}

static void answer_about(struct rest_call *call)
{
    if (call->path.verb == REST_STATUS) {
        write_status(call);
    } else if (hold(call)) {
        if (call->path.verb == REST_READY)
            strbuf_add(&call->reply, "{\"ready\": true}\n");
        else if (call->path.v2)
            rest_v2_metadata_write(call->inference.servable, &call->reply);
        else
            rest_metadata_write(call->inference.servable, &call->reply);
    }
    reply(call);
}

void rest_call_begin(void *context, struct server_request *request)
{
    struct rest_call *call = take_call(context, request);
    if (!call) {
        server_reply(request, 503, "application/json", "{ \"error\": \"no memory\" }\n", 25);
        return;
    }
    call->post = strcmp(server_request_method(request), "POST") == 0;
    if (rest_path_read(server_request_path(request), &call->path, &call->inference.error) < 0) {
        fail(call, SERVE_INVALID);
        reply(call);
        return;
    }
    enum rest_verb verb = call->path.verb;
    bool asks =
        verb == REST_PREDICT || verb == REST_CLASSIFY || verb == REST_REGRESS || verb == REST_INFER;
    if (asks != call->post) {
        fail(call, SERVE_INVALID);
        error_set(&call->inference.error, ERROR_FORMAT, "Malformed request: %s %.200s; use %s",
                  server_request_method(request), server_request_path(request),
                  asks ? "POST" : "GET");
        reply(call);
    } else if (asks) {
        begin_inference(call);
    } else {
        answer_about(call);
    }
}
