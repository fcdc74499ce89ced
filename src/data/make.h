/* Synthetic sets of any size that a network can learn from, in the formats of the real ones. The
 * same settings give the same bytes, whatever the number of threads. */
#ifndef DATA_MAKE_H
#define DATA_MAKE_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct work;

struct make_settings {
    const char *directory;
    int64_t examples, eval_examples; /* 0: the kind's own number */
    int classes;                     /* 0: the kind's own number */
    int image_size;                  /* longer side; 0: the kind's own */
    uint64_t seed;
    int shards[2]; /* training, validation; 0: a sensible number */
    bool force;    /* replace files that are there */
};

struct make_report {
    int64_t examples, eval_examples;
    int classes;
    int files;
    uint64_t bytes; /* on disk */
};

/* One kind of set. */
struct maker {
    const char *name, *summary;
    int (*make)(const struct make_settings *settings, const struct work *work,
                struct make_report *out, struct error *err);
};
const struct maker *const *maker_list(void); /* NULL-terminated */

/* For makers: fails, naming the file and --force, when it is there and must not be replaced. */
struct destination;
int make_check_absent(const struct destination *destination, const char *name,
                      const struct make_settings *settings, struct error *err);
/* Of a file that is whole and has not been delivered. */
uint64_t make_file_bytes(const struct destination *destination, const char *name);

extern const struct maker maker_imagenet, maker_criteo, maker_mnist;

#endif
