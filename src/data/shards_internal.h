/* For shards.c and shards_build.c only. */
#ifndef DATA_SHARDS_INTERNAL_H
#define DATA_SHARDS_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#include "data/shard_index.h"
#include "data/shards.h"

struct storage;

struct shard {
    int file;           /* in the storage */
    const uint8_t *map; /* the plain bytes; NULL when they are read from far away */
    int64_t first;      /* number of its first record in the whole list */
};

/* A record's bytes on their way from far away. */
struct shard_buffer {
    struct shard_buffer *next;
    size_t capacity;
    uint8_t *bytes;
};

struct shards {
    struct storage *storage;
    struct storage *unpacked; /* the folder beside the index, when some are packed */
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
/* What the unpacked file of a shard is called in the home directory. */
void shards_unpacked_name(const struct shards *shards, int shard, char *text, size_t bytes);

#endif
