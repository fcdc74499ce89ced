#include "train/bucket_tuner.h"

#include <stdlib.h>
#include <string.h>

/* The first steps are slow for other reasons. */
enum { FIRST_STEPS = 2 };
const size_t bucket_tuner_sizes[TUNER_SIZES] = {1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
enum { USUAL = 2 };
static const double clearly = 0.97;

void bucket_tuner_init(struct bucket_tuner *tuner, size_t bytes, bool tune)
{
    *tuner = (struct bucket_tuner){.size = bytes, .tuning = tune};
}

size_t bucket_tuner_size(const struct bucket_tuner *tuner)
{
    return tuner->size;
}

size_t bucket_tuner_settled(const struct bucket_tuner *tuner)
{
    return tuner->tuning ? 0 : tuner->size;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(const double seconds[TUNER_ROUNDS])
{
    double sorted[TUNER_ROUNDS];
    memcpy(sorted, seconds, sizeof sorted);
    qsort(sorted, TUNER_ROUNDS, sizeof *sorted, by_size);
    return (sorted[TUNER_ROUNDS / 2 - 1] + sorted[TUNER_ROUNDS / 2]) / 2;
}

/* The usual size, unless another was faster by more than equal steps differ from each other. */
static size_t best_size(const struct bucket_tuner *tuner)
{
    int best = USUAL;
    double least = clearly * median(tuner->seconds[USUAL]);
    for (int i = 0; i < TUNER_SIZES; i++)
        if (i != USUAL && median(tuner->seconds[i]) < least) {
            best = i;
            least = median(tuner->seconds[i]);
        }
    return bucket_tuner_sizes[best];
}

/* All sizes in turn, again and again, so that a machine that slows down slows down all. */
void bucket_tuner_note(struct bucket_tuner *tuner, double seconds)
{
    if (!tuner->tuning)
        return;
    int trial = tuner->noted++ - FIRST_STEPS, next = trial + 1;
    if (trial >= 0)
        tuner->seconds[trial % TUNER_SIZES][trial / TUNER_SIZES] = seconds;
    if (next >= TUNER_SIZES * TUNER_ROUNDS) {
        tuner->tuning = false;
        tuner->size = best_size(tuner);
    } else if (next >= 0) {
        tuner->size = bucket_tuner_sizes[next % TUNER_SIZES];
    }
}

int bucket_tuner_steps(void)
{
    return FIRST_STEPS + TUNER_SIZES * TUNER_ROUNDS;
}
