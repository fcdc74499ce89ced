/* Random numbers in the shapes the network asks for: what a benchmark of computing needs. Reading
 * is a copy from a small pool, so that input costs next to nothing. */
#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "tensor/random.h"

enum {
    DEFAULT_TRAIN = 10000,
    DEFAULT_EVALUATE = 1000,
    POOL_BYTES = 4 << 20, /* about, per field: stays in a cache */
    POOL_MIN_ROWS = 4,
    POOL_MAX_ROWS = 64,
};

struct pool {
    char *rows; /* [row_count, row_bytes]; NULL: drawn when read, as labels are */
    size_t row_bytes;
    int row_count;
    uint64_t key;
};

struct dataset {
    int64_t count;
    int classes;
    int field_count;
    struct dataset_field fields[DATASET_MAX_FIELDS];
    struct pool pools[DATASET_MAX_FIELDS];
};

static void synthetic_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (int i = 0; i < dataset->field_count; i++)
        memory_free(dataset->pools[i].rows);
    memory_free(dataset);
}

static bool is_label(const struct dataset_field *field)
{
    return strcmp(field->name, "label") == 0;
}

/* Row r holds what the stream of `key` gives from place r * row_bytes on. */
static int fill_pool(struct pool *pool, const struct dataset_field *field, struct error *err)
{
    size_t rows = POOL_BYTES / (pool->row_bytes > 0 ? pool->row_bytes : 1);
    rows = rows < POOL_MIN_ROWS ? POOL_MIN_ROWS : rows > POOL_MAX_ROWS ? POOL_MAX_ROWS : rows;
    pool->row_count = (int)rows;
    size_t bytes = rows * pool->row_bytes;
    pool->rows = memory_allocate(bytes);
    if (!pool->rows)
        return error_set(err, ERROR_MEMORY, "no memory for the %zu bytes of synthetic '%s'", bytes,
                         field->name);
    if (field->dtype == DTYPE_F32)
        random_fill_truncated_normal(pool->key, 1, (float *)(void *)pool->rows, bytes / 4);
    else
        for (size_t i = 0; i < bytes; i++)
            pool->rows[i] = (char)(random_at(pool->key, i) >> 56);
    return 0;
}

static bool is_category(const struct dataset_field *field)
{
    return strcmp(field->name, "category") == 0 && field->dtype == DTYPE_I64;
}

static int open_field(struct dataset *dataset, int index, uint64_t key, struct error *err)
{
    const struct dataset_field *field = &dataset->fields[index];
    struct pool *pool = &dataset->pools[index];
    pool->key = random_key_text(key, field->name);
    pool->row_bytes = (size_t)shape_count(&field->shape) * dtype_bytes(field->dtype);
    bool drawn = is_label(field) || field->dtype == DTYPE_I32 || field->dtype == DTYPE_I64;
    if (field->dtype == DTYPE_STRING)
        return error_set(err, ERROR_USAGE, "synthetic data has no text for the input '%s'",
                         field->name);
    bool counted = drawn && field->dtype != DTYPE_F32 && !is_category(field);
    if (counted && dataset->classes < 1)
        return error_set(err, ERROR_USAGE, "synthetic '%s' needs a number of classes; got %d",
                         field->name, dataset->classes);
    return drawn ? 0 : fill_pool(pool, field, err);
}

static int synthetic_open(const struct dataset_request *request, struct dataset **out,
                          struct error *err)
{
    if (request->path)
        return error_set(err, ERROR_USAGE, "synthetic data has no path, but got '%s'",
                         request->path);
    struct dataset *dataset = memory_allocate(sizeof *dataset);
    if (!dataset)
        return error_set(err, ERROR_MEMORY, "no memory for the dataset");
    bool train = request->split == SPLIT_TRAIN;
    int64_t usual = train ? DEFAULT_TRAIN : DEFAULT_EVALUATE;
    dataset->count = request->examples > 0 ? request->examples : usual;
    dataset->classes = request->classes;
    dataset->field_count = request->field_count;
    uint64_t key = random_key(request->seed, train ? 1 : 2);
    for (int i = 0; i < request->field_count; i++) {
        dataset->fields[i] = request->fields[i];
        if (open_field(dataset, i, key, err) < 0) {
            synthetic_close(dataset);
            return -1;
        }
    }
    *out = dataset;
    return 0;
}

static int64_t synthetic_count(const struct dataset *dataset)
{
    return dataset->count;
}

static int synthetic_fields(const struct dataset *dataset, const struct dataset_field **out)
{
    *out = dataset->fields;
    return dataset->field_count;
}

/* Fingerprints of a million texts per column, the few common ones far more often than the many
 * rare ones, as in logs of what people do. */
static void draw_categories(uint64_t key, int64_t example, int64_t count, int64_t *row)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = random_at(random_key(key, (uint64_t)example), (uint64_t)i);
        uint64_t text = bits >> 44 >> (bits & 15);
        row[i] = (int64_t)random_at(key + (uint64_t)i, text);
    }
}

/* Whole numbers below the number of classes; 0 or 1 where a label is a float. */
static void draw_row(const struct dataset *dataset, int index, int64_t example, void *row)
{
    enum dtype dtype = dataset->fields[index].dtype;
    struct random random = {.key = random_key(dataset->pools[index].key, (uint64_t)example)};
    int64_t limit = dtype == DTYPE_F32 ? 2 : dataset->classes;
    int64_t count = shape_count(&dataset->fields[index].shape);
    if (is_category(&dataset->fields[index])) {
        draw_categories(dataset->pools[index].key, example, count, row);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t value = random_below(&random, limit);
        switch (dtype) {
        case DTYPE_F32:
            ((float *)row)[i] = (float)value;
            break;
        case DTYPE_U8:
            ((uint8_t *)row)[i] = (uint8_t)value;
            break;
        case DTYPE_I32:
            ((int32_t *)row)[i] = (int32_t)value;
            break;
        case DTYPE_I64:
            ((int64_t *)row)[i] = value;
            break;
        case DTYPE_STRING:
            break; /* refused by open */
        }
    }
}

static int synthetic_read(struct dataset *dataset, int64_t index, uint64_t random,
                          struct tensor *batch, int row, struct error *err)
{
    (void)random;
    (void)err;
    for (int i = 0; i < dataset->field_count; i++) {
        const struct pool *pool = &dataset->pools[i];
        char *to = (char *)batch[i].data + (size_t)row * pool->row_bytes;
        if (pool->rows)
            memcpy(to, pool->rows + (size_t)(index % pool->row_count) * pool->row_bytes,
                   pool->row_bytes);
        else
            draw_row(dataset, i, index, to);
    }
    return 0;
}

const struct dataset_kind dataset_synthetic = {
    .name = "synthetic",
    .summary = "random numbers in the model's own shapes: for measuring speed",
    .open = synthetic_open,
    .count = synthetic_count,
    .fields = synthetic_fields,
    .read = synthetic_read,
    .close = synthetic_close,
    .cheap = true,
};
