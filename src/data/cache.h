/* Whole objects from elsewhere, kept on this machine's disk: a directory of bounded size, shared
 * by all processes of a user; what was used longest ago goes first, what a living process has
 * mapped stays. */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

struct cached {
    int file; /* holds a shared lock, so that nobody evicts it; -1: nothing */
    const uint8_t *data;
    size_t bytes;
};

/* Fills all of `into`. */
typedef int cache_fill(void *context, uint8_t *into, struct error *err);

/* An entry whose size shows only when it is written: room is made for it as it grows, under the
 * same limits. Of several processes one writes, the others wait. */
struct cache_draft;

/* Maps the entry `name` (a plain file name that changes with the content), which `fill` makes when
 * it is not there; of several processes that want it one does, the others wait. In
 * $LOCKSTEP_CACHE_DIR/s3, else $XDG_CACHE_HOME/lockstep/s3, else ~/.cache/lockstep/s3; at most
 * $LOCKSTEP_CACHE_BYTES (32 GiB; K, M, G and T are understood) and never more than half of what
 * would be free without it. Fails, naming the numbers, when the entry cannot fit, and with
 * ERROR_CANCELLED when `stop` (may be NULL) becomes nonzero while it waits for another process. */
int cache_bring(const char *name, size_t bytes, cache_fill *fill, void *context,
                const atomic_int *stop, struct cached *out, struct error *err);
/* The entry when it is already there, and has so many bytes; 0: any number. */
bool cache_find(const char *name, size_t bytes, struct cached *out);
/* *out is NULL when the entry is there; then `found` has it. */
int cache_draft_begin(const char *name, const atomic_int *stop, struct cached *found,
                      struct cache_draft **out, struct error *err);
int cache_draft_write(struct cache_draft *draft, const void *bytes, size_t count,
                      struct error *err);
/* The entry appears, unless it is empty: then *out holds nothing. */
int cache_draft_finish(struct cache_draft *draft, struct cached *out, struct error *err);
void cache_draft_destroy(struct cache_draft *draft); /* accepts NULL; drops what is not finished */
void cached_release(struct cached *cached);          /* accepts one that holds nothing */

#endif
