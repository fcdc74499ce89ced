/* tfrecord_scan [DIRECTORY [MIB]]: how fast TFRecords are read and their checksums checked, from the
 * page cache on one core. Writes a file of MIB (default 1024) MiB of picture-sized records there
 * first and removes it at the end. */
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/storage.h"
#include "tensor/random.h"
#include "wire/tfrecord.h"

enum { RECORD_BYTES = 110000, RUNS = 5, PIECE_BYTES = 256 * 1024 };

static int write_file(const char *path, int64_t bytes, struct error *err)
{
    struct tfrecord_writer *writer = NULL;
    int status = -1;
    uint64_t *data = memory_allocate(RECORD_BYTES);
    if (!data || tfrecord_writer_create(path, TFRECORD_PLAIN, &writer, err) < 0)
        goto out;
    for (size_t i = 0; i < RECORD_BYTES / sizeof *data; i++)
        data[i] = random_at(1, i);
    for (int64_t written = 0; written < bytes; written += RECORD_BYTES)
        if (tfrecord_writer_add(writer, data, RECORD_BYTES, err) < 0)
            goto out;
    status = tfrecord_writer_finish(writer, err);
out:
    tfrecord_writer_destroy(writer);
    memory_free(data);
    return status;
}

/* As a dataset reads: the file is mapped, `bytes` long. */
static int64_t scan_mapped(const uint8_t *map, size_t bytes, struct error *err)
{
    uint64_t offset = 0;
    struct tfrecord record;
    int64_t count = 0;
    int more;
    while ((more = tfrecord_next("file", map, bytes, &offset, &record, err)) > 0)
        count++;
    return more < 0 ? -1 : count;
}

/* As an index is made: piece by piece through a buffer. */
struct reader {
    struct storage *storage;
    int file;
    uint64_t bytes, next;
    uint8_t *piece;
};

static int reader_next(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct reader *reader = context;
    uint64_t left = reader->bytes - reader->next;
    *count = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
    *bytes = reader->piece;
    reader->next += *count;
    return storage_read(reader->storage, reader->file, reader->next - *count, *count, reader->piece,
                        err);
}

static int count_record(void *context, uint64_t offset, uint64_t bytes, bool intact,
                        struct error *err)
{
    (void)offset;
    (void)bytes;
    ++*(int64_t *)context;
    return intact ? 0 : error_set(err, ERROR_FORMAT, "a damaged record");
}

static int64_t scan_pieces(struct storage *storage, int file, uint64_t bytes, uint8_t *piece,
                           struct error *err)
{
    struct reader reader = {storage, file, bytes, 0, piece};
    int64_t count = 0;
    return tfrecord_scan("file", reader_next, &reader, count_record, &count, err) < 0 ? -1 : count;
}

static int measure(const char *directory, const char *name, struct error *err)
{
    struct storage *storage = NULL;
    const struct storage_file *files;
    const uint8_t *map;
    int status = -1;
    uint8_t *piece = memory_allocate(PIECE_BYTES);
    if (!piece || storage_open(directory, NULL, &storage, err) < 0)
        goto out;
    int file = storage_find(storage, name);
    storage_files(storage, &files);
    uint64_t bytes = files[file].bytes;
    if (storage_map(storage, file, &map, err) < 0)
        goto out;
    double best[2] = {1e9, 1e9};
    for (int run = 0; run < 2 * RUNS; run++) {
        double start = clock_seconds();
        int64_t count = run % 2 == 0 ? scan_mapped(map, bytes, err)
                                     : scan_pieces(storage, file, bytes, piece, err);
        double seconds = clock_seconds() - start;
        if (count < 0)
            goto out;
        best[run % 2] = seconds < best[run % 2] ? seconds : best[run % 2];
    }
    printf("mapped     %6.2f GB/s\nin pieces  %6.2f GB/s   (%.2f GB of records, best of %d)\n",
           (double)bytes / best[0] / 1e9, (double)bytes / best[1] / 1e9, (double)bytes / 1e9, RUNS);
    status = 0;
out:
    storage_close(storage);
    memory_free(piece);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    const char *directory = argc > 1 ? argv[1] : ".";
    int64_t mebibytes = argc > 2 ? strtoll(argv[2], NULL, 10) : 1024;
    char name[64], path[4096];
    snprintf(name, sizeof name, "tfrecord-scan-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int status = write_file(path, mebibytes << 20, &err) < 0 ? -1 : measure(directory, name, &err);
    unlink(path);
    if (status < 0)
        fprintf(stderr, "tfrecord_scan: %s\n", err.message);
    return status < 0;
}
