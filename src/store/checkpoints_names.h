/* What things are called in a directory of checkpoints, for the files that share it. */
#ifndef STORE_CHECKPOINTS_NAMES_H
#define STORE_CHECKPOINTS_NAMES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct error;

enum { CHECKPOINTS_NAME_BYTES = 96 };

#define CHECKPOINTS_NEWEST "checkpoint"
#define CHECKPOINTS_BEST "best"
#define CHECKPOINTS_LOCK "lock"
/* Spare names, followed by "step-N-" and a random number. A run that was killed may leave them: */
#define CHECKPOINTS_DRAFT ".draft-" /* not finished */
#define CHECKPOINTS_GONE ".gone-"   /* half removed */
#define CHECKPOINTS_WAS ".was-"     /* whole, to be put back when there is no step-N */

/* DIRECTORY/NAME; a path that is too long is ERROR_IO. */
int checkpoints_join(const char *directory, const char *name, char path[PATH_MAX],
                     struct error *err);
const char *checkpoints_name(int64_t step, char name[CHECKPOINTS_NAME_BYTES]);
/* Exactly what checkpoints_name makes: "step-5" and "step-000000000005.bak" are not ours. */
bool checkpoints_parse_name(const char *name, int64_t *step);
/* A path that nothing has, with one of the prefixes above. */
int checkpoints_spare_path(const char *directory, const char *prefix, int64_t step,
                           char path[PATH_MAX], struct error *err);

#endif
