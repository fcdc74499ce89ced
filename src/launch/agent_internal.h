/* The parts of an agent: agent.c does what the leader orders, agent_door.c decides who comes in,
 * agent_runs.c starts and ends processes. */
#ifndef LAUNCH_AGENT_INTERNAL_H
#define LAUNCH_AGENT_INTERNAL_H

#include "base/strbuf.h"
#include "launch/agent.h"
#include "launch/child.h"
#include "launch/link.h"

enum {
    AGENT_UNPROVED_MOST = 64, /* connections that have not said who they are */
    AGENT_RUNS_MOST = 64,
    AGENT_REASON_BYTES = 512,
};

/* Who is connected. */
struct visitor {
    struct agent *agent;
    struct visitor *next;
    struct link *link;
    int64_t role; /* 0: has not said */
    bool refused;
    double since;    /* it came, or was refused */
    struct run *run; /* what it had started; NULL: nothing */
};

/* A process that the agent started for a visitor. */
struct run {
    struct agent *agent;
    struct run *next;
    struct visitor *visitor; /* NULL: it left */
    pid_t pid;
    bool exited;
    int status; /* as waitpid has it */
    int pipes[2];
    struct loop_watch *watches[2];         /* NULL: that pipe is closed */
    char directory[CHILD_DIRECTORY_BYTES]; /* for files that Open MPI makes; removed with it */
};

struct agent {
    struct loop *loop;
    struct agent_settings settings;
    struct vault *vault;
    int listener, port;
    struct loop_watch *watch;
    struct visitor *visitors;
    struct run *runs;
    pid_t known; /* a child of the leader's */
    char incarnation[HELLO_NAME_BYTES];

    struct visitor *leader; /* NULL: there is none, or it is in this process */
    char leader_incarnation[HELLO_NAME_BYTES];
    double unled_since;
    agent_upstream *upstream;
    agent_stranger *stranger;
    void *upstream_context;
    struct strbuf out; /* one message to the leader */

    int64_t generation; /* the newest that the leader spoke of */
    char ticket[HELLO_NAME_BYTES];
    bool preparing; /* READY is owed as soon as nothing runs */
    bool ending;    /* what runs is being killed */
    double reported;
    int signal;      /* that came to this member; 0: none */
    pid_t signalled; /* the rank that was given it */
    bool over;
    int over_status;
    char over_reason[AGENT_REASON_BYTES];
    char *group; /* JSON; NULL: the leader has not told */

    double refused_told; /* when a refusal was logged last */
    int refused_untold;
};

/* --- agent.c --- */
void agent_end_all(struct agent *agent, const char *why);
void agent_heard_leader(void *context, struct link *link, struct message *message);

/* --- agent_door.c --- */
int agent_open_door(struct agent *agent, struct error *err);
void agent_close_door(struct agent *agent);
void agent_check_visitors(struct agent *agent);
/* Takes the visitor from the list and closes its line; what it had started is killed. */
void agent_dismiss(struct visitor *visitor);

/* --- agent_runs.c --- */
int agent_run(struct visitor *visitor, const char *line, struct error *err);
void agent_kill_runs(struct agent *agent);
void agent_reap(struct agent *agent);
void agent_leave_run(struct run *run); /* its visitor is gone */

#endif
