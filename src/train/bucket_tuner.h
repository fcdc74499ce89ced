/* How large buckets of gradients should be: a few sizes are tried in turn in the first steps, and
 * the one whose steps were fastest stays; 16 MiB where none was clearly faster. Small ones start early,
 * large ones waste less. */
#ifndef TRAIN_BUCKET_TUNER_H
#define TRAIN_BUCKET_TUNER_H

#include <stdbool.h>
#include <stddef.h>

enum { TUNER_SIZES = 5, TUNER_ROUNDS = 4 };

extern const size_t bucket_tuner_sizes[TUNER_SIZES]; /* that are tried */

struct bucket_tuner {
    bool tuning;
    size_t size;
    int noted; /* steps */
    double seconds[TUNER_SIZES][TUNER_ROUNDS];
};

/* Without `tune` the size stays. */
void bucket_tuner_init(struct bucket_tuner *tuner, size_t bytes, bool tune);
/* For the next step. */
size_t bucket_tuner_size(const struct bucket_tuner *tuner);
/* The size that was found or given; 0 while it is not settled. */
size_t bucket_tuner_settled(const struct bucket_tuner *tuner);
/* A step with that size took so long. */
void bucket_tuner_note(struct bucket_tuner *tuner, double seconds);
/* After so many the size stays. */
int bucket_tuner_steps(void);

#endif
