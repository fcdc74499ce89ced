/* MNIST and whatever comes in the same four files, such as Fashion-MNIST. */
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/storage.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE };

struct dataset {
    struct idx images, labels;
    float pixel_values[256]; /* byte / 255, rounded once */
    struct dataset_field fields[2];
    int64_t count; /* of examples: all, or as many as were asked for */
};

/* The plain file, or the packed one beside it. */
static int find_file(const struct storage *storage, const char *name, int *file, struct error *err)
{
    char packed[64];
    snprintf(packed, sizeof packed, "%s.gz", name);
    *file = storage_find(storage, name);
    if (*file < 0)
        *file = storage_find(storage, packed);
    return *file >= 0 ? 0
                      : error_set(err, ERROR_ABSENT, "%s holds neither %s nor %s",
                                  storage_name(storage), name, packed);
}

static int read_images(struct storage *storage, int file, struct idx *images, struct error *err)
{
    char path[PATH_MAX];
    storage_describe(storage, file, path, sizeof path);
    if (idx_read(storage, file, images, err) < 0)
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

static int read_labels(struct storage *storage, int file, int64_t count, int classes,
                       struct idx *labels, struct error *err)
{
    char path[PATH_MAX];
    storage_describe(storage, file, path, sizeof path);
    if (idx_read(storage, file, labels, err) < 0)
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

static int read_files(struct dataset *dataset, struct storage *storage,
                      const struct dataset_request *request, struct error *err)
{
    bool train = request->split == SPLIT_TRAIN;
    int images, labels;
    if (find_file(storage, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", &images,
                  err) < 0 ||
        read_images(storage, images, &dataset->images, err) < 0 ||
        find_file(storage, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", &labels,
                  err) < 0)
        return -1;
    return read_labels(storage, labels, dataset->images.dim[0],
                       request->classes > 0 ? request->classes : 256, &dataset->labels, err);
}

/* Everything is in memory afterwards: the storage is not needed any more. */
static int read_directory(struct dataset *dataset, const struct dataset_request *request,
                          struct error *err)
{
    static const char *const names[2][4] = {
        {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte",
         "train-labels-idx1-ubyte.gz"},
        {"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte",
         "t10k-labels-idx1-ubyte.gz"}};
    struct storage *storage;
    if (storage_open_files(request->path, names[request->split], 4, request->stop, &storage, err) <
        0)
        return -1;
    int status = read_files(dataset, storage, request, err);
    storage_close(storage);
    return status;
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
    if (read_directory(dataset, request, err) < 0) {
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
