/* Class folders of JPEG and PNG files. */
#include <limits.h>
#include <pthread.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/gather.h"
#include "data/pictures.h"
#include "data/storage.h"

enum { DEFAULT_SIZE = 224 };

/* The encoded bytes of a picture, while a thread works on it. */
struct encoded {
    struct encoded *next; /* while it is idle */
    uint8_t *bytes;
    size_t capacity;
};

struct dataset {
    struct gathering *gathering;
    const struct gathered_split *split;
    struct pictures *pictures;
    const struct picture_numbers *numbers;
    struct dataset_field fields[2];
    int64_t count;
    int size;             /* of the network's pictures */
    bool train;           /* cropped and mirrored at random */
    pthread_mutex_t lock; /* guards `idle`; held for no longer than taking one or giving it back */
    struct encoded *idle; /* so that after each thread's first pictures nothing is allocated */
};

static void images_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    while (dataset->idle) {
        struct encoded *next = dataset->idle->next;
        memory_free(dataset->idle->bytes);
        memory_free(dataset->idle);
        dataset->idle = next;
    }
    pthread_mutex_destroy(&dataset->lock);
    pictures_destroy(dataset->pictures);
    gathering_destroy(dataset->gathering);
    memory_free(dataset);
}

static int wanted_size(const struct dataset_request *request)
{
    for (int i = 0; i < request->field_count; i++)
        if (strcmp(request->fields[i].name, "image") == 0 && request->fields[i].shape.ndim == 4)
            return (int)request->fields[i].shape.dim[1];
    return DEFAULT_SIZE;
}

static int check(const struct dataset *dataset, const struct dataset_request *request,
                 struct error *err)
{
    if (request->classes > 0 && dataset->gathering->class_count > request->classes)
        return error_set(err, ERROR_USAGE,
                         "%s has %d classes, but the model tells only %d apart; give --classes %d",
                         request->path, dataset->gathering->class_count, request->classes,
                         dataset->gathering->class_count);
    if (dataset->split->count == 0)
        return error_set(err, ERROR_FORMAT, "%s has no pictures in %s", request->path,
                         dataset->train ? "train/" : "val/ or validation/");
    return 0;
}

/* Without a split the pictures are whatever the caller wants them for. */
static void choose_split(struct dataset *dataset, const struct dataset_request *request)
{
    dataset->train = request->split == SPLIT_TRAIN;
    dataset->split =
        &dataset->gathering->splits[dataset->gathering->split ? request->split : SPLIT_TRAIN];
    dataset->count = dataset->split->count;
    if (request->examples > 0 && request->examples < dataset->count)
        dataset->count = request->examples;
}

static int open_all(struct dataset *dataset, const struct dataset_request *request,
                    struct error *err)
{
    if (gather_folders(request->path, request->stop, &dataset->gathering, err) < 0 ||
        pictures_create(&dataset->pictures, err) < 0)
        return -1;
    choose_split(dataset, request);
    return check(dataset, request, err);
}

static int images_open(const struct dataset_request *request, struct dataset **out,
                       struct error *err)
{
    if (!request->path)
        return error_set(err, ERROR_USAGE,
                         "images needs the directory of its class folders: --data images:DIR");
    struct dataset *dataset = memory_allocate(sizeof *dataset);
    if (!dataset)
        return error_set(err, ERROR_MEMORY, "no memory for the dataset");
    pthread_mutex_init(&dataset->lock, NULL);
    if (open_all(dataset, request, err) < 0) {
        images_close(dataset);
        return -1;
    }
    dataset->size = wanted_size(request);
    dataset->numbers = picture_numbers_of(request->pixels);
    dataset->fields[0] =
        (struct dataset_field){.name = "image",
                               .dtype = DTYPE_F32,
                               .shape = SHAPE(SHAPE_BATCH, dataset->size, dataset->size, 3)};
    dataset->fields[1] =
        (struct dataset_field){.name = "label", .dtype = DTYPE_I32, .shape = SHAPE(SHAPE_BATCH)};
    *out = dataset;
    return 0;
}

static int64_t images_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int images_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    *out = dataset->fields;
    return 2;
}

/* They lie class by class: fewer of them than there are come from all classes. */
static const struct gathered_picture *picture_at(const struct dataset *dataset, int64_t index)
{
    return &dataset->split->pictures[index * dataset->split->count / dataset->count];
}

static struct encoded *take_buffer(struct dataset *dataset)
{
    pthread_mutex_lock(&dataset->lock);
    struct encoded *encoded = dataset->idle;
    if (encoded)
        dataset->idle = encoded->next;
    pthread_mutex_unlock(&dataset->lock);
    return encoded ? encoded : memory_allocate(sizeof *encoded);
}

static void give_back(struct dataset *dataset, struct encoded *encoded)
{
    pthread_mutex_lock(&dataset->lock);
    encoded->next = dataset->idle;
    dataset->idle = encoded;
    pthread_mutex_unlock(&dataset->lock);
}

static int decode(struct dataset *dataset, const struct encoded *encoded, size_t count,
                  uint64_t random, float *out, struct error *err)
{
    const struct picture_numbers *numbers = dataset->numbers;
    return dataset->train ? pictures_sample(dataset->pictures, encoded->bytes, count, dataset->size,
                                            random, numbers, out, err)
                          : pictures_centre(dataset->pictures, encoded->bytes, count, dataset->size,
                                            numbers, out, err);
}

static int images_read(struct dataset *dataset, int64_t index, uint64_t random,
                       struct tensor *batch, int row, struct error *err)
{
    const struct gathered_picture *picture = picture_at(dataset, index);
    size_t floats = (size_t)dataset->size * (size_t)dataset->size * 3;
    struct encoded *encoded = take_buffer(dataset);
    if (!encoded)
        return error_set(err, ERROR_MEMORY, "no memory to read a picture into");
    int status =
        gathered_read(dataset->gathering, picture, &encoded->bytes, &encoded->capacity, err);
    if (status == 0) {
        char where[PATH_MAX];
        status = decode(dataset, encoded, picture->bytes, random,
                        (float *)batch[0].data + (size_t)row * floats, err);
        if (status < 0)
            error_wrap(err, "%s",
                       gathered_describe(dataset->gathering, picture, where, sizeof where));
    }
    give_back(dataset, encoded);
    if (status == 0)
        ((int32_t *)batch[1].data)[row] = picture->label;
    return status;
}

static void images_expect(struct dataset *dataset, int64_t index)
{
    const struct gathered_picture *picture = picture_at(dataset, index);
    storage_expect(dataset->gathering->storage, picture->file, picture->offset, picture->bytes);
}

static bool images_undivided(const struct dataset *dataset)
{
    return !dataset->gathering->split;
}

const struct dataset_kind dataset_images = {
    .name = "images",
    .summary = "images:DIR: class folders of JPEG or PNG, in train/ and val/ or without",
    .open = images_open,
    .count = images_count,
    .fields = images_fields,
    .read = images_read,
    .expect = images_expect,
    .undivided = images_undivided,
    .close = images_close,
    .scales = true,
};
