/* Waits for many descriptors at once and calls who is interested, on one thread. */
#ifndef LAUNCH_LOOP_H
#define LAUNCH_LOOP_H

struct error;
struct loop;
struct loop_watch;

typedef void loop_function(void *context, short events);

struct loop *loop_create(void); /* NULL: no memory */
void loop_destroy(struct loop *loop);

/* Calls `function` when one of the events (POLLIN, POLLOUT) is there, or the descriptor broke. NULL:
 * no memory. */
struct loop_watch *loop_watch(struct loop *loop, int descriptor, short events,
                              loop_function *function, void *context);
void loop_await(struct loop_watch *watch, short events); /* from now on these; 0: none */
/* It is not called any more; from any callback, too. Accepts NULL. */
void loop_forget(struct loop_watch *watch);
/* Calls `release` with `context` when no callback runs any more that may know of it. */
void loop_release_later(struct loop *loop, void (*release)(void *context), void *context);

/* Waits so long at most, or until a signal comes, then calls whoever is concerned. */
void loop_turn(struct loop *loop, double seconds);

#endif
