/* The first member leads: it waits for the others, forms a group of those who are there (a
 * *generation*: one mpirun, whose daemons the members' agents start), watches over it, and forms the
 * next when a rank, a member or the network failed. Two halves of a group can never both train, for
 * only one of them has the first member.
 *
 * All on the loop's thread; leader_tick about ten times a second, after agent_tick of its own
 * agent. */
#ifndef LAUNCH_LEADER_H
#define LAUNCH_LEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/agent.h"
#include "launch/cluster.h"
#include "launch/secret.h"

struct error;
struct leader;
struct loop;

struct leader_settings {
    const struct cluster *cluster;
    const struct secret *secret;
    const char *program; /* this program's path */
    bool loopback;
    int min_ranks; /* with so many it goes on while others are missing; 0: all are needed */
    double start_timeout, peer_timeout;
};

int leader_create(struct loop *loop, struct agent *agent, const struct leader_settings *settings,
                  struct leader **out, struct error *err);
void leader_destroy(struct leader *leader); /* accepts NULL */
void leader_tick(struct leader *leader);
/* A signal came to this member: the job ends as soon as its ranks have. */
void leader_stop(struct leader *leader, int number);
/* The job is over and everyone knows; *reason is empty when the ranks told it themselves. */
bool leader_is_over(const struct leader *leader, int *status, const char **reason);

#endif
