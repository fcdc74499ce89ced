/* sums [--half] BYTES...: how long the ranks of an mpirun take to sum so many bytes of floats when
 * they do nothing else, as one JSON object: what a schedule of reductions can count on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"

enum { RUNS = 5 };

static int compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* The median, as of the steps that it is compared with. Agreeing first lets all begin together. */
static int measure(struct comm *comm, float *values, size_t count, enum comm_wire wire, double *out,
                   struct error *err)
{
    double seconds[RUNS];
    bool same;
    for (int i = 0; i < RUNS; i++) {
        struct comm_reduction sum = {.values = values, .count = count, .wire = wire};
        struct comm_request request;
        if (comm_agree(comm, 1, &same, err) < 0 ||
            comm_reduce_start(comm, &sum, &request, err) < 0 || comm_wait(comm, &request, err) < 0)
            return -1;
        seconds[i] = request.end - request.start;
    }
    qsort(seconds, RUNS, sizeof *seconds, compare);
    *out = seconds[RUNS / 2];
    return 0;
}

static int run(struct comm *comm, char **sizes, int count, enum comm_wire wire, struct error *err)
{
    bool speaks = comm_rank(comm) == 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = strtoull(sizes[i], NULL, 10);
        float *values = memory_allocate(bytes + 1);
        double seconds;
        if (!values)
            return error_set(err, ERROR_MEMORY, "no memory for %zu bytes", bytes);
        int status = measure(comm, values, bytes / sizeof *values, wire, &seconds, err);
        memory_free(values);
        if (status < 0)
            return -1;
        if (speaks)
            printf("%s{\"bytes\": %zu, \"seconds\": %.6f}", i ? ", " : "{\"sums\": [", bytes,
                   seconds);
    }
    if (speaks)
        printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct comm *comm = NULL;
    bool half = argc > 1 && !strcmp(argv[1], "--half");
    int first = 1 + half;
    if (argc <= first) {
        fprintf(stderr, "usage: sums [--half] BYTES...\n");
        return 2;
    }
    int status = comm_open(&comm, &err);
    if (status == 0)
        status =
            run(comm, argv + first, argc - first, half ? COMM_WIRE_HALF : COMM_WIRE_FLOAT, &err);
    if (status < 0)
        fprintf(stderr, "sums: %s\n", err.message);
    comm_close(comm);
    return status < 0;
}
