/* Rows per second of Criteo text through the loader, shuffled: bench/csv_input DIR [THREADS [BATCH
 * [cache]]]. Prints the seconds of opening (one pass over the text) and then the best of a few
 * short runs, since the machine is shared. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "data/dataset.h"
#include "data/loader.h"

enum { RUNS = 5 };
static const double RUN_SECONDS = 1;

static int fail(const struct error *err)
{
    fprintf(stderr, "csv_input: %s\n", err->message);
    return 1;
}

/* Reads batches for a while; returns rows per second, or -1. */
static double run_once(struct loader *loader, struct error *err)
{
    int64_t rows = 0;
    double start = clock_seconds(), now = start;
    while (now - start < RUN_SECONDS) {
        const struct batch *batch;
        if (loader_next(loader, &batch, err) < 0)
            return -1;
        rows += batch->rows;
        now = clock_seconds();
    }
    return (double)rows / (now - start);
}

static int measure(const struct dataset_kind *kind, struct dataset *dataset, int threads, int batch,
                   struct error *err)
{
    struct loader_options options = {
        .batch = batch, .shards = 1, .threads = threads, .prefetch = 8, .seed = 1, .shuffle = true};
    struct loader *loader;
    if (loader_create(dataset, kind, &options, &loader, err) < 0)
        return -1;
    double best = 0;
    for (int i = 0; i < RUNS && best >= 0; i++) {
        double rate = run_once(loader, err);
        best = rate < 0 ? -1 : rate > best ? rate : best;
    }
    loader_destroy(loader);
    if (best < 0)
        return -1;
    printf("%d threads, batch %d: %.0f rows/s\n", threads, batch, best);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const struct dataset_kind *kind;
    const char *path;
    if (argc < 2) {
        fprintf(stderr, "usage: csv_input DIR [THREADS [BATCH [cache]]]\n");
        return 2;
    }
    int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 2;
    int batch = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 512;
    struct dataset_request request = {.path = argv[1], .cache = argc > 4};
    if (dataset_find("criteo", &kind, &path, &err) < 0)
        return fail(&err);
    struct dataset *dataset;
    double start = clock_seconds();
    if (kind->open(&request, &dataset, &err) < 0)
        return fail(&err);
    double seconds = clock_seconds() - start;
    printf("opened %" PRId64 " rows in %.2f s: %.0f rows/s\n", kind->count(dataset), seconds,
           (double)kind->count(dataset) / seconds);
    int status = measure(kind, dataset, threads, batch, &err);
    kind->close(dataset);
    return status < 0 ? fail(&err) : 0;
}
