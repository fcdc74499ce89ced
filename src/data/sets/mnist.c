/* MNIST and whatever comes in the same four files, such as Fashion-MNIST. */
#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/idx.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE };

struct dataset {
    struct idx images, labels;
    float pixel_values[256]; /* byte / 255, rounded once */
    struct dataset_field fields[2];
    int64_t count; /* of examples: all, or as many as were asked for */
};

/* The plain file, or the packed one beside it. */
static int find_file(const char *directory, const char *name, char path[PATH_MAX],
                     struct error *err)
{
    static const char *const endings[] = {"", ".gz"};
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, PATH_MAX, "%s/%s%s", directory, name, endings[i]);
        if (length >= PATH_MAX)
            return error_set(err, ERROR_USAGE, "the path of the data is longer than %d bytes",
                             PATH_MAX);
        if (access(path, F_OK) == 0)
            return 0;
    }
    return error_set(err, ERROR_IO, "%s holds neither %s nor %s.gz", directory, name, name);
}

static int read_images(const char *path, struct idx *images, struct error *err)
{
    if (idx_read(path, images, err) < 0)
        return -1;
    if (images->ndim != 3 || images->dim[1] != SIDE || images->dim[2] != SIDE)
        return error_set(err, ERROR_FORMAT,
                         "%s: %d dimensions of which the last is %" PRId64
                         "; images of [count, 28, 28] were expected",
                         path, images->ndim, images->dim[images->ndim - 1]);
    if (images->dim[0] == 0)
        return error_set(err, ERROR_FORMAT, "%s: holds no images", path);
    return 0;
}

static int read_labels(const char *path, int64_t count, int classes, struct idx *labels,
                       struct error *err)
{
    if (idx_read(path, labels, err) < 0)
        return -1;
    if (labels->ndim != 1)
        return error_set(err, ERROR_FORMAT, "%s: %d dimensions; labels have one", path,
                         labels->ndim);
    if (labels->dim[0] != count)
        return error_set(err, ERROR_FORMAT,
                         "%s: %" PRId64 " labels for %" PRId64 " images; the files do not belong "
                         "together",
                         path, labels->dim[0], count);
    for (int64_t i = 0; i < count; i++)
        if (labels->values[i] >= classes)
            return error_set(err, ERROR_FORMAT,
                             "%s: label %d of example %" PRId64 " (offset %" PRId64
                             ") is not below the %d classes",
                             path, labels->values[i], i, i + 8, classes);
    return 0;
}

static void mnist_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    idx_release(&dataset->images);
    idx_release(&dataset->labels);
    memory_free(dataset);
}

static int read_files(struct dataset *dataset, const struct dataset_request *request,
                      struct error *err)
{
    bool train = request->split == SPLIT_TRAIN;
    char path[PATH_MAX];
    if (find_file(request->path, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", path,
                  err) < 0 ||
        read_images(path, &dataset->images, err) < 0)
        return -1;
    if (find_file(request->path, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", path,
                  err) < 0)
        return -1;
    return read_labels(path, dataset->images.dim[0], request->classes > 0 ? request->classes : 256,
                       &dataset->labels, err);
}

static int mnist_open(const struct dataset_request *request, struct dataset **out,
                      struct error *err)
{
    if (!request->path)
        return error_set(err, ERROR_USAGE,
                         "mnist needs the directory of its four files: --data mnist:DIR");
    struct dataset *dataset = memory_allocate(sizeof *dataset);
    if (!dataset)
        return error_set(err, ERROR_MEMORY, "no memory for the dataset");
    if (read_files(dataset, request, err) < 0) {
        mnist_close(dataset);
        return -1;
    }
    dataset->count = dataset->images.dim[0];
    if (request->examples > 0 && request->examples < dataset->count)
        dataset->count = request->examples;
    for (int i = 0; i < 256; i++)
        dataset->pixel_values[i] = (float)i / 255.0f;
    dataset->fields[0] = (struct dataset_field){
        .name = "image", .dtype = DTYPE_F32, .shape = SHAPE(SHAPE_BATCH, SIDE, SIDE, 1)};
    dataset->fields[1] =
        (struct dataset_field){.name = "label", .dtype = DTYPE_I32, .shape = SHAPE(SHAPE_BATCH)};
    *out = dataset;
    return 0;
}

static int64_t mnist_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int mnist_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    *out = dataset->fields;
    return 2;
}

static int mnist_read(struct dataset *dataset, int64_t index, uint64_t random, struct tensor *batch,
                      int row, struct error *err)
{
    (void)random;
    (void)err;
    const uint8_t *bytes = dataset->images.values + index * PIXELS;
    float *pixels = (float *)batch[0].data + (size_t)row * PIXELS;
    for (int i = 0; i < PIXELS; i++)
        pixels[i] = dataset->pixel_values[bytes[i]];
    ((int32_t *)batch[1].data)[row] = dataset->labels.values[index];
    return 0;
}

const struct dataset_kind dataset_mnist = {
    .name = "mnist",
    .summary = "mnist:DIR: handwritten digits (or Fashion-MNIST), idx files, packed or not",
    .open = mnist_open,
    .count = mnist_count,
    .fields = mnist_fields,
    .read = mnist_read,
    .close = mnist_close,
    .cheap = true,
};
