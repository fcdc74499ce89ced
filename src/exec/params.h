/* The numbers that training changes: one slab of weights, one of gradients, one per optimizer
 * slot, all ordered by when backward finishes them, so that a bucket is one contiguous range; and
 * one slab of statistics (batch norm's running mean and variance). Inside, weights keep the
 * kernels' layout; outside, they are plain tensors.
 *
 * Tables (PARAM_SPARSE) lie behind all others in the slabs of weights and slots and have no place
 * in the gradients, so that one of several gigabytes costs its weights and slots alone.
 *
 * The first plan made for a graph fixes layouts and order; until then only names and shapes are
 * known. For one thread at a time. */
#ifndef EXEC_PARAMS_H
#define EXEC_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"

struct error;
struct params;

enum { PARAMS_MAX_SLOTS = 4, PARAMS_ALIGN_FLOATS = 16 };

/* Where the slabs come from: the default takes memory of its own; an agent gives shared memory.
 * `take` returns zeroed memory, or NULL with `err` filled; `give_back` may be NULL. */
struct params_memory {
    void *(*take)(void *context, const char *what, size_t bytes, struct error *err);
    void (*give_back)(void *context, void *memory, size_t bytes);
    void *context;
};

/* One parameter's place in the slabs. Padding that a blocked layout brings is part of the range
 * and always zero. */
struct param_range {
    const char *name;
    struct shape shape;
    unsigned flags;
    size_t first, count; /* in floats; of the weights slab, or of the statistics slab */
};

/* `slots`: optimizer slots per weight. `memory` may be NULL. */
int params_create(const struct graph *graph, int slots, const struct params_memory *memory,
                  struct params **out, struct error *err);
void params_destroy(struct params *params); /* accepts NULL */
/* Fills weights and statistics by their initialisers, slots with zeros. The numbers depend on
 * (seed, parameter's name, element) alone, not on layout or threads. */
int params_initialize(struct params *params, uint64_t seed, struct error *err);

int params_count(const struct params *params); /* trainable ones and statistics */
const char *params_name(const struct params *params, int index);
int params_find(const struct params *params, const char *name); /* or -1 */
struct param_range params_range(const struct params *params, int index);
/* Plain row-major copies; `out` and `in` have the parameter's shape (else ERROR_FORMAT). */
int params_read(const struct params *params, int index, struct tensor *out, struct error *err);
/* The parameter itself where it is stored in plain order, as tables always are; else NULL. */
const float *params_plain(const struct params *params, int index);
int params_read_gradient(const struct params *params, int index, struct tensor *out,
                         struct error *err);
int params_write_gradient(struct params *params, int index, const struct tensor *in,
                          struct error *err);
int params_read_slot(const struct params *params, int index, int slot, struct tensor *out,
                     struct error *err);
int params_write(struct params *params, int index, const struct tensor *in, struct error *err);
/* `padding` fills what a blocked layout adds: a rule may divide by its slot. */
int params_write_slot(struct params *params, int index, int slot, const struct tensor *in,
                      float padding, struct error *err);

/* Equal when the slabs of two have the same meaning byte by byte, whichever kernels read them. */
uint64_t params_fingerprint(const struct params *params);
/* Gives the memory of all dense weights back, which then read as zeros: for when every serving plan is
 * made and has copies of its own. Tables and statistics stay. */
void params_drop_dense(struct params *params);

int params_slots(const struct params *params);
size_t params_elements(const struct params *params);       /* of the weights slab */
size_t params_dense_elements(const struct params *params); /* without the tables: gradients */
size_t params_statistic_elements(const struct params *params);
float *params_weights(struct params *params);
float *params_gradients(struct params *params);
float *params_slot(struct params *params, int slot);
float *params_statistics(struct params *params);

#endif
