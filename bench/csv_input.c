/* Rows per second of Criteo text through the loader, shuffled: bench/csv_input DIR [THREADS [BATCH
 * [cache]]]. Prints the seconds of opening (one pass over the text) and then the best of a few
 * short runs, since the machine may be shared; the processor's time, which is not, stands beside it. */
#include <inttypes.h>
#include <time.h>

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

struct rates {
    double per_second, per_core_second;
};

static double core_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads batches for a while; keeps the best rates. */
static int run_once(struct loader *loader, struct rates *best, struct error *err)
{
    int64_t rows = 0;
    double core_start = core_seconds();
    double start = clock_seconds(), now = start;
    while (now - start < RUN_SECONDS) {
        const struct batch *batch;
        if (loader_next(loader, &batch, err) < 0)
            return -1;
        rows += batch->rows;
        now = clock_seconds();
    }
    struct rates rates = {(double)rows / (now - start),
                          (double)rows / (core_seconds() - core_start)};
    if (rates.per_second > best->per_second)
        best->per_second = rates.per_second;
    if (rates.per_core_second > best->per_core_second)
        best->per_core_second = rates.per_core_second;
    return 0;
}

static int measure(const struct dataset_kind *kind, struct dataset *dataset, int threads, int batch,
                   struct error *err)
{
    struct loader_options options = {
        .batch = batch, .shards = 1, .threads = threads, .prefetch = 8, .seed = 1, .shuffle = true};
    struct loader *loader;
    if (loader_create(dataset, kind, &options, &loader, err) < 0)
        return -1;
    struct rates best = {0};
    int status = 0;
    for (int i = 0; i < RUNS && status == 0; i++)
        status = run_once(loader, &best, err);
    loader_destroy(loader);
    if (status == 0)
        printf("%d threads, batch %d: %.0f rows/s, %.0f per second of a core\n", threads, batch,
               best.per_second, best.per_core_second);
    return status;
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
