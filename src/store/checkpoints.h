/* A directory of checkpoints:
 *
 *     step-000000001200/   a checkpoint (checkpoint.h), and more of them
 *     best                 a link to the one with the best evaluation
 *     checkpoint           names the newest, as TensorFlow's tools expect
 *     lock                 held by the run that writes here
 *     .draft-...           being written, or left by a run that was killed; likewise .gone-, .was-
 *     old-...              what was moved aside: by --fresh, or because it was damaged
 */
#ifndef STORE_CHECKPOINTS_H
#define STORE_CHECKPOINTS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct arena;
struct error;
struct manifest;

/* --- the right to write there (checkpoints_lock.c) --- */

/* Held while the process lives. */
struct checkpoints_lock {
    int descriptor; /* -1: not held */
};

/* Makes the directory, takes the lock and clears what a killed run left unfinished. A directory
 * that another run writes to is ERROR_USAGE, naming that run. On a disk that knows no locks it
 * warns, and leaves what it finds unfinished, for it could be another run's. */
int checkpoints_take(const char *directory, struct checkpoints_lock *out, struct error *err);
void checkpoints_let_go(struct checkpoints_lock *lock);
/* Is what has the directory's name still what was taken? Not when it was removed or moved away,
 * and another run may have taken the name since. */
int checkpoints_check_held(const char *directory, const struct checkpoints_lock *lock,
                           struct error *err);

/* --- finding (checkpoints.c) --- */

int checkpoints_path(const char *directory, int64_t step, char path[PATH_MAX], struct error *err);
/* The steps that have a checkpoint there, whole or not, ascending; in `arena`. A directory that
 * does not exist has none. */
int checkpoints_list(const char *directory, struct arena *arena, int64_t **steps, int *count,
                     struct error *err);
/* Is the one of this step whole, to the last byte, and of that step? */
int checkpoints_check(const char *directory, int64_t step, struct error *err);
/* The newest one of which every byte is right; those that are damaged are passed over with a
 * warning. *found is false when there is none; ERROR_FORMAT when there are some, all damaged.
 * Changes nothing there. */
int checkpoints_find_newest(const char *directory, struct arena *arena, struct manifest *out,
                            char path[PATH_MAX], bool *found, struct error *err);
/* What a user may write for a checkpoint: its own directory, or one of checkpoints, which stands
 * for its newest. */
int checkpoints_resolve(const char *path, char resolved[PATH_MAX], struct error *err);

/* --- keeping order (checkpoints_tidy.c); for the holder of the lock --- */

/* The best evaluation of those there (manifest_score); -INFINITY when none was evaluated. */
double checkpoints_best_score(const char *directory);
/* After `step` was written: names it as the newest, the best by its link, and removes all but the
 * newest `keep` and the best. Goes on after a failure; the first is told. */
int checkpoints_tidy(const char *directory, int64_t step, int keep, struct error *err);
/* Moves the checkpoints after step `above` into a directory old-DATE, whose path is returned;
 * *moved is false when there are none. With -1 that is all of them, and what names them: killed
 * halfway, the newest is still there. */
int checkpoints_move_aside(const char *directory, int64_t above, char path[PATH_MAX], bool *moved,
                           struct error *err);
/* Clears what a killed run left unfinished; what cannot be removed is a warning. */
int checkpoints_sweep(const char *directory, struct error *err);

#endif
