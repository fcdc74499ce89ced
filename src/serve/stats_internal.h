/* What the counters' files share. */
#ifndef SERVE_STATS_INTERNAL_H
#define SERVE_STATS_INTERNAL_H

#include <pthread.h>

#include "serve/stats.h"

enum {
    LATENCY_BUCKETS = 34, /* TF Serving's: 10 * 1.8^i microseconds, i < 33, and all above */
    STATUSES = 17,
    BATCH_BUCKETS = 13, /* 1, 2, 4 ... 2048, more */
};

struct latency {
    uint64_t counts[LATENCY_BUCKETS], count;
    double sum; /* microseconds */
};

struct version_counts {
    struct version_counts *next;
    int64_t version;
    bool loaded;
    uint64_t success, failure, rows, padded, executions, batch_requests;
    double request_us, queue_us, input_us, run_us, output_us;
    int pending;
    uint64_t batches[BATCH_BUCKETS]; /* by rows */
};

struct model_counts {
    struct model_counts *next;
    char *name;
    uint64_t status[STATUSES];
    uint64_t failed_loads, loads;
    struct latency latency[DOORS][APIS], runtime;
    struct version_counts *versions; /* newest first */
};

struct serve_stats {
    pthread_mutex_t lock; /* guards all below */
    struct model_counts *models;
    uint64_t unknown_models[DOORS], refused[DOORS], gone[DOORS];
    double started;
};

double latency_limit(int bucket); /* microseconds; of the last: infinity */
int batch_bucket(int rows);
const char *api_name(enum serve_door door, enum serve_api api);
const char *door_name(enum serve_door door);

#endif
