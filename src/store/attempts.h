/* What a pipeline has tried so far, as JSON beside its checkpoints, so that one that was cut short
 * goes on with the attempt it was at and counts the earlier ones. */
#ifndef STORE_ATTEMPTS_H
#define STORE_ATTEMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json;

enum attempt_verdict {
    ATTEMPT_RUNNING, /* or cut short */
    ATTEMPT_MISSED,  /* below the target */
    ATTEMPT_MET,
    ATTEMPT_DONE, /* there was no target */
};

struct attempt {
    int64_t first_step, last_step, goal;
    double seconds;  /* of training and evaluation, over all its parts when it was cut short */
    double accuracy; /* of its last evaluation; NaN: none */
    enum attempt_verdict verdict;
};

enum { ATTEMPTS_MOST = 1000, ATTEMPTS_MOST_BYTES = 1 << 20 };

/* In the order they were made; only the last may be running. */
struct attempts {
    struct attempt list[ATTEMPTS_MOST];
    int count;
};

const char *attempt_verdict_word(enum attempt_verdict verdict);
struct json *attempts_describe(const struct attempts *attempts); /* an array; NULL: no memory */

/* Trusts nothing; `name` goes into messages. `out` is untouched when it fails. */
int attempts_parse(const char *name, const char *text, size_t bytes, struct attempts *out,
                   struct error *err);
/* A file that is not there holds none. */
int attempts_load(const char *path, struct attempts *out, struct error *err);
/* `path` holds the old or the new attempts, never half of them. */
int attempts_save(const char *path, const struct attempts *attempts, struct error *err);

#endif
