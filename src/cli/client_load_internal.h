/* Connections that ask: what those with one request at a time and those with several share. */
#ifndef CLI_CLIENT_LOAD_INTERNAL_H
#define CLI_CLIENT_LOAD_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "cli/client_data.h"
#include "cli/client_load.h"

/* What all connections share. */
struct load {
    const struct load_settings *settings;
    pthread_barrier_t connected;
    atomic_llong next;     /* request to be sent */
    atomic_bool abandoned; /* one connection failed for good */
    double start;          /* clock_seconds() of request 0, set before the barrier opens */
};

/* A request that is under way. */
struct flight {
    struct arena *arena;
    struct client_batch batch;
    int64_t index;
    double begun;
};

struct connection {
    struct load *load;
    pthread_t thread;
    bool running;
    struct client_link *link;
    struct flight *flights; /* one for each stream */
    struct load_result result;
    double first, last; /* of what was measured; 0: nothing */
    struct error err;
    int status;
};

/* The next request's number; < 0: all were sent. */
int64_t load_take_index(struct load *load);
int load_make_request(struct connection *connection, struct flight *flight, int64_t index,
                      struct error *err);
/* Whether request `index` is still to be sent, and when: *begun. Sleeps until then. */
bool load_wait_for_turn(struct connection *connection, int64_t index, double *begun);
/* Counts an answer that has just come. */
int load_note(struct connection *connection, const struct flight *flight,
              const struct client_answer *answer, struct error *err);

/* All requests of a connection that has several under way. */
int load_send_streams(struct connection *connection, struct error *err);

#endif
