/* Which files of a directory are the shards of a split. */
#ifndef DATA_SHARD_NAMES_H
#define DATA_SHARD_NAMES_H

struct error;
struct storage;

/* SPLIT-NUMBER-of-COUNT in the directory itself, or where it has none, in its folder SPLIT; each
 * may end in .tfrecord, .tfrecords, .gz or .zlib. Numbers start at 0 or 1. Fails when there is
 * none, when one is missing or twice there (and names it), and when the counts differ. *files, in
 * order of their numbers, is the caller's (memory_free); returns how many, or -1. */
int shard_names_find(const struct storage *storage, const char *split, int **files,
                     struct error *err);

#endif
