/* A directory of checkpoints:
 *
 *     step-000000001200/   a checkpoint (checkpoint.h), and more of them
 *     best                 a link to the one with the best evaluation
 *     checkpoint           names the newest, as TensorFlow's tools expect
 *     lock                 held by the run that writes here
 *     .draft-...           being written, or left by a run that was killed
 *     old-...              what --fresh moved aside
 */
#ifndef STORE_CHECKPOINTS_H
#define STORE_CHECKPOINTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct arena;
struct error;
struct manifest;

/* The right to write there, held while the process lives. */
struct checkpoints_lock {
    int descriptor; /* -1: not held */
};

/* Makes the directory, takes the lock and removes what a killed run left unfinished. A directory
 * that another run writes to is ERROR_USAGE, naming that run. */
int checkpoints_take(const char *directory, struct checkpoints_lock *out, struct error *err);
void checkpoints_let_go(struct checkpoints_lock *lock);

int checkpoints_path(const char *directory, int64_t step, char path[PATH_MAX], struct error *err);
/* Where a checkpoint is written before it gets its name. */
int checkpoints_draft_path(const char *directory, int64_t step, char path[PATH_MAX],
                           struct error *err);

/* The steps that have a checkpoint there, whole or not, ascending; in `arena`. A directory that
 * does not exist has none. */
int checkpoints_list(const char *directory, struct arena *arena, int64_t **steps, int *count,
                     struct error *err);
/* The newest one of which every byte is right; those that are damaged are passed over with a
 * warning. *found is false when there is none; ERROR_FORMAT when there are some, all damaged. */
int checkpoints_find_newest(const char *directory, struct arena *arena, struct manifest *out,
                            char path[PATH_MAX], bool *found, struct error *err);
/* What a user may write for a checkpoint: its own directory, or one of checkpoints, which stands
 * for its newest. */
int checkpoints_resolve(const char *path, char resolved[PATH_MAX], struct error *err);

/* The best evaluation of those there (manifest_score); -INFINITY when none was evaluated. */
double checkpoints_best_score(const char *directory);

/* After `step` was written: names it as the newest, the best by its link, and removes all but the
 * newest `keep` and the best. */
int checkpoints_tidy(const char *directory, int64_t step, int keep, struct error *err);
/* Moves what is there into a directory old-DATE, whose path is returned; *moved is false when there
 * was nothing. */
int checkpoints_move_aside(const char *directory, char path[PATH_MAX], bool *moved,
                           struct error *err);

#endif
