/* The file format of huggingface's safetensors: 8 bytes of little-endian length, a JSON header that
 * gives each tensor's dtype, shape and place, then the numbers, row-major and little-endian,
 * without holes or overlaps. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include <stddef.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct strbuf;

struct safetensors_entry {
    const char *name;
    const char *dtype; /* as the file spells it: "F32" */
    struct shape shape;
    size_t first, bytes; /* of the data */
};

struct safetensors {
    int count;
    struct safetensors_entry *entries; /* in the header's order; in the arena */
    const char *model;                 /* of the metadata, in the arena; NULL: it has none */
    const char *data;                  /* inside the bytes that were parsed */
    size_t data_bytes;
};

/* Trusts nothing: lengths, shapes and places must all agree with `count`. `name` goes into
 * messages. Texts and entries live in `arena`. */
int safetensors_parse(const char *name, const void *bytes, size_t count, struct arena *arena,
                      struct safetensors *out, struct error *err);
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* Everything in front of the data, whose start is aligned to 8 bytes. `model` goes into the
 * metadata. */
int safetensors_header(const struct safetensors_entry *entries, int count, const char *model,
                       struct strbuf *out, struct error *err);

#endif
