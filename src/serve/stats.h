/* What is counted while serving: for metrics under TF Serving's, Triton's and our own names, and for
 * the status page. One lock, held for a few additions. */
#ifndef SERVE_STATS_H
#define SERVE_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/status.h"

struct error;
struct json;
struct repository;
struct serve_stats;
struct strbuf;

enum serve_door { DOOR_REST, DOOR_GRPC, DOORS };
/* As TF Serving's label "API" has them; those of the Open Inference Protocol are ours. */
enum serve_api {
    API_PREDICT,
    API_CLASSIFY,
    API_REGRESS,
    API_MULTI_INFERENCE,
    API_METADATA,
    API_STATUS,
    API_INFER,
    APIS,
};

int stats_create(struct serve_stats **out, struct error *err);
void stats_destroy(struct serve_stats *stats); /* accepts NULL */

/* A door tells of every request it answered. `model` is as the client said it (NULL: none); names
 * that are not served are counted together, so that nobody can fill the memory with them. `version`
 * < 0: unknown. `seconds` from the request's last byte to the reply's first. */
void stats_request(struct serve_stats *stats, enum serve_door door, enum serve_api api,
                   const char *model, int64_t version, enum serve_status status, double seconds);
/* Who was turned away at the door: no or a wrong token. */
void stats_refused(struct serve_stats *stats, enum serve_door door);
/* Somebody left before the answer. */
void stats_gone(struct serve_stats *stats, enum serve_door door);

/* The batcher tells of every batch... */
struct stats_batch {
    const char *model;
    int64_t version;
    int requests, rows, padded; /* padded: rows of the plan that computed them */
    double queue_seconds;       /* summed over the requests */
    double input_seconds, run_seconds, output_seconds;
};
void stats_batch(struct serve_stats *stats, const struct stats_batch *batch);
/* ... and of how many wait. */
void stats_pending(struct serve_stats *stats, const char *model, int64_t version, int change);
/* The repository tells which models there are, and of every load. */
void stats_version(struct serve_stats *stats, const char *model, int64_t version, bool loaded);
void stats_failed_load(struct serve_stats *stats, const char *model);

/* Appends all as Prometheus's text format 0.0.4. */
void stats_exposition(struct serve_stats *stats, struct strbuf *out);
/* Fills an object with what the status page shows. */
void stats_json(struct serve_stats *stats, struct json *out);

#endif
