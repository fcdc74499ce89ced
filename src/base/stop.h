/* Somebody wants long work to end: a number that is 0 until then, which whoever works looks at
 * often enough. A NULL is never set. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

static inline bool stop_wanted(const atomic_int *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

/* Fails with ERROR_CANCELLED when it is wanted. */
int stop_check(const atomic_int *stop, struct error *err);
/* Sleeps so long, or until it is wanted, which is noticed within a twentieth of a second. */
int stop_wait(const atomic_int *stop, double seconds, struct error *err);

#endif
