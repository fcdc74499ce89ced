/* One on each member: listens on the member's port, starts what those who know the secret may start
 * (Open MPI's daemon, or this program), ends it, keeps the memory of the member's rank, and says how
 * it is. It does what the leader orders; the leader's own agent is ordered by a call instead of a
 * connection. All on the loop's thread; agent_tick about ten times a second. */
#ifndef LAUNCH_AGENT_H
#define LAUNCH_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/cluster.h"
#include "launch/vault.h"
#include "net/channel.h"

struct agent;
struct error;
struct loop;
struct message;

struct agent_settings {
    const struct cluster *cluster; /* NULL: whoever has the secret may use it, as sshd (MPIJob) */
    const char *host;              /* to listen on; NULL: all of this machine's addresses */
    int port;                      /* 0: any that is free */
    bool loopback;                 /* all members are on this machine */
    const struct channel_key *key; /* NULL: nobody has to prove anything */
    const char *program;           /* this program's path */
    const char *words;             /* what a rank of this member runs, see rank_words.h */
    size_t words_bytes;
    double peer_timeout;
};

/* Where the leader's own agent says what others send; gets whole messages. */
typedef void agent_upstream(void *context, const void *bytes, size_t count);
/* A child that the agent did not start ended (mpirun). */
typedef void agent_stranger(void *context, pid_t pid, int status);

int agent_create(struct loop *loop, const struct agent_settings *settings, struct agent **out,
                 struct error *err);
/* Kills what it started, waits until it is gone. Accepts NULL. */
void agent_destroy(struct agent *agent);
int agent_port(const struct agent *agent);
void agent_tick(struct agent *agent);

/* --- the leader's own --- */
void agent_set_upstream(struct agent *agent, agent_upstream *upstream, agent_stranger *stranger,
                        void *context);
void agent_order(struct agent *agent, struct message *order);
/* A child that is not to be taken for an orphan; 0: none. */
void agent_know(struct agent *agent, pid_t pid);

/* --- a member's --- */
bool agent_is_led(const struct agent *agent);
double agent_unled_seconds(const struct agent *agent); /* since the leader was lost, or the start */
/* The leader said that the job is over. */
bool agent_is_over(const struct agent *agent, int *status, const char **reason);
/* A signal came to this member: its rank gets it, the leader is told. */
void agent_pass_signal(struct agent *agent, int number);
bool agent_is_idle(const struct agent *agent); /* nothing that it started lives */

#endif
