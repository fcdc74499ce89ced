/* "Did you mean ...?": the name that a misspelt word was probably meant to be. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

/* Offer names one by one, then read `best`: NULL when none is near enough to be worth saying.
 * Borrows the word and the names. */
struct nearest {
    const char *word, *best;
    int distance; /* of `best` */
};

void nearest_start(struct nearest *nearest, const char *word);
void nearest_offer(struct nearest *nearest, const char *name);

/* Letters to insert, delete, replace or swap with their neighbour (Damerau and Levenshtein),
 * ignoring case and taking - and _ as the same. Counts no further than NEAREST_MAX_DISTANCE; words
 * longer than 63 letters are that far from everything. */
enum { NEAREST_MAX_DISTANCE = 64 };
int nearest_distance(const char *a, const char *b);

#endif
