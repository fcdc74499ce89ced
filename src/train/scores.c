#include "train/scores.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

/* Three digits of 11 bits are the 32 of a float; below them is the label. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 3, LABEL_BITS = 1 };

int scores_create(struct scores *scores, int64_t capacity, struct error *err)
{
    *scores = (struct scores){.capacity = capacity};
    size_t bytes = (size_t)(capacity + 1) * sizeof *scores->keys;
    scores->keys = memory_allocate(bytes);
    scores->spare = memory_allocate(bytes);
    if (scores->keys && scores->spare)
        return 0;
    scores_release(scores);
    return error_set(err, ERROR_MEMORY, "no memory for the scores of %lld examples",
                     (long long)capacity);
}

void scores_release(struct scores *scores)
{
    memory_free(scores->keys);
    memory_free(scores->spare);
    *scores = (struct scores){0};
}

void scores_clear(struct scores *scores)
{
    scores->count = 0;
}

/* Floats ordered as unsigned numbers: those below zero upside down, the others above them. */
static uint32_t ordered(float score, bool positive)
{
    if (isnan(score))
        return positive ? 0 : UINT32_MAX;
    float one_zero = score + 0.0F; /* -0 and 0 are a tie */
    uint32_t bits;
    memcpy(&bits, &one_zero, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

void scores_add(struct scores *scores, float score, bool positive)
{
    if (scores->count < scores->capacity)
        scores->keys[scores->count++] =
            (uint64_t)ordered(score, positive) << LABEL_BITS | (uint64_t)positive;
}

static void sort_by_digit(const uint64_t *from, uint64_t *to, int64_t count, int shift)
{
    int64_t places[DIGITS] = {0}, before = 0;
    for (int64_t i = 0; i < count; i++)
        places[from[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        int64_t here = places[d];
        places[d] = before;
        before += here;
    }
    for (int64_t i = 0; i < count; i++)
        to[places[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

static void sort(struct scores *scores)
{
    for (int pass = 0; pass < PASSES; pass++) {
        sort_by_digit(scores->keys, scores->spare, scores->count, LABEL_BITS + pass * DIGIT_BITS);
        uint64_t *sorted = scores->spare;
        scores->spare = scores->keys;
        scores->keys = sorted;
    }
}

double scores_auc(struct scores *scores)
{
    sort(scores);
    double wins = 0; /* whole or half numbers, exact up to 2^53 */
    int64_t positives = 0, negatives = 0;
    for (int64_t first = 0, end; first < scores->count; first = end) {
        int64_t here[2] = {0, 0};
        uint64_t key = scores->keys[first] >> LABEL_BITS;
        for (end = first; end < scores->count && scores->keys[end] >> LABEL_BITS == key; end++)
            here[scores->keys[end] & 1]++;
        wins += (double)here[1] * ((double)negatives + (double)here[0] / 2);
        negatives += here[0];
        positives += here[1];
    }
    return positives && negatives ? wins / ((double)positives * (double)negatives) : NAN;
}
