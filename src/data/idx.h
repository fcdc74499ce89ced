/* The file format of MNIST: two zero bytes, a type, the number of dimensions, the dimensions as
 * big-endian 32-bit numbers, then the numbers. Only unsigned bytes are read. */
#ifndef DATA_IDX_H
#define DATA_IDX_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct storage;

enum { IDX_MAX_DIMS = 4 };

struct idx {
    int ndim;
    int64_t dim[IDX_MAX_DIMS];
    const uint8_t *values; /* row-major; points into the bytes that were parsed */
    char *owned;           /* those bytes, when idx_read took them from a file */
};

/* Checks that header and length agree exactly; `name` goes into messages, with offsets. */
int idx_parse(const char *name, const void *bytes, size_t count, struct idx *out,
              struct error *err);
/* Reads a file of the storage, unpacking it when it is gzip data (by its first bytes; a name that
 * ends in .gz must be). */
int idx_read(struct storage *storage, int file, struct idx *out, struct error *err);
void idx_release(struct idx *idx); /* accepts a zeroed one */

#endif
