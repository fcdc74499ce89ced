/* A connection to a host by name. */
#ifndef NET_REACH_H
#define NET_REACH_H

struct error;

/* Tries each address of the host for at most so many seconds. A socket that does not block, and is
 * the caller's; -1: why is in `err`. */
int reach(const char *host, const char *port, double seconds, struct error *err);

#endif
