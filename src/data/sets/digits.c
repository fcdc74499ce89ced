/* Drawn digits: something real to learn on a machine that has no files. */
#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/handwriting.h"
#include "tensor/random.h"

enum { DEFAULT_TRAIN = 60000, DEFAULT_EVALUATE = 10000, CLASSES = 10 };

struct dataset {
    int64_t count;
    uint64_t key; /* of this seed and split */
};

static int digits_open(const struct dataset_request *request, struct dataset **out,
                       struct error *err)
{
    if (request->path)
        return error_set(err, ERROR_USAGE, "digits are drawn, not read: there is no '%s' to open",
                         request->path);
    if (request->classes > 0 && request->classes < CLASSES)
        return error_set(err, ERROR_USAGE, "there are %d digits, but the model has %d classes",
                         CLASSES, request->classes);
    struct dataset *dataset = memory_allocate(sizeof *dataset);
    if (!dataset)
        return error_set(err, ERROR_MEMORY, "no memory for the dataset");
    bool train = request->split == SPLIT_TRAIN;
    int64_t usual = train ? DEFAULT_TRAIN : DEFAULT_EVALUATE;
    dataset->count = request->examples > 0 ? request->examples : usual;
    dataset->key = random_key_text(request->seed, train ? "digits/train" : "digits/evaluate");
    *out = dataset;
    return 0;
}

static void digits_close(struct dataset *dataset)
{
    memory_free(dataset);
}

static int64_t digits_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int digits_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    static const struct dataset_field fields[] = {
        {"image", DTYPE_F32, {4, {SHAPE_BATCH, HANDWRITING_SIDE, HANDWRITING_SIDE, 1}}},
        {"label", DTYPE_I32, {1, {SHAPE_BATCH}}},
    };
    (void)dataset;
    *out = fields;
    return 2;
}

/* Example `index` is always the same picture; only the split and the seed of the set matter. */
static int digits_read(struct dataset *dataset, int64_t index, uint64_t random,
                       struct tensor *batch, int row, struct error *err)
{
    (void)random;
    (void)err;
    uint8_t drawn[HANDWRITING_PIXELS];
    struct random stream = {.key = random_key(dataset->key, (uint64_t)index)};
    int digit = (int)random_below(&stream, CLASSES);
    handwriting_draw(digit, random_next(&stream), drawn);
    float *pixels = (float *)batch[0].data + (size_t)row * HANDWRITING_PIXELS;
    for (int i = 0; i < HANDWRITING_PIXELS; i++)
        pixels[i] = (float)drawn[i] / 255.0f;
    ((int32_t *)batch[1].data)[row] = digit;
    return 0;
}

const struct dataset_kind dataset_digits = {
    .name = "digits",
    .summary = "handwritten-looking digits, drawn by this program: no files, any number",
    .open = digits_open,
    .count = digits_count,
    .fields = digits_fields,
    .read = digits_read,
    .close = digits_close,
};
