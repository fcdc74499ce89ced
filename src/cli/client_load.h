/* Questions to a served model from several connections at once: as fast as answers come (closed
 * loop), or at times fixed before (open loop), in which case a request's time counts from when it
 * should have been sent, so that a slow server cannot hide behind the client that waits for it. */
#ifndef CLI_CLIENT_LOAD_H
#define CLI_CLIENT_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "cli/client_link.h"
#include "cli/latency.h"

struct client_data;
struct error;

enum { LOAD_STATUSES = 17, LOAD_SECONDS = 3600 };

struct load_settings {
    const struct client_link_settings *link;
    struct client_data *data; /* NULL: the questions need none */
    const char *output;       /* that the scores are in */
    int batch, connections;
    int streams;      /* requests at a time on each connection */
    double rate;      /* requests a second; 0: closed loop */
    int64_t requests; /* that are measured; 0: as many as fit */
    double seconds;   /* no request is begun later; 0: no end */
    int64_t warm_up;  /* requests before the first that is measured */
    const atomic_int *stop;
};

struct load_result {
    struct latency latency; /* of answers that were SERVE_OK */
    int64_t answered, failed;
    int64_t statuses[LOAD_STATUSES]; /* of those measured */
    int64_t examples, correct;
    double seconds;                    /* from the first measured request to the last answer */
    uint32_t per_second[LOAD_SECONDS]; /* answers */
    char failure[512];                 /* of the first that failed; "" */
};

/* Fails when memory or the data fail; failed requests are counted. *out is not touched then. */
int load_run(const struct load_settings *settings, struct load_result *out, struct error *err);

/* How many of the batch's rows the scores get right: the greatest of several, or over a half. */
struct tensor;
int load_count_correct(const struct tensor *scores, const int32_t *labels, int rows);

#endif
