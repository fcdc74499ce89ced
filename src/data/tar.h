/* Tar archives in memory: ustar, GNU's long names and sizes, and pax's paths and sizes. Members
 * are views, so an archive inside an archive is read where it lies, without unpacking. */
#ifndef DATA_TAR_H
#define DATA_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { TAR_BLOCK_BYTES = 512, TAR_NAME_BYTES = 4096 };

struct tar_member {
    char name[TAR_NAME_BYTES];
    bool is_file;    /* a regular one: neither directory nor link nor device */
    uint64_t offset; /* of its data in the archive */
    uint64_t bytes;
};

/* The member whose header is at `*offset`, and `*offset` moved behind it; long names are taken in
 * on the way. Returns 1, 0 at the end of the archive (also one without the closing blocks of
 * zeros), -1 with the archive's name, the header's offset and what is wrong. */
int tar_next(const char *name, const uint8_t *archive, size_t count, uint64_t *offset,
             struct tar_member *out, struct error *err);

#endif
