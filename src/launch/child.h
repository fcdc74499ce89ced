/* Processes that an agent starts and answers for. None outlives it, and none becomes anyone else's. */
#ifndef LAUNCH_CHILD_H
#define LAUNCH_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct error;

struct child {
    const char *program;            /* looked for in PATH unless there is a / in it */
    char *const *words;             /* the first is its own name */
    const char *const *environment; /* NULL-terminated "NAME=value"; "NAME" takes one away */
    int input, output, errors;      /* become 0, 1 and 2; -1: nothing to read, as this process's */
};

/* Makes this process the parent of its grandchildren whose parents died, too. Once. */
void child_adopt(void);

/* In a process group of its own; killed when this process dies, whatever kills it. Descriptors of
 * ours that close on exec stay ours. -1: not started, in words. */
pid_t child_start(const struct child *child, struct error *err);

/* A new one for the files of a child, below TMPDIR; empty when there is none. */
enum { CHILD_DIRECTORY_BYTES = 64 };
int child_make_directory(char path[CHILD_DIRECTORY_BYTES], struct error *err);

/* The next child that ended, adopted ones included, or 0; *status as waitpid has it. Never waits. */
pid_t child_reap(int *status);
/* As a shell counts: 128 + the signal. */
int child_exit_status(int status);
/* "exited with status 1", "was killed by signal 9 (Killed)". */
const char *child_end_text(int status, char *text, size_t bytes);

/* Kills every child of this process but those listed: the ranks of a daemon that died. */
void child_kill_others(const pid_t *known, int count);

#endif
