/* How the slab is taken apart, for the two ways in which a step is applied: in place (updater.c) and
 * so that it survives the process (updater_kept.c). */
#ifndef TRAIN_UPDATER_INTERNAL_H
#define TRAIN_UPDATER_INTERNAL_H

#include "exec/sparse.h"
#include "train/optimizer.h"

/* 64 KiB per array: with weights, gradients and two slots a piece fits the second-level cache. Rows
 * of a table are updated so many at a time. */
enum { PIECE_FLOATS = 16384, ROWS_AT_A_TIME = 64 };

struct updater_keeping;

/* Neighbouring parameters under one rule. */
struct segment {
    size_t first, count;
    const struct param_group *group;
    struct optimizer_settings settings; /* the group's, decay 0 where it does not apply */
    bool table;                         /* one PARAM_SPARSE parameter; its rows are listed */
    int param;                          /* of a table */
    bool measured;                      /* the rule wants its norms: one parameter only */
    double weight_norm, gradient_norm;
    int first_piece, piece_count;
};

struct piece {
    size_t first, count;
    int segment;
    double weight_squares, gradient_squares; /* of the last measurement */
};

struct updater {
    struct arena *arena;
    struct params *params;
    struct param_group *groups;
    int group_count, threads;
    bool any_measured;
    int segment_count, piece_count;
    int dense_pieces; /* the first so many; those of tables follow */
    const struct sparse_rows *lists;
    int list_count;
    struct segment *segments;
    struct piece *pieces;
    struct updater_keeping *keeping; /* NULL: steps are applied in place */
};

struct updater_memory updater_own_memory(const struct updater *updater);
/* The norms that rules ask for, of the whole segments. */
void updater_measure(struct updater *updater, const struct updater_memory *from);
/* The rule of a segment. */
void updater_run_rule(const struct segment *segment, float rate, int64_t step,
                      const struct optimizer_range *range);
/* The rule of a piece, from the slabs of `from` to memory that begins with the piece; the slots of
 * `to` likewise. */
void updater_run_piece(const struct updater *updater, const struct piece *piece,
                       const struct updater_memory *from, const struct updater_memory *to,
                       float rate, int64_t step);
/* NULL: a table that is not trained. */
const struct segment *updater_table_segment(const struct updater *updater, int param);
/* Rows [first, end) of the list, out of a slab or into it; `gathered` has them one after the other. */
void updater_gather(const struct segment *segment, const struct sparse_rows *list, int64_t first,
                    int64_t end, const float *slab, float *gathered);
void updater_scatter(const struct segment *segment, const struct sparse_rows *list, int64_t first,
                     int64_t end, const float *gathered, float *slab);

#endif
