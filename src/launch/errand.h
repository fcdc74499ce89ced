/* What one asks of an agent without being a member: to start a process there, or how the group is.
 * These wait until it is done. */
#ifndef LAUNCH_ERRAND_H
#define LAUNCH_ERRAND_H

#include <stddef.h>

#include "net/channel.h"

struct error;

struct errand {
    const char *host;
    int port;
    const struct channel_key *key; /* NULL: nothing is proved */
    const char *ticket;            /* of the leader; NULL: none */
    double patience; /* seconds in which the agent must be reached; tried again until then */
};

/* What the process prints, to where: 1 or 2. */
typedef void errand_output(void *context, int stream, const void *bytes, size_t count);

/* Has the agent start what `line`, for a shell, says (words.h), and waits for its end. Its exit
 * status, or -1. When this process ends, so does the other. */
int errand_run(const struct errand *errand, const char *line, errand_output *output, void *context,
               struct error *err);
/* The group as JSON; to be freed. */
int errand_ask(const struct errand *errand, char **json, struct error *err);

#endif
