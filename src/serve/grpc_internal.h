/* What the door's files share: a call from its arrival to its end. */
#ifndef SERVE_GRPC_INTERNAL_H
#define SERVE_GRPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/strbuf.h"
#include "serve/grpc_door.h"
#include "serve/grpc_request.h"
#include "serve/h2_library.h"

struct door_call;
struct door_connection;
struct door_method;
struct event;
struct event_base;
struct evconnlistener;

enum {
    READ_BYTES = 256 << 10, /* at a time */
    LISTENERS = 2,          /* the port and the socket in the file system */
};

/* What users may say of connections; bytes 0: any, seconds 0: never. */
struct door_limits {
    size_t message_bytes, reply_bytes, header_bytes;
    int streams; /* of one connection at a time */
    double idle_seconds;
    double age_seconds, grace_seconds; /* until it is asked to go; and then until it is closed */
    double keepalive_seconds, keepalive_timeout; /* ask who is silent; how long they may be then */
};
/* The door's own and what "name=value,..." changes (NULL: nothing). */
int door_limits_read(const char *arguments, struct door_limits *limits, struct error *err);

/* A thread with connections of its own: it reads, answers, writes, and computes what is quickly
 * computed. */
struct door_thread {
    struct grpc_door *door;
    struct event_base *base;
    struct event *on_bell, *on_tick;
    int bell; /* an eventfd that other threads write to */
    pthread_t thread;
    bool running;
    struct door_connection *connections;
    struct door_connection *unflushed; /* that may have something to say */
    struct door_call *spare;           /* calls that ended, for reuse */
    int spare_count;
    struct door_call *packed, **packed_end; /* whose messages are to be unpacked */
    double complained;                      /* clock_seconds() of the last line in the log */
    unsigned char *room;                    /* READ_BYTES */

    pthread_mutex_t lock;                       /* guards the rest; held for a few instructions */
    bool rung;                                  /* and not heard yet */
    struct door_call *answered, **answered_end; /* by other threads */
    int *newcomers, newcomer_count, newcomer_room; /* sockets */
};

struct grpc_door {
    const struct h2_library *h2;
    nghttp2_session_callbacks *callbacks;
    struct grpc_backend backend;
    struct door_options options;
    struct door_limits limits;
    struct tls *tls; /* NULL: none */
    struct evconnlistener *listeners[LISTENERS];
    int listener_count;
    int port;
    struct stat socket_file; /* of the one in the file system; st_ino 0: there is none */
    struct door_thread *threads;
    int thread_count, next_thread;
    atomic_int connections, calls; /* that are not over */
    atomic_llong held;             /* bytes of messages and answers of all connections */
    atomic_int cut;                /* calls that ended without the answer they waited for */
    atomic_bool ending;            /* says farewell to all */
    atomic_bool cutting;           /* does not wait for them any more */
    atomic_bool over;              /* the threads end */

    pthread_mutex_t lock;   /* for `changed` */
    pthread_cond_t changed; /* the last connection or call ended */
    bool drained;
};

/* Wakes a thread. With its lock: then nothing of it is touched once it may have ended. */
void door_ring(struct door_thread *thread);
/* One connection or call less; who drains is told of the last. */
void door_count_down(struct grpc_door *door, atomic_int *count);

/* One question of a call; MultiInference has several. */
struct door_question {
    struct inference inference;
    struct door_call *call;
    struct arena *own; /* for its outputs; NULL: the call's */
};

enum call_state {
    CALL_ARRIVING, /* the client has not said all; streams stay here */
    CALL_ASKED,    /* the door owes it an answer, which may come from any thread */
    CALL_ANSWERED, /* which may not have left yet */
};

/* Belongs to its thread, but for what is between door_ask and door_answer. */
struct door_call {
    struct door_thread *thread;
    struct door_connection *connection; /* NULL: its stream is over */
    int32_t stream;
    struct door_call *next, **link;   /* calls of the connection; or spare ones */
    struct door_call *next_waiting;   /* of those answered by another thread, or to be unpacked */
    const struct door_method *method; /* NULL: one that nobody knows */
    enum call_state state;
    struct grpc_request incoming;
    size_t held;   /* bytes of messages, as its connection counts them */
    char peer[80]; /* for the access log */

    const void *message; /* the request */
    size_t bytes;
    double arrived, deadline; /* clock_seconds(); deadline 0: none */
    struct arena *arena;
    struct strbuf reply;

    /* The answer, and how far it has left. */
    enum serve_status status;
    char why[512];
    struct strbuf outgoing; /* messages with their prefixes */
    size_t sent;
    bool greeted; /* headers left: the status will be in trailers */
    double moved; /* clock_seconds() when the client last took something */

    /* For the counters and the log. */
    const char *model; /* as the client said it; "" */
    int64_t version;   /* < 0: unknown */

    /* An inference in flight. */
    void *request; /* the method's, in the arena */
    struct servable *servable;
    struct door_question *questions; /* in the arena */
    int question_count;
    atomic_int unanswered;

    int told; /* health: the last status that was sent */
};

struct door_method {
    const char *path; /* "/package.Service/Method" */
    bool stream;
    bool open;    /* answers without a token */
    bool counted; /* in the statistics, as `api` */
    enum serve_api api;
    /* Answers at once or later by door_answer, or, of a stream, each message by door_write. */
    void (*handle)(struct door_call *call);
    /* Of a stream: NULL, or called about every quarter of a second; it may write. */
    void (*tick)(struct door_call *call);
    /* NULL, or writes the reply when all questions have their answers. */
    enum serve_status (*finish)(struct door_call *call, struct error *err);
};

const struct door_method *method_find(const char *path); /* NULL: there is none */

/* Ends the call with this status, and `reply` when it is SERVE_OK. Exactly once per call, from any
 * thread; the call is not the caller's any more. */
void door_answer(struct door_call *call, enum serve_status status, const char *message);
/* Sends `reply` as one message of a stream; handle is called again with the next one that comes. */
void door_write(struct door_call *call);

/* Asks all `questions`, whose signature, inputs and rows are filled in; method->finish follows. */
void door_ask(struct door_call *call);
struct model_spec;
struct serve_target;
/* Whom the spec names. False: nobody can be, and the call was answered. */
bool door_target(struct door_call *call, const struct model_spec *spec, struct serve_target *out);
/* The model that the spec names, held until the call is over. False: the call was answered. */
bool door_hold(struct door_call *call, const struct model_spec *spec);
struct signature;
/* Room for questions of the held model. False: the call was answered. */
bool door_make_questions(struct door_call *call, int count);
const struct signature *door_signature(const struct door_call *call, const char *name);
/* door_answer for what a reader or check refused: by the error's code. */
void door_refuse(struct door_call *call, const struct error *err);

/* Handlers, by file. */
void predict_handle(struct door_call *call);
enum serve_status predict_finish(struct door_call *call, struct error *err);
void classify_handle(struct door_call *call);
enum serve_status classify_finish(struct door_call *call, struct error *err);
void regress_handle(struct door_call *call);
enum serve_status regress_finish(struct door_call *call, struct error *err);
void multi_handle(struct door_call *call);
enum serve_status multi_finish(struct door_call *call, struct error *err);
void metadata_handle(struct door_call *call);
void status_handle(struct door_call *call);
void reload_handle(struct door_call *call);
void infer_handle(struct door_call *call);
enum serve_status infer_finish(struct door_call *call, struct error *err);
void infer_live_handle(struct door_call *call);
void infer_ready_handle(struct door_call *call);
void infer_model_ready_handle(struct door_call *call);
void infer_server_handle(struct door_call *call);
void infer_model_handle(struct door_call *call);
void health_check_handle(struct door_call *call);
void health_watch_handle(struct door_call *call);
void health_watch_tick(struct door_call *call);
void reflection_handle(struct door_call *call);

#endif
