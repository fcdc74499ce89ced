/* Some rows of a question that has more than a batch: a question of their own, computed like any
 * other, whose answer is a part of the whole's. */
#ifndef SERVE_PIECE_H
#define SERVE_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/inference.h"

struct piece {
    struct inference part; /* what is computed; its status says how that went */
    struct inference *whole;
    int64_t first;       /* of the whole's rows */
    struct arena *arena; /* its own: several pieces of one question are computed side by side */
};

/* How many rows a piece that begins there has: a batch, and the last one what is left. */
int64_t piece_rows(const struct inference *whole, int64_t first, int max_rows);

/* False, with the part's status and error: no memory. Close it in any case. */
bool piece_open(struct piece *piece, struct inference *whole, int64_t first, int max_rows);
/* Makes room for the whole's answer unless another piece has. For one piece of a whole at a time;
 * does nothing, or fails, by the part's status. */
void piece_make_room(struct piece *piece);
/* Puts the part's answer there, beside what other pieces put. */
void piece_join(const struct piece *piece);
void piece_close(struct piece *piece);

#endif
