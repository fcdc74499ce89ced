/* Batches from a dataset, read ahead by threads. It deals in shards, not ranks: shard s of S gets
 * rows s, s+S, ... of each global batch, so S shards together see each example of an epoch once. A
 * loader may serve several neighbouring shards: each step is then one batch of each, in order.
 * The order, and the random stream of each example, depend on (seed, epoch, index) alone, never
 * on thread timing. For one thread at a time. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

struct loader;
struct trace_track;

struct loader_options {
    int batch;             /* rows this shard gets per step */
    int shard, shards;     /* 0 of 1 when alone */
    int shard_count;       /* shards it serves, from `shard` on; 0: that one */
    bool whole_batches;    /* shard s gets batches s, s+S, ... of a single pass instead of rows */
    int held;              /* batches given out that stay valid, the newest included; 0: 1 */
    int threads;           /* 0: read in loader_next itself */
    int prefetch;          /* batches ready ahead; 0: a sensible number... */
    size_t prefetch_bytes; /* ...whose memory stays below this, but for one; 0: no limit */
    uint64_t seed;
    /* Examples that cannot be decoded (ERROR_FORMAT) are left out, up to this many different ones;
     * in training the next good one of the dataset stands in, so that batches stay full and the
     * same whatever the threads. Other failures, such as a broken disk, are never skipped. */
    int64_t skip_bad;
    bool shuffle;
    /* false (training): epochs follow each other without an end and every batch is full, the
     * rest of an epoch that fills no batch being left out; true (evaluation): one pass, the last
     * batch may be short. */
    bool single_pass;
};

struct loader_position {
    int64_t epoch, step; /* step within the epoch: all that a checkpoint needs */
    int part;            /* which of the loader's shards is next in the step */
};

struct batch {
    struct tensor *fields; /* in the dataset's order, `batch` rows each */
    int field_count;
    int rows; /* filled ones; the others are zero */
};

int loader_create(struct dataset *dataset, const struct dataset_kind *kind,
                  const struct loader_options *options, struct loader **out, struct error *err);
void loader_destroy(struct loader *loader); /* accepts NULL; the dataset stays open */
int64_t loader_steps_per_epoch(const struct loader *loader);
/* Also after a failure or the end of a pass. A training position behind the last step of its epoch
 * is the start of the next one. The last batch is no longer valid. */
void loader_seek(struct loader *loader, struct loader_position position);
/* Of the batch that loader_next gives next. */
struct loader_position loader_tell(const struct loader *loader);
/* *batch stays valid until as many calls later as are `held`. Fails with what the dataset said about the first example
 * of the batch that cannot be read (when no more may be skipped), and again at each call until loader_seek. At the end of a
 * single pass: rows == 0, until loader_seek. Allocates nothing. */
int loader_next(struct loader *loader, const struct batch **batch, struct error *err);
/* Time loader_next spent waiting for data (or reading it, without threads) since the loader was
 * made. */
double loader_stall_seconds(const struct loader *loader);
/* Time all threads together spent reading, since the loader was made; how many there are. */
double loader_read_seconds(struct loader *loader);
int loader_threads(const struct loader *loader);
/* From now on each thread adds a span to its track for the rows it reads at once (without threads:
 * loader_next does, to the first); NULL: no longer, once this returns. The tracks are the caller's,
 * as many as loader_threads, but at least one. */
void loader_trace(struct loader *loader, struct trace_track *const *tracks);
/* Different bad examples left out of the batches delivered so far; what was wrong with the first, or "". */
int64_t loader_bad_examples(const struct loader *loader);
const char *loader_first_bad(const struct loader *loader);

#endif
