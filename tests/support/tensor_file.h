/* Named tensors in one file, for tests: the safetensors format, so that the Python side is a dozen
 * lines. Written apart from store/weights.c on purpose: a mistake there should not be hidden by
 * the same mistake here. */
#ifndef SUPPORT_TENSOR_FILE_H
#define SUPPORT_TENSOR_FILE_H

#include "tensor/tensor.h"

struct arena;
struct error;
struct json;

struct named_tensor {
    const char *name;
    struct tensor tensor;
};

struct tensor_file {
    struct arena *arena; /* owns the names */
    struct json *header;
    char *bytes; /* the whole file; the tensors point into it */
    struct named_tensor *tensors;
    int count;
};

int tensor_file_read(const char *path, struct tensor_file *out, struct error *err);
void tensor_file_release(struct tensor_file *file);
/* NULL when there is none of that name. */
const struct tensor *tensor_file_find(const struct tensor_file *file, const char *name);
/* A word of the metadata, or `missing`. */
const char *tensor_file_note(const struct tensor_file *file, const char *key, const char *missing);

/* Tensors are borrowed until the file is written. */
int tensor_file_write(const char *path, const struct named_tensor *tensors, int count,
                      struct error *err);

#endif
