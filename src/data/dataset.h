/* Random access to decoded examples. Each file in data/sets/ defines one kind, named
 * dataset_<file name>. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct error;
struct dataset; /* each kind's own */

enum { DATASET_MAX_FIELDS = 48 };

enum dataset_split { SPLIT_TRAIN, SPLIT_EVALUATE };

/* One input of the network as this dataset gives it; the shape has SHAPE_BATCH first and is the
 * order in memory (images: N, H, W, C). */
struct dataset_field {
    const char *name;
    enum dtype dtype;
    struct shape shape;
};

/* How the bytes of a picture become the numbers a network was made for. */
enum pixel_scale {
    PIXELS_MEAN,   /* less ImageNet's mean of each channel: 123.68, 116.78, 103.94 */
    PIXELS_TORCH,  /* 0 to 1, then mean 0 and deviation 1 over ImageNet, as torchvision's models */
    PIXELS_UNIT,   /* 0 to 1 */
    PIXELS_SIGNED, /* -1 to 1 */
};

/* What the network expects, so that synthetic data can have the model's own shapes and pictures
 * the model's size. */
struct dataset_request {
    const char *path; /* behind "KIND:", or NULL */
    enum dataset_split split;
    int64_t examples; /* how many to draw, or at most to read; 0: the kind's own number */
    uint64_t seed;    /* for kinds that draw */
    int classes;
    enum pixel_scale pixels; /* of kinds that decode pictures */
    bool cache; /* kinds that parse text keep what they parsed beside it, for later runs */
    /* Bad rows of a text stay in the list and fail when they are read; otherwise the first one makes
     * opening fail. For those who look for damage. */
    bool keep_bad;
    /* NULL, or nonzero when opening and reading are to end: ERROR_CANCELLED. Borrowed. */
    const atomic_int *stop;
    int field_count;
    struct dataset_field fields[DATASET_MAX_FIELDS];
};

/* [columns] each; the arrays live as long as the dataset. */
struct column_statistics {
    const float *minimum, *maximum; /* over training and evaluation examples together */
    const float *mean, *deviation;  /* over the training examples */
};

/* Where an example stands, for people. */
struct dataset_place {
    const char *file; /* lives as long as the dataset */
    int64_t line;     /* from 1 */
    int64_t offset;   /* of its first byte in the (unpacked) file */
};

struct dataset_kind {
    const char *name, *summary;
    int (*open)(const struct dataset_request *request, struct dataset **out, struct error *err);
    int64_t (*count)(const struct dataset *dataset);
    /* The fields this dataset fills, in the order of `batch` below. */
    int (*fields)(const struct dataset *dataset, const struct dataset_field **out);
    /* Writes example `index` into row `row` of each tensor of the batch; `random` is the key of
     * the random stream for augmentation. Called from several threads at once. */
    int (*read)(struct dataset *dataset, int64_t index, uint64_t random, struct tensor *batch,
                int row, struct error *err);
    /* NULL, or the same for several examples at once, into rows first_row, first_row + 1, ...: for
     * kinds without augmentation whose rows are so cheap that the call and the wait for memory
     * count. Returns how many were read: fewer than `count` when the next one failed. */
    int (*read_rows)(struct dataset *dataset, const int64_t *indices, int count,
                     struct tensor *batch, int first_row, struct error *err);
    /* NULL, or whether both splits are the same examples, for want of a division. */
    bool (*undivided)(const struct dataset *dataset);
    /* NULL, or a hint that this example will be read soon, so that a distant store can send it
     * meanwhile. Does not wait. Called from several threads at once. */
    void (*expect)(struct dataset *dataset, int64_t index);
    /* NULL, or what is known of each column of a float field [N, columns]. May take a pass over
     * the data. For one thread at a time. */
    int (*statistics)(struct dataset *dataset, int field, struct column_statistics *out,
                      struct error *err);
    /* NULL, or where the example stands. Called from several threads at once. */
    struct dataset_place (*locate)(const struct dataset *dataset, int64_t index);
    void (*close)(struct dataset *dataset); /* accepts NULL */
    bool cheap;                             /* reading is a copy: no loader threads wanted */
    bool caches;                            /* honours request.cache */
    bool scales;                            /* honours request.pixels */
};

const struct dataset_kind *const *dataset_list(void); /* NULL-terminated, generated */
/* "KIND:PATH" or "KIND" taken apart; an unknown kind gets the nearest name offered. `*path` points
 * into `spec` or is NULL. */
int dataset_find(const char *spec, const struct dataset_kind **kind, const char **path,
                 struct error *err);

#endif
