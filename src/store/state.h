/* The state of a training in memory that outlives its process: an agent owns the memory (a memfd), a
 * rank maps it, and a rank that takes the place of one that was killed, with -9 and at any
 * instruction, goes on at the step after the newest finished one.
 *
 * There is no second copy of the weights. The gradients of a step are its redo log: once a step has
 * *begun* to be applied, everything that is needed to finish it lies in the memory, too, and whoever
 * finds it so finishes it, with the same bits (updater_recover). What is small (position, running
 * statistics) is written to the other of two places, and one word says which counts.
 *
 * Nobody reads while another writes: a successor comes after the kernel has ended every thread of
 * its forerunner, and finds of each what it had stored up to the instruction where it ended. So it
 * is the order of the program, which atomic stores keep the compiler from changing, that counts; no
 * fence between processors is needed, and nothing is flushed. A machine that loses its power loses
 * the memory with it: that is what checkpoints are for.
 *
 * For one thread at a time, but for what the updater does inside a step. */
#ifndef STORE_STATE_H
#define STORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/params.h"
#include "store/saver.h"

struct arena;
struct error;
struct manifest;
struct state;

/* Maps what lies in `descriptor`, which is borrowed; an empty file holds nothing. Bytes that cannot
 * be a state are no failure: state_holds is false then, and state_trouble says why. */
int state_open(int descriptor, struct state **out, struct error *err);
void state_close(struct state *state); /* accepts NULL; after the params that live there */

/* Is there a whole state? One whose last step has begun to be applied is whole, too. */
bool state_holds(const struct state *state);
const char *state_trouble(const struct state *state); /* "": none */
/* Finished steps, the one that has begun to be applied included; -1: holds nothing. */
int64_t state_step(const struct state *state);
/* What the run was told, as state_describe had it. */
const char *state_facts(const struct state *state);
/* As a checkpoint of that step would have it, but for its files. Texts live in `arena`. */
int state_manifest(const struct state *state, struct arena *arena, struct manifest *out,
                   struct error *err);

/* Forgets everything. Nothing that state_area gave may be used any more. */
int state_clear(struct state *state, struct error *err);
/* Of a state that holds nothing, before anything else: facts that a successor compares, and what is
 * alike for all its steps. */
int state_describe(struct state *state, const char *facts, const struct manifest *manifest,
                   struct error *err);
/* Zeroed memory under a name, or what an earlier process had there; ERROR_FORMAT when that has
 * another size. Stays until state_close or state_clear. */
void *state_area(struct state *state, const char *name, size_t bytes, struct error *err);
/* For params_create. Running statistics get memory of the process: they move within a step. */
struct params_memory state_memory(struct state *state);
/* When the slabs are filled: asks for huge pages, which shared memory gets on few machines without
 * being asked for each time. */
void state_settle(struct state *state);
/* Bytes of the memory, those included that were never touched. */
size_t state_bytes(const struct state *state);

/* From now on this is what the memory holds. `statistics`: those of the params, or NULL when they
 * are as before. Allocates nothing and cannot fail. */
void state_commit(struct state *state, const struct saver_moment *moment, const float *statistics);
/* The same in two acts, between which the weights are changed: from state_begin on, a successor will
 * finish it. Returns the number of this commit, greater than all before. */
struct state_update {
    uint64_t sequence;
    int64_t step; /* that is being finished, from 1 */
    float rate;
};
uint64_t state_begin(struct state *state, const struct saver_moment *moment, float rate,
                     const float *statistics);
void state_end(struct state *state);
/* Has a step begun, and not ended? */
bool state_unfinished(const struct state *state, struct state_update *out);
/* Running statistics of state_step. */
const float *state_statistics(const struct state *state);

/* For tests: called at each act of a commit, to be killed there. */
enum state_point {
    STATE_WRITTEN,  /* all that a successor needs, but not yet said so */
    STATE_BEGUN,    /* said so */
    STATE_READY,    /* a part of the new weights is computed beside the old */
    STATE_HALFWAY,  /* and half of it copied over them */
    STATE_APPLIED,  /* all of it */
    STATE_FINISHED, /* all parts: said so */
    STATE_POINTS,
};
typedef void state_hook(void *context, enum state_point point);
void state_set_hook(struct state *state, state_hook *hook, void *context);
void state_pass(const struct state *state, enum state_point point);

#endif
