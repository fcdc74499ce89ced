/* Pictures in class folders or in ILSVRC2012's tar files, to TFRecord shards. */
#ifndef DATA_CONVERT_H
#define DATA_CONVERT_H

#include <stdint.h>

#include "wire/tfrecord.h"

struct error;
struct work;

#define CONVERT_MANIFEST "convert.json"

struct convert_settings {
    const char *source, *target;
    const char *labels, *validation_labels, *names, *boxes; /* files; each may be NULL */
    int shards[2];    /* by enum dataset_split; 0: a sensible number */
    int resize;       /* short side, of pictures whose short side is longer; 0: as they are */
    bool check;       /* decode also pictures whose bytes are copied */
    int quality;      /* of JPEGs that are encoded anew */
    int64_t skip_bad; /* pictures that cannot be used and may be left out; one more is a failure */
    uint64_t seed;    /* of the order of records */
    enum tfrecord_packing packing;
};

struct convert_report {
    int64_t pictures[2];    /* by enum dataset_split */
    int shards[2], kept[2]; /* all; those that an earlier run had finished */
    int classes;
    int64_t encoded_anew; /* by this run */
    int64_t left_out;     /* likewise: bad ones, each with a line in the log */
    uint64_t bytes;       /* written by this run */
};

/* Writes train-%05d-of-%05d and validation-%05d-of-%05d into the target. Records are shuffled over
 * the shards of their split, so that each shard is a sample of all classes. JPEGs keep their bytes
 * unless they are resized or have CMYK colours; those and PNGs become RGB JPEGs. A shard appears
 * when it is whole; a manifest beside the shards remembers the settings, so that a second run with
 * the same ones goes on where the first ended, and one with others is refused (ERROR_USAGE). */
int convert_run(const struct convert_settings *settings, const struct work *work,
                struct convert_report *out, struct error *err);

#endif
