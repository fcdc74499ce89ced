/* From a SPEC ("digits", "mnist:DIR") to batches for a network: the dataset, its loader and their
 * fields. What the program and the library open data with. */
#ifndef TRAIN_SOURCE_H
#define TRAIN_SOURCE_H

#include "data/loader.h"
#include "train/trainer.h"

struct graph;
struct params;

struct source_options {
    enum dataset_split split; /* training: shuffled, without end; evaluation: one pass in order */
    int batch, classes;
    /* As in struct loader_options; evaluation deals whole batches. shards 0: alone. */
    int shard, shards, shard_count, held;
    uint64_t seed;
    int64_t examples; /* how many to draw, or at most to read; 0: the kind's own number */
    int threads;      /* that read ahead; -1: as many as the kind needs */
    size_t prefetch_bytes;
    int64_t skip_bad;        /* both as in struct loader_options */
    enum pixel_scale pixels; /* as in struct dataset_request */
    bool cache;              /* likewise */
    const atomic_int *stop;  /* likewise */
};

/* Data that is open. All zero is none. */
struct source {
    const struct dataset_kind *kind;
    struct dataset *dataset;
    struct trainer_data trainer;
};

/* Asks the dataset for what the graph's inputs are. Fails with what was wrong with `spec` or the
 * data behind it. */
int source_open(struct source *source, const struct graph *graph, const char *spec,
                const struct source_options *options, struct error *err);
/* Sets what `normalize` operations on the data's fields subtract and divide by: the least value and
 * the range of each column, over training and evaluation data. For before training; weights that
 * are loaded bring their own. Data without statistics leaves them as they are. */
enum source_scaling {
    SOURCE_SCALE_BY_RANGE,     /* least 0, greatest 1, as the original Wide & Deep does */
    SOURCE_SCALE_BY_DEVIATION, /* mean 0, deviation 1: better where a few numbers are huge */
};
int source_fill_statistics(const struct source *source, const struct graph *graph,
                           enum source_scaling scaling, struct params *params, struct error *err);
/* Whether that has something to fill. */
bool source_scales(const struct source *source, const struct graph *graph);
/* Of what the data is, wherever it lies: its kind, how much there is, its first and last example.
 * Examples that cannot be read count as nothing here. */
uint64_t source_fingerprint(const struct source *source);
void source_close(struct source *source); /* accepts one that is not open */

#endif
