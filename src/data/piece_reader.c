#include "data/piece_reader.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/storage.h"

enum {
    LOCAL_PIECE = 256 * 1024, /* stays in a second-level cache between the copy and the sum;
                               * faster than mapping, whose first touch of each page costs more */
    REMOTE_PIECE = 8 << 20,
    AHEAD = 8 << 20, /* a multiple of all pieces */
};

int piece_reader_open(struct piece_reader *reader, struct storage *storage, int file,
                      size_t piece_bytes, struct error *err)
{
    const struct storage_file *files;
    storage_files(storage, &files);
    *reader = (struct piece_reader){.storage = storage, .file = file, .bytes = files[file].bytes};
    reader->capacity = piece_bytes                 ? piece_bytes
                       : storage_is_local(storage) ? LOCAL_PIECE
                                                   : REMOTE_PIECE;
    reader->piece = memory_allocate(reader->capacity);
    return reader->piece ? 0
                         : error_set(err, ERROR_MEMORY, "%s/%s: no memory to read it",
                                     storage_name(storage), files[file].name);
}

void piece_reader_close(struct piece_reader *reader)
{
    memory_free(reader->piece);
    *reader = (struct piece_reader){0};
}

int piece_reader_next(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct piece_reader *reader = context;
    uint64_t left = reader->bytes - reader->next;
    size_t step = left < reader->capacity ? (size_t)left : reader->capacity;
    /* Each read opens the file anew, so the system does not see that it goes on. */
    if (reader->next % AHEAD == 0)
        storage_expect(reader->storage, reader->file, reader->next + reader->capacity, AHEAD);
    if (step > 0 &&
        storage_read(reader->storage, reader->file, reader->next, step, reader->piece, err) < 0)
        return -1;
    reader->next += step;
    *bytes = reader->piece;
    *count = step;
    return 0;
}
