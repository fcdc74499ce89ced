/* The scores of a yes-or-no network, kept to the end of an evaluation: the area under the ROC curve
 * is about their order, which no sum tells. 16 bytes per example; lists of several shards can be
 * put behind each other. */
#ifndef TRAIN_SCORES_H
#define TRAIN_SCORES_H

#include <stdbool.h>
#include <stdint.h>

struct error;

struct scores {
    uint64_t *keys, *spare; /* ordered like the scores, the label in the lowest bit */
    int64_t count, capacity;
};

int scores_create(struct scores *scores, int64_t capacity, struct error *err);
void scores_release(struct scores *scores); /* accepts a zeroed one */
void scores_clear(struct scores *scores);
/* A NaN counts as the worst answer to its label. Allocates nothing; what has no room is left out. */
void scores_add(struct scores *scores, float score, bool positive);
/* How often a positive example scores higher than a negative one, over all pairs; ties count half.
 * Exact. NaN without an example of each kind. */
double scores_auc(struct scores *scores);

#endif
