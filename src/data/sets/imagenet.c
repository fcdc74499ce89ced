/* ImageNet, and whatever comes as TFRecords with the same keys: image/encoded and image/class/label.
 *
 * Labels in the files count from 1. A network of 1001 classes, the usual number, takes them as
 * they are and has class 0 for "background"; a network of any other number K has classes 0 .. K-1
 * for the labels 1 .. K. A label that does not fit is refused when its record is read; that is no
 * damage, so --skip-bad-records does not pass over it. */
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "data/dataset.h"
#include "data/pictures.h"
#include "data/shards.h"
#include "wire/example.h"

enum { USUAL_SIZE = 224, USUAL_CLASSES = 1001, CHANNELS = 3 };

struct dataset {
    struct shards *shards;
    struct pictures *pictures;
    const struct picture_numbers *numbers;
    bool train;
    int size, classes;
    int64_t count;
    struct dataset_field fields[2];
};

static void imagenet_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    shards_close(dataset->shards);
    pictures_destroy(dataset->pictures);
    memory_free(dataset);
}

/* The side of the square pictures that the network takes. */
static int find_size(const struct dataset_request *request, int *out, struct error *err)
{
    *out = USUAL_SIZE;
    for (int i = 0; i < request->field_count; i++) {
        const struct dataset_field *field = &request->fields[i];
        const int64_t *dim = field->shape.dim;
        if (strcmp(field->name, "image") != 0)
            continue;
        if (field->dtype != DTYPE_F32 || field->shape.ndim != 4 || dim[3] != CHANNELS ||
            dim[1] != dim[2] || dim[1] < 1 || dim[1] > INT_MAX)
            return error_set(err, ERROR_USAGE,
                             "imagenet gives square colour pictures, but the network's 'image' is "
                             "not of that shape");
        *out = (int)dim[1];
        return 0;
    }
    return request->field_count == 0
               ? 0
               : error_set(err, ERROR_USAGE,
                           "imagenet gives 'image', but the network has no such input");
}

static int fill(struct dataset *dataset, const struct dataset_request *request, struct error *err)
{
    dataset->train = request->split == SPLIT_TRAIN;
    dataset->numbers = picture_numbers_of(request->pixels);
    dataset->classes = request->classes > 0 ? request->classes : USUAL_CLASSES;
    if (find_size(request, &dataset->size, err) < 0 ||
        pictures_create(&dataset->pictures, err) < 0 ||
        shards_open(request->path, dataset->train ? "train" : "validation", threads_available(),
                    request->stop, &dataset->shards, err) < 0)
        return -1;
    dataset->count = shards_count(dataset->shards);
    if (request->examples > 0 && request->examples < dataset->count)
        dataset->count = request->examples;
    dataset->fields[0] =
        (struct dataset_field){.name = "image",
                               .dtype = DTYPE_F32,
                               .shape = SHAPE(SHAPE_BATCH, dataset->size, dataset->size, CHANNELS)};
    dataset->fields[1] =
        (struct dataset_field){.name = "label", .dtype = DTYPE_I32, .shape = SHAPE(SHAPE_BATCH)};
    return 0;
}

static int imagenet_open(const struct dataset_request *request, struct dataset **out,
                         struct error *err)
{
    if (!request->path)
        return error_set(err, ERROR_USAGE,
                         "imagenet needs the directory of its TFRecord files: --data imagenet:DIR");
    struct dataset *dataset = memory_allocate(sizeof *dataset);
    if (!dataset)
        return error_set(err, ERROR_MEMORY, "no memory for the dataset");
    if (fill(dataset, request, err) < 0) {
        imagenet_close(dataset);
        return -1;
    }
    *out = dataset;
    return 0;
}

static int64_t imagenet_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int imagenet_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    *out = dataset->fields;
    return 2;
}

static int take_label(const struct feature *feature, int classes, int32_t *out, struct error *err)
{
    int64_t label;
    if (!feature_int64(feature, 0, &label))
        return error_set(err, ERROR_FORMAT, "has no integer image/class/label");
    int64_t first = classes == USUAL_CLASSES ? 0 : 1, last = first + classes - 1;
    if (label < first || label > last)
        return error_set(err, ERROR_USAGE,
                         "label %" PRId64 " does not fit: a network of %d classes takes %" PRId64
                         " to %" PRId64 "; is --classes right?",
                         label, classes, first, last);
    *out = (int32_t)(label - first);
    return 0;
}

static int decode(struct dataset *dataset, const struct shard_record *record, uint64_t random,
                  float *pixels, int32_t *label, struct error *err)
{
    static const char *const names[] = {"image/encoded", "image/class/label"};
    struct feature found[2];
    const uint8_t *encoded;
    size_t bytes;
    if (example_find(record->data, record->bytes, names, 2, found, err) < 0 ||
        take_label(&found[1], dataset->classes, label, err) < 0)
        return -1;
    if (!feature_bytes(&found[0], 0, &encoded, &bytes))
        return error_set(err, ERROR_FORMAT, "has no image/encoded");
    return dataset->train ? pictures_sample(dataset->pictures, encoded, bytes, dataset->size,
                                            random, dataset->numbers, pixels, err)
                          : pictures_centre(dataset->pictures, encoded, bytes, dataset->size,
                                            dataset->numbers, pixels, err);
}

static int imagenet_read(struct dataset *dataset, int64_t index, uint64_t random,
                         struct tensor *batch, int row, struct error *err)
{
    struct shard_record record;
    size_t values = (size_t)dataset->size * (size_t)dataset->size * CHANNELS;
    if (shards_take(dataset->shards, index, &record, err) < 0)
        return -1;
    int status = decode(dataset, &record, random, (float *)batch[0].data + (size_t)row * values,
                        (int32_t *)batch[1].data + row, err);
    if (status < 0) {
        char where[PATH_MAX + 64];
        error_wrap(err, "%s", shards_describe(dataset->shards, &record, where, sizeof where));
    }
    shards_give(dataset->shards, &record);
    return status;
}

static void imagenet_expect(struct dataset *dataset, int64_t index)
{
    shards_expect(dataset->shards, index);
}

const struct dataset_kind dataset_imagenet = {
    .name = "imagenet",
    .summary = "imagenet:DIR: TFRecord shards train-*-of-* and validation-*-of-*, packed or not",
    .open = imagenet_open,
    .count = imagenet_count,
    .fields = imagenet_fields,
    .read = imagenet_read,
    .expect = imagenet_expect,
    .close = imagenet_close,
    .scales = true,
};
