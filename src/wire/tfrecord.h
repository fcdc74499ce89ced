/* TFRecord files: length, checksum of the length, data, checksum of the data; whole files may be
 * gzip or zlib streams. */
#ifndef WIRE_TFRECORD_H
#define WIRE_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/unpack.h"

struct error;

enum { TFRECORD_HEADER_BYTES = 12, TFRECORD_FOOTER_BYTES = 4 };
enum tfrecord_packing { TFRECORD_PLAIN, TFRECORD_GZIP, TFRECORD_ZLIB };

/* By the first bytes of a file: TFRecords themselves cannot look like gzip or zlib data, since the
 * checksum of the length would not fit. */
enum tfrecord_packing tfrecord_packing_of(const void *bytes, size_t count);

struct tfrecord {
    uint64_t offset; /* of the record's header in the (unpacked) file */
    const uint8_t *data;
    size_t bytes;
};

/* The record at `*offset` of a file in memory, and `*offset` moved behind it; checks both sums.
 * Returns 1, 0 at the end of the file, -1 with file name, record's offset and what is wrong. */
int tfrecord_next(const char *name, const uint8_t *file, size_t count, uint64_t *offset,
                  struct tfrecord *out, struct error *err);
/* The same for the record at the start of `bytes`, which came from `offset` and of which `count` are
 * left in the file. Not all of them need be in memory: only the header, and when the record ends
 * within `count`, the record. */
int tfrecord_first(const char *name, uint64_t offset, const uint8_t *bytes, uint64_t count,
                   struct tfrecord *out, struct error *err);
/* The same for a record that stands alone in `bytes` bytes, header and footer included, and came
 * from `offset`. */
int tfrecord_check(const char *name, uint64_t offset, const uint8_t *record, size_t bytes,
                   struct tfrecord *out, struct error *err);
/* Walks through a file that comes in pieces and checks all sums. `visit` gets each record's place
 * and length, and whether its data fits its sum: a record whose data is damaged does not end the
 * walk, one whose length is damaged or cut off does, since nothing behind it can be found. */
typedef int tfrecord_visit(void *context, uint64_t offset, uint64_t bytes, bool intact,
                           struct error *err);
int tfrecord_scan(const char *name, piece_source *source, void *source_context,
                  tfrecord_visit *visit, void *visit_context, struct error *err);
/* The length in a header, checked against its sum. */
int tfrecord_length(const char *name, uint64_t offset, const uint8_t header[TFRECORD_HEADER_BYTES],
                    uint64_t *out, struct error *err);

/* What stands before and behind a record's data in a file that is not packed. */
void tfrecord_frame(const void *data, size_t bytes, uint8_t header[TFRECORD_HEADER_BYTES],
                    uint8_t footer[TFRECORD_FOOTER_BYTES]);

/* Writes to a temporary name beside `path`, packed or not; the file appears under its own name,
 * flushed, only by tfrecord_writer_finish. */
struct tfrecord_writer;
int tfrecord_writer_create(const char *path, enum tfrecord_packing packing,
                           struct tfrecord_writer **out, struct error *err);
int tfrecord_writer_add(struct tfrecord_writer *writer, const void *data, size_t bytes,
                        struct error *err);
int tfrecord_writer_finish(struct tfrecord_writer *writer, struct error *err);
void tfrecord_writer_destroy(struct tfrecord_writer *writer); /* accepts NULL; drops unfinished */

#endif
