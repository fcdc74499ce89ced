/* What a kind of storage must bring: for storage.c and the files storage_<kind>.c only. */
#ifndef DATA_STORAGE_KIND_H
#define DATA_STORAGE_KIND_H

#include "data/storage.h"

/* Everything but `state` belongs to storage.c. The functions get indexes that are in range, and
 * ranges that lie inside the file as it was listed. */
struct storage {
    const struct storage_kind *kind;
    char *name; /* as it was opened */
    struct storage_file *files;
    int file_count, file_capacity;
    const atomic_int *stop;
    void *state; /* the kind's own, from `open` to `close` */
};

struct storage_kind {
    const char *prefix; /* of the paths it opens, "s3://"; "" takes what nobody else wants */
    bool local;
    /* Makes `state`. When it, `list` or `find` fails, `close` is called with whatever is there. */
    int (*open)(struct storage *storage, struct error *err);
    /* Either calls storage_add_file for each file, in any order, */
    int (*list)(struct storage *storage, struct error *err);
    /* or for those of `names` that exist. */
    int (*find)(struct storage *storage, const char *const *names, int count, struct error *err);
    /* The next three from any number of threads at once. */
    int (*read)(struct storage *storage, int file, uint64_t offset, size_t bytes, void *out,
                struct error *err);
    int (*map)(struct storage *storage, int file, const uint8_t **out, struct error *err);
    void (*expect)(struct storage *storage, int file, uint64_t offset, size_t bytes);
    void (*close)(struct storage *storage); /* `state` may be NULL */
};

extern const struct storage_kind storage_kind_local, storage_kind_s3;

/* Only from `list` and `find`; `name` is copied. */
int storage_add_file(struct storage *storage, const char *name, uint64_t bytes, int64_t modified,
                     struct error *err);

#endif
