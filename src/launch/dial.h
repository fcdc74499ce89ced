/* Connects to a host by name without holding anyone up: names are looked up on a thread. */
#ifndef LAUNCH_DIAL_H
#define LAUNCH_DIAL_H

struct dial;
struct error;
struct loop;

/* From the loop, once. `socket` is connected and the callee's, or -1 and `why` says more. The dial
 * is gone by then. */
typedef void dial_function(void *context, int socket, const struct error *why);

/* Tries each address of the host for at most so many seconds. NULL: not even begun. */
struct dial *dial_start(struct loop *loop, const char *host, int port, double seconds,
                        dial_function *function, void *context);
void dial_cancel(struct dial *dial); /* no call follows; accepts NULL */

#endif
