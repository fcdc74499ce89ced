/* Where the pictures of a classification set are: in class folders, or in the tar files in which
 * ILSVRC2012 is handed out. */
#ifndef DATA_GATHER_H
#define DATA_GATHER_H

#include <stdint.h>

#include "data/dataset.h"

struct storage;

struct gathered_picture {
    int file;               /* of the storage */
    int label;              /* 0 .. class_count-1 */
    uint64_t offset, bytes; /* in that file: all of it, or a part of an archive */
    const char *name;       /* without folders */
};

struct gathered_split {
    struct gathered_picture *pictures; /* sorted by file and offset */
    int64_t count, capacity;
};

struct gathering {
    struct storage *storage;
    struct arena *arena;
    const char **classes;
    int class_count;
    bool split; /* false: there is one set of pictures, which is the training split */
    struct gathered_split splits[2]; /* by enum dataset_split */
};

/* Class folders: DIR/train/CLASS/... and DIR/val or DIR/validation/CLASS/..., or DIR/CLASS/... .
 * Files count whose names end in .jpg, .jpeg or .png, in any case. Classes are sorted by name. */
int gather_folders(const char *path, const atomic_int *stop, struct gathering **out,
                   struct error *err);

struct gather_settings {
    const char *path;
    const char *const *classes; /* their order; NULL: sorted by name */
    int class_count;
    const char *const *validation_labels; /* class of each picture of a flat validation archive,
                                           * in order of the pictures' names; may be NULL */
    int64_t validation_count;
    const atomic_int *stop; /* as in storage_open */
};
/* Class folders, or archives: a tar file, or a directory that holds some; one with "val" in its
 * name is the validation split. In a training archive each member CLASS.tar is an archive of that
 * class's pictures; pictures in folders named by class work too. */
int gather_any(const struct gather_settings *settings, struct gathering **out, struct error *err);
void gathering_destroy(struct gathering *gathering); /* accepts NULL */

/* "DIR/NAME", and of a part of an archive also its name and offset; into `text`, which it
 * returns. */
const char *gathered_describe(const struct gathering *gathering,
                              const struct gathered_picture *picture, char *text, size_t bytes);
/* Into *buffer, which grows as needed and is the caller's (memory_free). Any number of threads
 * with a buffer each. */
int gathered_read(const struct gathering *gathering, const struct gathered_picture *picture,
                  uint8_t **buffer, size_t *capacity, struct error *err);

#endif
