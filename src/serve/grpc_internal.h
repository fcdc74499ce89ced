/* What the door's files share: a call from its arrival to its end. */
#ifndef SERVE_GRPC_INTERNAL_H
#define SERVE_GRPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/strbuf.h"
#include "serve/grpc_door.h"
#include "serve/grpc_library.h"

struct door_call;
struct door_method;

/* What a completion queue tells of. */
enum door_event {
    EVENT_ARRIVED,  /* a new call, with its message when it has just one */
    EVENT_CLOSED,   /* the call is over, or its client gave it up */
    EVENT_RECEIVED, /* of a stream: a message, or the end of them */
    EVENT_WROTE,    /* of a stream */
    EVENT_SENT,     /* the status left */
    EVENTS,
};

/* The tag of a batch: its place in the call tells the event. */
struct door_tag {
    struct door_call *call;
    enum door_event event;
};

/* A thread with its completion queue. Calls stay with the thread at which they arrived. */
struct door_thread {
    struct grpc_door *door;
    grpc_completion_queue *queue;
    pthread_t thread;
    bool running;
    struct door_call *streams; /* that are open; this thread's alone */
    pthread_mutex_t lock;      /* guards `spare`; held for a few instructions */
    struct door_call *spare;   /* calls that ended, for reuse */
};

struct grpc_door {
    const struct grpc_library *grpc;
    struct grpc_backend backend;
    struct door_options options;
    grpc_server *server;
    int port;
    struct door_thread *threads;
    int thread_count;
    void **handles; /* [method_count()]: what gRPC knows the methods by */
    struct door_tag shutdown_tag;
    atomic_bool ending;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    int64_t calls;  /* that arrived and are not over */
    bool shut_down; /* gRPC says that nothing comes any more */
    bool drained;
};

/* One question of a call; MultiInference has several. */
struct door_question {
    struct inference inference;
    struct door_call *call;
    struct arena *own; /* for its outputs; NULL: the call's */
};

struct door_call {
    struct door_thread *thread;
    const struct door_method *method; /* NULL: one that nobody knows */
    struct door_tag tags[EVENTS];
    grpc_call *call;
    grpc_call_details details; /* of an unknown method */
    gpr_timespec deadline_moment;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    grpc_slice joined;
    int cancelled;

    /* Batches under way, and one for the answer that is owed: the call ends when none is left. */
    atomic_int parts;
    atomic_bool answered;

    const void *message; /* the request */
    size_t bytes;
    double arrived, deadline; /* clock_seconds(); deadline 0: none */
    struct arena *arena;
    struct strbuf reply;

    /* For the counters and the log. */
    const char *model; /* as the client said it; "" */
    int64_t version;   /* < 0: unknown */

    /* An inference in flight. */
    void *request; /* the method's, in the arena */
    struct servable *servable;
    struct door_question *questions; /* in the arena */
    int question_count;
    atomic_int unanswered;

    /* Of a stream. */
    bool greeted; /* the initial metadata left */
    int told;     /* health: the last status that was sent */
    bool writing;
    struct door_call *next; /* open streams, or spare calls */
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

int method_count(void);
const struct door_method *method_at(int index);

/* Ends the call with this status, and `reply` when it is SERVE_OK. Exactly once per call, from any
 * thread; the call is not the caller's any more. */
void door_answer(struct door_call *call, enum serve_status status, const char *message);
/* Sends `reply` as one message of a stream; handle is called again with the next one that comes. */
void door_write(struct door_call *call);

/* Asks all `questions`, whose signature, inputs and rows are filled in; method->finish follows. */
void door_ask(struct door_call *call);
/* The model that the spec names, held until the call is over. False: the call was answered. */
struct model_spec;
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
