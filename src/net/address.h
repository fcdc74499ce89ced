/* Where a server listens, as users write it: [ADDRESS:]PORT. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>

struct error;

struct address {
    char host[64]; /* numeric, without brackets */
    int port;      /* 0: any that is free */
    bool loopback; /* nobody outside this machine can reach it */
};

/* "8080" and ":8080" are 127.0.0.1:8080: who wants to be reached says so. Also "localhost:8080",
 * "0.0.0.0:8080" and "[::]:8080"; names other than localhost are refused, for what they mean is
 * not ours to find out. `what` is how the user calls it ("--dashboard"). */
int address_parse(const char *text, const char *what, struct address *out, struct error *err);

/* "127.0.0.1:8080" or "[::1]:8080". */
const char *address_text(const struct address *address, char *text, int bytes);

/* Whether the value of a Host header (with or without a port) names this machine's loopback: a page
 * of a stranger whose name was made to point here (DNS rebinding) carries its own name in it. */
bool address_host_is_local(const char *host);

#endif
