/* Writes examples of a dataset to the standard output, for scripts that judge them.
 *
 *   dump_data SPEC train|evaluate COUNT     e.g. dump_data digits train 1000
 *
 * Per example: its fields in the dataset's order, as little-endian numbers. */
#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"
#include "data/dataset.h"

static int write_example(const struct dataset_kind *kind, struct dataset *dataset, int64_t index,
                         struct tensor *row, int field_count, struct error *err)
{
    if (kind->read(dataset, index, 0, row, 0, err) < 0)
        return -1;
    for (int i = 0; i < field_count; i++)
        if (fwrite(row[i].data, tensor_bytes(&row[i]), 1, stdout) != 1)
            return error_set(err, ERROR_IO, "the standard output takes no more");
    return 0;
}

static int write_all(const struct dataset_kind *kind, struct dataset *dataset, int64_t count,
                     struct arena *arena, struct error *err)
{
    struct tensor row[DATASET_MAX_FIELDS];
    const struct dataset_field *fields;
    int field_count = kind->fields(dataset, &fields);
    for (int i = 0; i < field_count; i++)
        if (tensor_create(arena, fields[i].dtype, shape_with_batch(fields[i].shape, 1), &row[i],
                          err) < 0)
            return -1;
    for (int64_t i = 0; i < count; i++)
        if (write_example(kind, dataset, i, row, field_count, err) < 0)
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const struct dataset_kind *kind;
    struct dataset *dataset;
    struct dataset_request request = {.seed = 1, .classes = 10};
    if (argc != 4) {
        fprintf(stderr, "usage: dump_data SPEC train|evaluate COUNT\n");
        return 2;
    }
    request.split = strcmp(argv[2], "train") == 0 ? SPLIT_TRAIN : SPLIT_EVALUATE;
    request.examples = strtoll(argv[3], NULL, 10);
    if (dataset_find(argv[1], &kind, &request.path, &err) < 0 ||
        kind->open(&request, &dataset, &err) < 0) {
        fprintf(stderr, "dump_data: %s\n", err.message);
        return 1;
    }
    struct arena *arena = arena_create();
    int64_t count =
        kind->count(dataset) < request.examples ? kind->count(dataset) : request.examples;
    int status = write_all(kind, dataset, count, arena, &err);
    if (status < 0)
        fprintf(stderr, "dump_data: %s\n", err.message);
    arena_destroy(arena);
    kind->close(dataset);
    return status < 0;
}
