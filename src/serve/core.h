/* What all doors share: the repository, the batcher with its workers, the counters, the tokens that
 * let in, and whether the server is ending. Doors come and go around it. */
#ifndef SERVE_CORE_H
#define SERVE_CORE_H

#include <stdbool.h>

#include "serve/batcher.h"
#include "serve/repository.h"
#include "serve/stats.h"

struct error;
struct inference;
struct serve_core;

struct core_settings {
    struct repository_settings repository; /* `changed` is the core's: it logs and counts */
    struct batcher_settings batcher;
    const char
        *token_file; /* one bearer token a line; re-read when it changes; NULL: all may ask */
    bool start;      /* the threads; tests may do without */
};

int core_create(const struct core_settings *settings, struct serve_core **out, struct error *err);
/* When all doors are closed. Accepts NULL. */
void core_destroy(struct serve_core *core);

struct repository *core_repository(struct serve_core *core);
struct batcher *core_batcher(struct serve_core *core);
struct serve_stats *core_stats(struct serve_core *core);

/* Whether who brings this may ask: the value of an "authorization" header or metadata ("Bearer ..."),
 * NULL for none. Compares in constant time. */
bool core_admits(struct serve_core *core, const char *authorization);
/* All models have a version and the server is not ending: /readyz, grpc.health.v1's "". */
bool core_ready(struct serve_core *core);
/* Not ready from now on, while doors still answer; then doors drain. */
void core_begin_ending(struct serve_core *core);

#endif
