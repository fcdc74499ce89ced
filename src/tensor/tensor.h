/* Numbers with a shape: the only form in which they cross a folder border. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <lockstep/model.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

/* A view of dense, row-major numbers. It never owns `data`; the arena or slab it points into
 * does. Elements of DTYPE_STRING are struct text_view. */
struct tensor {
    enum dtype dtype;
    struct shape shape;
    void *data;
};

/* Bytes that may hold anything, NUL included (Criteo categories, encoded JPEG). */
struct text_view {
    const char *bytes;
    size_t count;
};

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype);
int64_t shape_count(const struct shape *shape); /* a batch dimension counts as 1 */
bool shape_equal(const struct shape *a, const struct shape *b);
/* "[N, 3, 224, 224]" into `text`, which it returns. */
const char *shape_text(const struct shape *shape, char *text, size_t bytes);
/* The same shape with the batch dimension, if it has one, filled in. */
struct shape shape_with_batch(struct shape shape, int64_t batch);
size_t tensor_bytes(const struct tensor *tensor);
int tensor_create(struct arena *arena, enum dtype dtype, struct shape shape, struct tensor *out,
                  struct error *err);

#define SHAPE(...)                                                                                 \
    ((struct shape){.ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),             \
                    .dim = {__VA_ARGS__}})

#endif
