/* The TFRecord shards of a split as one numbered list of records.
 *
 * Where the records lie is found once, by reading everything and checking every checksum, and kept
 * in an index: in DIR/.lockstep/ where that can be written, else below the cache directory. An
 * index that is damaged or made of other files (by name, size and time of change) is made anew.
 * Packed shards are unpacked at the same time, into files beside the index (those from far away
 * into the bounded cache, data/cache.h), since records are read in any order; that needs room on the
 * disk, never in memory. */
#ifndef DATA_SHARDS_H
#define DATA_SHARDS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct shards;
struct storage;

/* `split`: "train", "validation" (see data/shard_names.h for the names of files). `threads` index
 * in parallel. Fails with ERROR_FORMAT, naming file, record and offset, where a length is damaged or
 * a file cut off. Records whose data is damaged are kept in the list and fail when they are read;
 * the log has a warning. `stop` as in storage_open. */
int shards_open(const char *path, const char *split, int threads, const atomic_int *stop,
                struct shards **out, struct error *err);
/* The same for a storage that is open, which belongs to the shards from now on, also when it fails. */
int shards_open_storage(struct storage *storage, const char *split, int threads,
                        struct shards **out, struct error *err);
void shards_close(struct shards *shards);          /* accepts NULL */
int64_t shards_count(const struct shards *shards); /* of records */
int shards_file_count(const struct shards *shards);
int64_t shards_damaged(const struct shards *shards); /* of records, when the index was made */

struct shard_record {
    const uint8_t *data;
    size_t bytes;
    int64_t number;  /* within its file, from 0 */
    uint64_t offset; /* of its header, in the (unpacked) file */
    int shard;
    struct shard_buffer *buffer; /* shards_give's */
};

/* Record `index`, its checksums checked now; to be given back with shards_give. Any number of
 * threads; nothing is allocated for local files, and for others only until the buffers are large
 * enough. */
int shards_take(struct shards *shards, int64_t index, struct shard_record *out, struct error *err);
void shards_give(struct shards *shards, struct shard_record *record);
/* This record will be taken soon. Does not wait. */
void shards_expect(struct shards *shards, int64_t index);
/* "DIR/train-00000-of-00002: record 12 at offset 3456", into `text`, which it returns. */
const char *shards_describe(const struct shards *shards, const struct shard_record *record,
                            char *text, size_t bytes);

#endif
