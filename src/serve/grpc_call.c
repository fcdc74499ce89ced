#include "serve/grpc_call.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

enum {
    UNKNOWN_METHOD = -1,
    KEEP_BYTES = 1 << 20,     /* an arena that held more is given back */
    AUTHORIZATION_MAX = 8192, /* letters of the header */
};

/* ---- making and reusing --------------------------------------------------------------------- */

static struct door_call *take_spare(struct door_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    struct door_call *call = thread->spare;
    if (call)
        thread->spare = call->next;
    pthread_mutex_unlock(&thread->lock);
    return call;
}

static struct door_call *make_call(struct door_thread *thread)
{
    struct door_call *call = memory_allocate(sizeof *call);
    if (!call)
        return NULL;
    call->thread = thread;
    strbuf_init(&call->reply);
    for (int i = 0; i < EVENTS; i++)
        call->tags[i] = (struct door_tag){call, (enum door_event)i};
    return call;
}

void call_destroy(struct door_call *call)
{
    if (!call)
        return;
    const struct grpc_library *grpc = call->thread->door->grpc;
    grpc->grpc_metadata_array_destroy(&call->metadata);
    if (!call->method)
        grpc->grpc_call_details_destroy(&call->details);
    arena_destroy(call->arena);
    strbuf_release(&call->reply);
    memory_free(call);
}

/* Everything that belonged to one request goes; what can be used again stays. */
static void clean(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    const struct grpc_library *grpc = door->grpc;
    if (call->servable)
        door->backend.release(call->servable);
    for (int i = 0; i < call->question_count; i++)
        arena_destroy(call->questions[i].own);
    if (call->bytes + call->reply.capacity > KEEP_BYTES) {
        arena_destroy(call->arena);
        call->arena = NULL;
        strbuf_release(&call->reply);
        strbuf_init(&call->reply);
    } else if (call->arena) {
        arena_reset(call->arena);
    }
    strbuf_clear(&call->reply);
    if (call->message)
        grpc->grpc_slice_unref(call->joined);
    if (call->payload)
        grpc->grpc_byte_buffer_destroy(call->payload);
    grpc->grpc_metadata_array_destroy(&call->metadata);
    if (!call->method)
        grpc->grpc_call_details_destroy(&call->details);
    grpc->grpc_call_unref(call->call);
}

static void reset(struct door_call *call)
{
    struct door_call fresh = {.thread = call->thread, .arena = call->arena, .reply = call->reply};
    memcpy(fresh.tags, call->tags, sizeof fresh.tags);
    *call = fresh;
}

/* The last part of a call is done. */
static void end_call(struct door_call *call)
{
    struct door_thread *thread = call->thread;
    struct grpc_door *door = thread->door;
    clean(call);
    reset(call);
    pthread_mutex_lock(&thread->lock);
    call->next = thread->spare;
    thread->spare = call;
    pthread_mutex_unlock(&thread->lock);
    pthread_mutex_lock(&door->lock);
    if (--door->calls == 0)
        pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->lock);
}

static void drop_part(struct door_call *call)
{
    if (atomic_fetch_sub(&call->parts, 1) == 1)
        end_call(call);
}

/* A batch whose event drops a part. gRPC refuses none that is well-formed while the call lives;
 * if it did, the event would never come. */
static bool start(struct door_call *call, const grpc_op *ops, size_t count, enum door_event event)
{
    const struct grpc_library *grpc = call->thread->door->grpc;
    atomic_fetch_add(&call->parts, 1);
    if (grpc->grpc_call_start_batch(call->call, ops, count, &call->tags[event], NULL) ==
        GRPC_CALL_OK)
        return true;
    drop_part(call);
    return false;
}

/* ---- arriving ------------------------------------------------------------------------------- */

bool call_request(struct door_thread *thread, int method)
{
    struct grpc_door *door = thread->door;
    const struct grpc_library *grpc = door->grpc;
    struct door_call *call = take_spare(thread);
    if (!call)
        call = make_call(thread);
    if (!call)
        return false;
    void *tag = &call->tags[EVENT_ARRIVED];
    grpc_call_error problem;
    grpc->grpc_metadata_array_init(&call->metadata);
    if (method == UNKNOWN_METHOD) {
        grpc->grpc_call_details_init(&call->details);
        problem =
            grpc->grpc_server_request_call(door->server, &call->call, &call->details,
                                           &call->metadata, thread->queue, thread->queue, tag);
    } else {
        call->method = method_at(method);
        problem = grpc->grpc_server_request_registered_call(
            door->server, door->handles[method], &call->call, &call->deadline_moment,
            &call->metadata, call->method->stream ? NULL : &call->payload, thread->queue,
            thread->queue, tag);
    }
    if (problem == GRPC_CALL_OK)
        return true;
    call_destroy(call);
    return false;
}

static int method_index(const struct door_method *method)
{
    return method ? (int)(method - method_at(0)) : UNKNOWN_METHOD;
}

static bool listen_for_close(struct door_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                  .data.recv_close_on_server.cancelled = &call->cancelled};
    return start(call, &op, 1, EVENT_CLOSED);
}

/* Whether who calls may: the method is open to all, or the metadata have a right token. */
static bool admitted(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    char text[AUTHORIZATION_MAX];
    const char *authorization = NULL;
    if (call->method->open)
        return true;
    for (size_t i = 0; i < call->metadata.count && !authorization; i++) {
        const grpc_metadata *entry = &call->metadata.metadata[i];
        size_t count = GRPC_SLICE_LENGTH(entry->value);
        if (GRPC_SLICE_LENGTH(entry->key) != 13 || count >= sizeof text ||
            memcmp(GRPC_SLICE_START_PTR(entry->key), "authorization", 13) != 0)
            continue;
        memcpy(text, GRPC_SLICE_START_PTR(entry->value), count);
        text[count] = '\0';
        authorization = text;
    }
    return door->backend.admits(door->backend.context, authorization);
}

static bool take_message(struct door_call *call)
{
    const struct grpc_library *grpc = call->thread->door->grpc;
    return call->payload &&
           grpc_library_bytes(grpc, call->payload, &call->joined, &call->message, &call->bytes);
}

static void set_times(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    call->arrived = clock_seconds();
    call->deadline = grpc_library_seconds(door->grpc, call->deadline_moment);
    if (call->deadline == 0 && door->options.answer_seconds > 0)
        call->deadline = call->arrived + door->options.answer_seconds;
}

/* Deadlines that passed on the way still reach the handler. */
static void handle_request(struct door_call *call)
{
    if (!take_message(call))
        door_answer(call, SERVE_INVALID, "the call brings no message that can be read");
    else if (call->deadline != 0 && call->deadline <= call->arrived)
        door_answer(call, SERVE_DEADLINE, "the deadline had passed when the request came");
    else
        call->method->handle(call);
}

static void start_stream(struct door_call *call)
{
    grpc_op ops[2] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->payload}};
    call->greeted = true;
    call->next = call->thread->streams;
    call->thread->streams = call;
    start(call, ops, 2, EVENT_RECEIVED);
}

static void handle_arrival(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    call->model = "";
    call->version = -1;
    set_times(call);
    if (!call->arena)
        call->arena = arena_create();
    if (!call->arena)
        door_answer(call, SERVE_EXHAUSTED, "no memory for the call");
    else if (!call->method)
        door_answer(call, SERVE_UNIMPLEMENTED, "this server has no such method");
    else if (!admitted(call)) {
        door->backend.refused(door->backend.context);
        door_answer(call, SERVE_UNAUTHENTICATED,
                    "a bearer token is needed: metadata \"authorization\", \"Bearer ...\"");
    } else if (call->method->stream)
        start_stream(call);
    else
        handle_request(call);
}

static void arrive(struct door_call *call, bool success)
{
    struct door_thread *thread = call->thread;
    struct grpc_door *door = thread->door;
    if (!success) { /* the server is ending; nobody called */
        call_destroy(call);
        return;
    }
    pthread_mutex_lock(&door->lock);
    door->calls++;
    pthread_mutex_unlock(&door->lock);
    call_request(thread, method_index(call->method));
    atomic_store(&call->parts, 1); /* the answer */
    listen_for_close(call);
    handle_arrival(call);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void drop_message(struct door_call *call)
{
    const struct grpc_library *grpc = call->thread->door->grpc;
    if (call->message)
        grpc->grpc_slice_unref(call->joined);
    if (call->payload)
        grpc->grpc_byte_buffer_destroy(call->payload);
    call->message = NULL;
    call->payload = NULL;
    call->bytes = 0;
}

static void receive_next(struct door_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->payload};
    drop_message(call);
    arena_reset(call->arena);
    start(call, &op, 1, EVENT_RECEIVED);
}

static void received(struct door_call *call)
{
    if (atomic_load(&call->answered))
        return;
    if (take_message(call))
        call->method->handle(call);
    else /* the client has said all */
        door_answer(call, SERVE_OK, "");
}

void door_write(struct door_call *call)
{
    const struct grpc_library *grpc = call->thread->door->grpc;
    grpc_slice slice = grpc->grpc_slice_from_copied_buffer(call->reply.text, call->reply.length);
    grpc_byte_buffer *message = grpc->grpc_raw_byte_buffer_create(&slice, 1);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    strbuf_clear(&call->reply);
    call->writing = true;
    start(call, &op, 1, EVENT_WROTE);
    grpc->grpc_byte_buffer_destroy(message);
    grpc->grpc_slice_unref(slice);
}

static void wrote(struct door_call *call, bool success)
{
    call->writing = false;
    if (atomic_load(&call->answered))
        return;
    if (!success)
        door_answer(call, SERVE_CANCELLED, "the client left");
    else if (!call->method->tick) /* whoever is told of changes asks only once */
        receive_next(call);
}

static void forget_stream(struct door_call *call)
{
    struct door_call **at = &call->thread->streams;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
}

void call_tick(struct door_thread *thread)
{
    struct door_call *next;
    bool ending = atomic_load(&thread->door->ending);
    for (struct door_call *call = thread->streams; call; call = next) {
        next = call->next;
        if (ending)
            door_answer(call, SERVE_UNAVAILABLE, "the server is ending");
        else if (call->method->tick && !call->writing)
            call->method->tick(call);
    }
}

/* ---- answering ------------------------------------------------------------------------------ */

static void tell(struct door_call *call, enum serve_status status)
{
    struct grpc_door *door = call->thread->door;
    double seconds = clock_seconds() - call->arrived;
    const struct door_method *method = call->method;
    if (method && method->counted)
        door->backend.count(door->backend.context, method->api, call->model, call->version, status,
                            seconds);
    if (door->options.log && !(method && method->stream)) {
        char *peer = door->grpc->grpc_call_get_peer(call->call);
        door->options.log(door->options.log_context, peer, method ? method->path : "unknown method",
                          status, call->bytes, status == SERVE_OK ? call->reply.length : 0,
                          seconds);
        door->grpc->gpr_free(peer);
    }
}

static void send_answer(struct door_call *call, enum serve_status status, const char *message)
{
    const struct grpc_library *grpc = call->thread->door->grpc;
    bool stream = call->method && call->method->stream;
    bool reply = status == SERVE_OK && !stream;
    grpc_slice text = grpc->grpc_slice_from_copied_buffer(message, strlen(message));
    grpc_slice body = grpc->grpc_empty_slice();
    grpc_byte_buffer *buffer = NULL;
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_STATUS_FROM_SERVER}};
    size_t count = 1;
    ops[0].data.send_status_from_server.status = (grpc_status_code)status;
    ops[0].data.send_status_from_server.status_details = &text;
    if (!call->greeted)
        ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (reply) {
        body = grpc->grpc_slice_from_copied_buffer(call->reply.text, call->reply.length);
        buffer = grpc->grpc_raw_byte_buffer_create(&body, 1);
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = buffer;
    }
    start(call, ops, count, EVENT_SENT);
    if (buffer)
        grpc->grpc_byte_buffer_destroy(buffer);
    grpc->grpc_slice_unref(body);
    grpc->grpc_slice_unref(text);
}

void door_answer(struct door_call *call, enum serve_status status, const char *message)
{
    if (status == SERVE_OK && call->reply.failed) {
        status = SERVE_EXHAUSTED;
        message = "no memory for the reply";
    }
    atomic_store(&call->answered, true);
    if (call->greeted)
        forget_stream(call);
    tell(call, status);
    send_answer(call, status, message);
    drop_part(call);
}

void door_refuse(struct door_call *call, const struct error *err)
{
    door_answer(call, err->code == ERROR_MEMORY ? SERVE_EXHAUSTED : SERVE_INVALID, err->message);
}

/* ---- events --------------------------------------------------------------------------------- */

static void closed(struct door_call *call)
{
    if (call->greeted && !atomic_load(&call->answered))
        door_answer(call, SERVE_CANCELLED, "the client left");
    for (int i = 0; call->cancelled && i < call->question_count; i++)
        atomic_store(&call->questions[i].inference.cancelled, true);
}

void call_event(struct door_tag *tag, bool success)
{
    struct door_call *call = tag->call;
    switch (tag->event) {
    case EVENT_ARRIVED:
        arrive(call, success);
        return;
    case EVENT_CLOSED:
        closed(call);
        break;
    case EVENT_RECEIVED:
        received(call);
        break;
    case EVENT_WROTE:
        wrote(call, success);
        break;
    default:
        break;
    }
    drop_part(call);
}
