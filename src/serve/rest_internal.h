/* What the REST door's files share. */
#ifndef SERVE_REST_INTERNAL_H
#define SERVE_REST_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/strbuf.h"
#include "serve/door.h"
#include "serve/inference.h"
#include "serve/rest.h"
#include "serve/rest_path.h"
#include "serve/rest_pool.h"
#include "serve/rest_v2.h"

struct server;
struct server_request;
struct server_stream;

/* One request, from its arrival to its reply. Taken and given back on the server's thread; between
 * the two it belongs to one thread at a time: the server's, the pool's or a worker's. */
struct rest_call {
    struct rest_task task; /* first: the pool gives it back */
    struct rest_door *door;
    struct rest_call *next, **before; /* of the free ones, or of those in flight */
    struct server_request *request;
    struct arena *arena;
    struct strbuf reply;
    struct rest_path path;
    bool post;
    const char *body; /* the request's, until the reply */
    size_t body_bytes, json_bytes;
    struct inference inference;
    struct rest_v2_request v2;
    struct tensor *inputs;
    bool by_rows, written;
    size_t reply_json_bytes; /* of an answer with binary tensors; 0: all */
    double start;
    int64_t version; /* that answered; < 0: none */
    const char *content_type;
};

struct rest_door {
    struct serve_core *core;
    struct server *server;
    struct door_options options;
    struct rest_pool *pool;
    struct rest_call *free;   /* the server's thread's */
    struct rest_call *flying; /* as well */
    struct server_stream *stream;
    pthread_mutex_t lock; /* guards the next */
    pthread_cond_t quiet; /* signalled when it becomes 0 */
    int calls;            /* in flight */
    double answered;      /* when the last one was; 0: none was */
};

/* rest_call.c: answers what is asked of models; `context` is the door. On the server's thread. */
void rest_call_begin(void *context, struct server_request *request);
void rest_call_free(struct rest_call *call); /* accepts NULL; one that is not in flight */
/* rest_page.c: adds the routes of the status page. */
int rest_page_route(struct rest_door *door, struct error *err);

#endif
