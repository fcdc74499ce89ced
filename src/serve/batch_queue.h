/* Which questions are computed together, and when: the rules alone, without threads or a clock. */
#ifndef SERVE_BATCH_QUEUE_H
#define SERVE_BATCH_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct inference;
struct servable;

struct batch_rules {
    int max_rows;        /* of a batch; one question with more is computed in pieces */
    double wait_seconds; /* the first of a batch waits so long for others; 0: not at all */
    int max_batches;     /* that may wait in each line, in rows / max_rows */
    bool alone;          /* one question a batch: batching is off */
    bool strict;         /* one with more rows than max_rows is left where it is */
};

/* Plain storage; all zero is empty. The questions belong to their doors. */
struct batch_queue {
    struct inference *first, *last; /* those that fit into a batch, by arrival */
    int64_t rows;
    int count;
    /* Those that do not, with rows that wait, by `queued`. They stand beside the others, who are
     * computed, also by helpers, while pieces of these are. */
    struct inference *first_large, *last_large;
    int64_t large_rows;        /* that wait */
    struct servable *servable; /* whose it is */
    struct batch_queue *next;  /* the batcher's list of those that are not empty */
    bool listed;
};

bool batch_queue_is_empty(const struct batch_queue *queue);
/* False: its line, of those that fit into a batch or of those that do not, is full. */
bool batch_queue_add(struct batch_queue *queue, const struct batch_rules *rules,
                     struct inference *inference, double now);
/* When the next batch of those that fit into one should be computed: now or earlier, or a moment to
 * wait for; INFINITY: there are none. `hurry`: nobody else will come. */
double batch_queue_due(const struct batch_queue *queue, const struct batch_rules *rules,
                       bool hurry);
/* And the next piece. */
double batch_queue_piece_due(const struct batch_queue *queue);
/* Takes questions for one batch, oldest first, at most `space` of them; how many. Those that were
 * cancelled or are too late are taken out as well, into `dropped` (a list through `next`), with
 * status and error filled. May take none. */
int batch_queue_take(struct batch_queue *queue, const struct batch_rules *rules, double now,
                     struct inference **batch, int space, struct inference **dropped);
/* Takes the next piece: rows `first` onwards (piece.h) of the question that is returned, or NULL. What
 * is left of it goes to the end of the line, for whoever can compute it. One that is over is taken
 * out; it is dropped, or, if pieces of it are being computed, the last of them ends it. */
struct inference *batch_queue_take_piece(struct batch_queue *queue, const struct batch_rules *rules,
                                         double now, int64_t *first, struct inference **dropped);
/* A piece was computed; the question's status says whether well. Who came meanwhile is before the
 * next one, and if that is not wanted any more there is none. True: that was the last, the question
 * is done. */
bool batch_queue_end_piece(struct batch_queue *queue, struct inference *inference, double now);
/* Takes all out that were cancelled or are too late, wherever they stand. */
void batch_queue_sweep(struct batch_queue *queue, double now, struct inference **dropped);

#endif
