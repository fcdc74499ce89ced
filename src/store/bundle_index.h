/* A bundle's index as bytes: the table of its entries. Apart from files, so that it can be tested
 * and fuzzed without any. */
#ifndef STORE_BUNDLE_INDEX_H
#define STORE_BUNDLE_INDEX_H

#include <limits.h>
#include <stddef.h>

#include "store/bundle.h"

struct strbuf;

struct bundle_index {
    struct bundle_entry *entries; /* sorted by name */
    int count, shards;
};

/* Of files of one bundle; fails when the path is too long. */
int bundle_index_path(const char *prefix, char path[PATH_MAX], struct error *err);
int bundle_data_path(const char *prefix, int shard, int shards, char path[PATH_MAX],
                     struct error *err);

/* Sorts the entries by name and appends the index of one shard to `out`, an empty strbuf. Fails
 * when two have the same name. */
int bundle_index_write(struct bundle_entry *entries, int count, struct strbuf *out,
                       struct error *err);
/* Everything in `out` lives in `arena`. Entries are inside of no data file yet: only the caller
 * knows how long those are. `name` is for messages. */
int bundle_index_read(const char *name, const void *bytes, size_t count, struct arena *arena,
                      struct bundle_index *out, struct error *err);

#endif
