/* A file of a storage from its start to its end, in pieces of one size. */
#ifndef DATA_PIECE_READER_H
#define DATA_PIECE_READER_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct storage;

struct piece_reader {
    struct storage *storage;
    int file;
    uint64_t bytes, next; /* of the file; of the piece to come */
    uint8_t *piece;
    size_t capacity;
};

/* `piece_bytes` is a power of two of at most 8 MiB, or 0: what suits the storage. */
int piece_reader_open(struct piece_reader *reader, struct storage *storage, int file,
                      size_t piece_bytes, struct error *err);
void piece_reader_close(struct piece_reader *reader); /* accepts a zeroed one */
/* A piece_source (wire/unpack.h). */
int piece_reader_next(void *reader, const uint8_t **bytes, size_t *count, struct error *err);

#endif
