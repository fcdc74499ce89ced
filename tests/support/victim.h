/* Child processes that are killed, for tests of what survives them. The parent must not have used
 * OpenMP: its threads do not survive a fork. */
#ifndef TESTS_SUPPORT_VICTIM_H
#define TESTS_SUPPORT_VICTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Runs `main` in a child; a return from it is status 0. Output of the child's is the test's. */
pid_t victim_start(void (*main)(void *context), void *context);
/* Waits: true when it ended by itself with status 0, false when SIGKILL ended it. Anything else
 * fails the test. */
bool victim_wait(pid_t pid);
/* Both. */
bool victim_run(void (*main)(void *context), void *context);
/* In the child: dies here. */
void victim_die(void);
/* In the child: stops here, for victim_step. */
void victim_stop(void);
/* When the child has stopped: lets it execute so many instructions, then kills it, and waits. Returns
 * how many it executed until it ended or was killed; -1 when this machine does not allow it. */
long victim_step(pid_t pid, long instructions);

/* Memory that children share with the test. */
void *victim_memory(size_t bytes);

#endif
