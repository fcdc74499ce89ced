#include "serve/grpc_call.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "serve/grpc_connection.h"

enum {
    KEEP_BYTES = 256 << 10,   /* of a call; one that held more is given back */
    MOST_SPARE = 256,         /* calls of a thread */
    STREAM_BACKLOG = 1 << 20, /* bytes that a stream's client may leave unread */
};

static _Thread_local struct door_thread *here; /* NULL: no thread of a door */

void call_set_thread(struct door_thread *thread)
{
    here = thread;
}

/* ---- making and reusing --------------------------------------------------------------------- */

static struct door_call *make_call(void)
{
    struct door_call *call = memory_allocate(sizeof *call);
    struct arena *arena = arena_create();
    if (!call || !arena) {
        memory_free(call);
        arena_destroy(arena);
        return NULL;
    }
    call->arena = arena;
    grpc_request_init(&call->incoming);
    strbuf_init(&call->reply);
    strbuf_init(&call->outgoing);
    return call;
}

static void destroy_call(struct door_call *call)
{
    arena_destroy(call->arena);
    grpc_request_release(&call->incoming);
    strbuf_release(&call->reply);
    strbuf_release(&call->outgoing);
    memory_free(call);
}

void call_destroy_spare(struct door_thread *thread)
{
    for (struct door_call *call; (call = thread->spare);) {
        thread->spare = call->next;
        destroy_call(call);
    }
}

struct door_call *call_begin(struct door_connection *connection, struct door_thread *thread,
                             int32_t stream)
{
    struct grpc_door *door = thread->door;
    struct door_call *call = thread->spare;
    if (call) {
        thread->spare = call->next;
        thread->spare_count--;
    } else if (!(call = make_call()))
        return NULL;
    *call = (struct door_call){.thread = thread,
                               .connection = connection,
                               .stream = stream,
                               .incoming = call->incoming,
                               .arena = call->arena,
                               .reply = call->reply,
                               .outgoing = call->outgoing,
                               .arrived = clock_seconds(),
                               .model = "",
                               .version = -1};
    grpc_request_begin(&call->incoming, door->limits.message_bytes);
    atomic_fetch_add(&door->calls, 1);
    return call;
}

/* What the core and the model needed. */
static void let_go(struct door_call *call)
{
    if (call->servable)
        call->thread->door->backend.release(call->servable);
    call->servable = NULL;
    for (int i = 0; i < call->question_count; i++)
        arena_destroy(call->questions[i].own);
    call->question_count = 0;
}

static void hold(struct door_call *call, size_t bytes)
{
    call->held += bytes;
    connection_hold(call->connection, (int64_t)bytes);
}

/* The request, all of it, when it is answered: the answer may wait long for its client. */
static void forget_request(struct door_call *call)
{
    let_go(call);
    if (call->connection)
        connection_hold(call->connection, -(int64_t)call->held);
    call->held = 0;
    if (call->bytes > KEEP_BYTES) {
        arena_destroy(call->arena);
        call->arena = NULL;
    }
    grpc_request_forget(&call->incoming);
    call->model = "";
}

/* Nobody needs it any more. */
static void recycle(struct door_call *call)
{
    struct door_thread *thread = call->thread;
    forget_request(call);
    if (!call->arena || call->reply.capacity + call->outgoing.capacity > KEEP_BYTES ||
        thread->spare_count >= MOST_SPARE) {
        destroy_call(call);
    } else {
        arena_reset(call->arena);
        strbuf_clear(&call->reply);
        strbuf_clear(&call->outgoing);
        call->next = thread->spare;
        thread->spare = call;
        thread->spare_count++;
    }
    door_count_down(thread->door, &thread->door->calls);
}

void call_detach(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    connection_hold(call->connection, -(int64_t)call->held);
    call->held = 0;
    call->connection = NULL;
    bool owed = call->state != CALL_ANSWERED || call->sent < call->outgoing.length;
    if (atomic_load(&door->cutting) && owed)
        atomic_fetch_add(&door->cut, 1);
    if (call->state != CALL_ASKED) {
        recycle(call);
        return;
    }
    if (door->backend.gone)
        door->backend.gone(door->backend.context);
    for (int i = 0; i < call->question_count; i++)
        atomic_store(&call->questions[i].inference.cancelled, true);
}

/* ---- answering ------------------------------------------------------------------------------ */

static void tell(const struct door_call *call)
{
    const struct grpc_door *door = call->thread->door;
    double seconds = clock_seconds() - call->arrived;
    const struct door_method *method = call->method;
    if (method && method->counted)
        door->backend.count(door->backend.context, method->api, call->model, call->version,
                            call->status, seconds);
    if (door->options.log && !(method && method->stream))
        door->options.log(door->options.log_context, call->peer,
                          method                   ? method->path
                          : call->incoming.path[0] ? call->incoming.path
                                                   : "unknown method",
                          call->status, call->bytes,
                          call->status == SERVE_OK ? call->reply.length : 0, seconds);
}

static void set_answer(struct door_call *call, enum serve_status status, const char *why)
{
    call->status = status;
    snprintf(call->why, sizeof call->why, "%s", why);
}

static void send_answer(struct door_call *call)
{
    bool stream = call->method && call->method->stream;
    if (call->status == SERVE_OK && !stream) {
        if (!grpc_message_add(&call->outgoing, call->reply.text, call->reply.length))
            set_answer(call, SERVE_EXHAUSTED, "no memory for the reply");
        hold(call, call->outgoing.length);
        if (call->reply.capacity > KEEP_BYTES)
            strbuf_release(&call->reply);
    }
    if (call->greeted)
        connection_resume(call);
    else if (call->status == SERVE_OK)
        connection_greet(call);
    else
        connection_refuse(call, 200);
}

/* On the call's thread. */
static void settle(struct door_call *call)
{
    call->state = CALL_ANSWERED;
    call->moved = clock_seconds();
    tell(call);
    forget_request(call);
    if (call->connection)
        send_answer(call);
    else
        recycle(call);
}

void call_settle_answered(struct door_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    struct door_call *call = thread->answered;
    thread->answered = NULL;
    thread->answered_end = &thread->answered;
    pthread_mutex_unlock(&thread->lock);
    for (struct door_call *next; call; call = next) {
        next = call->next_waiting;
        settle(call);
    }
}

static void hand_over(struct door_call *call)
{
    struct door_thread *thread = call->thread;
    call->next_waiting = NULL;
    pthread_mutex_lock(&thread->lock);
    *thread->answered_end = call;
    thread->answered_end = &call->next_waiting;
    door_ring(thread);
    pthread_mutex_unlock(&thread->lock);
}

void door_answer(struct door_call *call, enum serve_status status, const char *message)
{
    size_t most = call->thread->door->limits.reply_bytes;
    set_answer(call, status, message);
    if (status == SERVE_OK && call->reply.failed)
        set_answer(call, SERVE_EXHAUSTED, "no memory for the reply");
    else if (status == SERVE_OK && most > 0 && call->reply.length > most)
        set_answer(call, SERVE_EXHAUSTED, "the reply is larger than grpc.max_send_message_length");
    if (here == call->thread)
        settle(call);
    else
        hand_over(call);
}

void door_refuse(struct door_call *call, const struct error *err)
{
    door_answer(call, err->code == ERROR_MEMORY ? SERVE_EXHAUSTED : SERVE_INVALID, err->message);
}

void door_write(struct door_call *call)
{
    strbuf_drop(&call->outgoing, call->sent); /* who is always a message behind may stay so */
    call->sent = 0;
    if (call->outgoing.length == 0)
        call->moved = clock_seconds(); /* there was nothing to take */
    bool good = !call->reply.failed &&
                grpc_message_add(&call->outgoing, call->reply.text, call->reply.length);
    strbuf_clear(&call->reply);
    if (!good)
        door_answer(call, SERVE_EXHAUSTED, "no memory for the reply");
    else if (call->outgoing.length > STREAM_BACKLOG)
        door_answer(call, SERVE_EXHAUSTED, "the client does not read what it is told");
    else
        connection_resume(call);
}

/* ---- arriving ------------------------------------------------------------------------------- */

static void set_times(struct door_call *call)
{
    double most = call->thread->door->options.answer_seconds;
    call->arrived = clock_seconds();
    if (call->incoming.timeout >= 0)
        call->deadline = call->arrived + call->incoming.timeout;
    else if (most > 0)
        call->deadline = call->arrived + most;
}

/* Whether who calls may: the method is open to all, or the headers have a right token. */
static bool admitted(const struct door_call *call)
{
    const struct grpc_door *door = call->thread->door;
    const struct strbuf *given = &call->incoming.authorization;
    return call->method->open ||
           door->backend.admits(door->backend.context, given->length ? given->text : NULL);
}

/* What is no gRPC is answered as HTTP has it. */
static bool is_grpc(struct door_call *call)
{
    int http = !call->incoming.post ? 405 : !call->incoming.grpc ? 415 : 200;
    if (http == 200)
        return true;
    call->state = CALL_ANSWERED;
    connection_refuse(call, http);
    return false;
}

void call_headers_end(struct door_call *call)
{
    struct grpc_door *door = call->thread->door;
    if (call->state != CALL_ARRIVING || call->method) /* trailers */
        return;
    set_times(call);
    if (door->options.log)
        snprintf(call->peer, sizeof call->peer, "%s", connection_peer(call->connection));
    if (!is_grpc(call))
        return;
    call->method = method_find(call->incoming.path);
    size_t most = door->limits.header_bytes;
    if (most > 0 && call->incoming.header_bytes > most)
        door_answer(call, SERVE_EXHAUSTED, "the headers are larger than may be");
    else if (call->incoming.status != SERVE_OK)
        door_answer(call, call->incoming.status, call->incoming.why);
    else if (!call->method)
        door_answer(call, SERVE_UNIMPLEMENTED, "this server has no such method");
    else if (!admitted(call)) {
        door->backend.refused(door->backend.context);
        door_answer(call, SERVE_UNAUTHENTICATED,
                    "a bearer token is needed: metadata \"authorization\", \"Bearer ...\"");
    } else if (call->method->stream)
        connection_greet(call);
}

/* One message of a stream, whose handler answers it before it returns. */
static void handle_message(struct door_call *call)
{
    if (call->method->tick && call->told) /* whoever is told of changes asks only once */
        return;
    if (grpc_request_read(&call->incoming, &call->message, &call->bytes))
        call->method->handle(call);
    else
        door_answer(call, call->incoming.status, call->incoming.why);
    if (call->state == CALL_ARRIVING) /* else it has let go of its memory */
        arena_reset(call->arena);
}

/* Of what `incoming` has now. False: nothing more is wanted. */
static bool took(struct door_call *call, size_t bytes)
{
    struct grpc_request *incoming = &call->incoming;
    hold(call, bytes);
    if (bytes == 0)
        door_answer(call, SERVE_INVALID, "the call brings more than one message");
    else if (!connection_may_hold(call->connection))
        door_answer(call, SERVE_EXHAUSTED, "too many bytes are under way");
    else if (incoming->status != SERVE_OK)
        door_answer(call, incoming->status, incoming->why);
    else if (call->method->stream && grpc_request_is_whole(incoming)) {
        handle_message(call);
        if (call->state == CALL_ARRIVING) {
            grpc_request_forget(incoming);
            connection_hold(call->connection, -(int64_t)call->held);
            call->held = 0;
        }
    }
    return call->state == CALL_ARRIVING;
}

void call_take(struct door_call *call, const unsigned char *bytes, size_t count)
{
    bool more = call->state == CALL_ARRIVING && call->method;
    while (more && count > 0) {
        size_t taken = grpc_request_bytes(&call->incoming, bytes, count);
        bytes += taken;
        count -= taken;
        more = took(call, taken);
    }
}

static void handle_request(struct door_call *call)
{
    if (!grpc_request_read(&call->incoming, &call->message, &call->bytes)) {
        door_answer(call, call->incoming.status, call->incoming.why);
        return;
    }
    hold(call, call->incoming.plain.length);
    if (!connection_may_hold(call->connection))
        door_answer(call, SERVE_EXHAUSTED, "too many bytes are under way");
    else if (call->deadline != 0 && call->deadline <= clock_seconds())
        door_answer(call, SERVE_DEADLINE, "the deadline had passed when the request came");
    else
        call->method->handle(call);
}

/* One message a turn: a megabyte may become a thousand, and others wait meanwhile. */
bool call_unpack_next(struct door_thread *thread)
{
    struct door_call *call = thread->packed;
    if (!call)
        return false;
    thread->packed = call->next_waiting;
    if (!thread->packed)
        thread->packed_end = &thread->packed;
    if (call->connection)
        handle_request(call);
    else
        door_answer(call, SERVE_CANCELLED, "the client left");
    return true;
}

void call_said_all(struct door_call *call)
{
    struct door_thread *thread = call->thread;
    if (call->state != CALL_ARRIVING || !call->method)
        return;
    if (call->method->stream) {
        if (!call->method->tick)
            door_answer(call, SERVE_OK, "");
        return;
    }
    call->state = CALL_ASKED;
    if (!grpc_request_is_packed(&call->incoming)) {
        handle_request(call);
        return;
    }
    call->next_waiting = NULL;
    *thread->packed_end = call;
    thread->packed_end = &call->next_waiting;
}

/* ---- time ----------------------------------------------------------------------------------- */

static void tick_stream(struct door_call *call)
{
    if (atomic_load(&call->thread->door->ending))
        door_answer(call, SERVE_UNAVAILABLE, "the server is ending");
    else if (call->method->tick && call->sent == call->outgoing.length)
        call->method->tick(call);
}

void call_tick(struct door_call *call, double now)
{
    double limit = call->thread->door->options.request_seconds;
    bool stream = call->method && call->method->stream;
    bool arriving = call->state == CALL_ARRIVING;
    bool unread = call->sent < call->outgoing.length || call->state == CALL_ANSWERED;
    if (arriving && call->deadline != 0 && now >= call->deadline)
        door_answer(call, SERVE_DEADLINE, "the deadline passed before the call ended");
    else if (unread && limit > 0 && now - call->moved > limit)
        connection_reset(call, NGHTTP2_CANCEL);
    else if (arriving && stream)
        tick_stream(call);
    else if (arriving && limit > 0 && now - call->arrived > limit)
        door_answer(call, SERVE_DEADLINE, "the request did not arrive in time");
}
