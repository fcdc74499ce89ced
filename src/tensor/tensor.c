#include "tensor/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/error.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [DTYPE_F32] = {"float32", sizeof(float)},
    [DTYPE_U8] = {"uint8", sizeof(uint8_t)},
    [DTYPE_I32] = {"int32", sizeof(int32_t)},
    [DTYPE_I64] = {"int64", sizeof(int64_t)},
    [DTYPE_STRING] = {"string", sizeof(struct text_view)},
};

size_t dtype_bytes(enum dtype dtype)
{
    assert((size_t)dtype < sizeof dtypes / sizeof *dtypes);
    return dtypes[dtype].bytes;
}

const char *dtype_name(enum dtype dtype)
{
    assert((size_t)dtype < sizeof dtypes / sizeof *dtypes);
    return dtypes[dtype].name;
}

int64_t shape_count(const struct shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] != SHAPE_BATCH)
            count *= shape->dim[i];
    return count;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const char *shape_text(const struct shape *shape, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < shape->ndim && used < bytes; i++) {
        const char *comma = i > 0 ? ", " : "";
        int added = shape->dim[i] == SHAPE_BATCH
                        ? snprintf(text + used, bytes - used, "%sN", comma)
                        : snprintf(text + used, bytes - used, "%s%" PRId64, comma, shape->dim[i]);
        used += (size_t)added;
    }
    if (used < bytes)
        snprintf(text + used, bytes - used, "]");
    return text;
}

struct shape shape_with_batch(struct shape shape, int64_t batch)
{
    if (shape.ndim > 0 && shape.dim[0] == SHAPE_BATCH)
        shape.dim[0] = batch;
    return shape;
}

size_t tensor_bytes(const struct tensor *tensor)
{
    return (size_t)shape_count(&tensor->shape) * dtype_bytes(tensor->dtype);
}

/* Shapes come from files and command lines too: their product may not fit. */
static bool shape_bytes(const struct shape *shape, enum dtype dtype, size_t *out)
{
    if (shape->ndim < 0 || shape->ndim > TENSOR_MAX_DIMS)
        return false;
    size_t bytes = dtype_bytes(dtype);
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] == SHAPE_BATCH)
            continue;
        if (shape->dim[i] < 0 || __builtin_mul_overflow(bytes, (size_t)shape->dim[i], &bytes))
            return false;
    }
    *out = bytes;
    return bytes <= SIZE_MAX / 2;
}

int tensor_create(struct arena *arena, enum dtype dtype, struct shape shape, struct tensor *out,
                  struct error *err)
{
    size_t bytes;
    char text[128];
    if (!shape_bytes(&shape, dtype, &bytes))
        return error_set(err, ERROR_MEMORY, "a tensor of shape %s is larger than any memory",
                         shape_text(&shape, text, sizeof text));
    void *data = arena_take(arena, bytes);
    if (!data)
        return error_set(err, ERROR_MEMORY, "no memory for a tensor of shape %s (%zu bytes)",
                         shape_text(&shape, text, sizeof text), bytes);
    *out = (struct tensor){.dtype = dtype, .shape = shape, .data = data};
    return 0;
}
