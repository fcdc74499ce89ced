/* Each member's rank runs the command that its user gave to that member, in that place: mpirun, which
 * knows only the leader's, starts `lockstep agent --rank`, which asks its agent. */
#ifndef LAUNCH_RANK_WORDS_H
#define LAUNCH_RANK_WORDS_H

#include <stddef.h>

struct error;

/* The directory and the words behind the program's name, each with a NUL behind it; to be freed. */
int rank_words(char **out, size_t *bytes, struct error *err);

#endif
