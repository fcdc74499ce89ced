/* For the files shards*.c only. */
#ifndef DATA_SHARDS_INTERNAL_H
#define DATA_SHARDS_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/files.h"
#include "data/cache.h"
#include "data/shard_index.h"
#include "data/shards.h"

struct storage;

struct shard {
    int file;               /* in the storage */
    const uint8_t *map;     /* the plain bytes; NULL when they are read from far away */
    struct cached unpacked; /* of a packed one from far away */
    int64_t first;          /* number of its first record in the whole list */
};

/* A record's bytes on their way from far away. */
struct shard_buffer {
    struct shard_buffer *next;
    size_t capacity;
    uint8_t *bytes;
};

struct shards {
    struct storage *storage;
    struct storage *unpacked; /* the folder beside the index, when it has some; or NULL */
    int shard_count;
    struct shard *shards;        /* [shard_count] */
    struct shard_entry *entries; /* [shard_count] */
    int64_t record_count;
    char home[PATH_MAX];  /* of index and unpacked files; "" when there is none */
    char index[PATH_MAX]; /* the index's path; "" when it is not kept */
    pthread_mutex_t lock; /* guards `buffers` */
    struct shard_buffer *buffers;
};

/* Reads every shard, on `threads` threads, and fills the entries; unpacks packed ones. */
int shards_build(struct shards *shards, int threads, struct error *err);

/* The plain bytes of a packed shard on their way to where they are kept. */
struct unpacked_draft {
    struct cached *cached; /* the shard's */
    struct cache_draft *far;
    struct file_draft file;
};
/* Where they are there already, draft->cached holds them and nothing is to be written. In any case
 * shards_unpacked_drop follows. */
int shards_unpacked_begin(const struct shards *shards, int shard, struct unpacked_draft *out,
                          struct error *err);
int shards_unpacked_write(struct unpacked_draft *draft, const uint8_t *bytes, size_t count,
                          struct error *err);
int shards_unpacked_finish(struct unpacked_draft *draft, struct error *err);
void shards_unpacked_drop(struct unpacked_draft *draft); /* accepts a finished one */
/* Sets the map of a shard whose entry is known. */
int shards_unpacked_map(struct shards *shards, int shard, struct error *err);

#endif
