/* Random numbers that depend only on a key and a counter: any number can be drawn from any
 * thread in any order, so results never depend on timing. */
#ifndef TENSOR_RANDOM_H
#define TENSOR_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* A good hash of two words (splitmix64's finaliser): the key of a sub-stream. */
uint64_t random_key(uint64_t key, uint64_t stream);
/* The same for a name, such as a parameter's. */
uint64_t random_key_text(uint64_t key, const char *name);
/* Number `index` of the stream. */
uint64_t random_at(uint64_t key, uint64_t index);

/* A stream read in order. Plain value: copy it to fork it. */
struct random {
    uint64_t key, index;
};
uint64_t random_next(struct random *random);
float random_uniform(struct random *random); /* [0, 1) */
float random_between(struct random *random, float low, float high);
float random_normal(struct random *random);
int64_t random_below(struct random *random, int64_t limit); /* 0 .. limit-1, unbiased */

/* Whole arrays, numbers 0 .. count-1 of the stream `key`; vectorised, on all threads. */
void random_fill_uniform(uint64_t key, float low, float high, float *out, size_t count);
void random_fill_normal(uint64_t key, float deviation, float *out, size_t count);
/* Redrawn outside two deviations (by the inverse distribution function: one draw each). */
void random_fill_truncated_normal(uint64_t key, float deviation, float *out, size_t count);

/* A permutation of 0 .. count-1 that can be asked at any place without storing it. */
int64_t random_permute(uint64_t key, int64_t count, int64_t index);

#endif
