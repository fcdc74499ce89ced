/* The parts of a leader: leader.c decides, leader_members.c has the lines to the members,
 * leader_mpirun.c starts and ends what runs, leader_group.c describes it. */
#ifndef LAUNCH_LEADER_INTERNAL_H
#define LAUNCH_LEADER_INTERNAL_H

#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "launch/child.h"
#include "launch/keeper.h"
#include "launch/leader.h"
#include "launch/link.h"

enum { LEADER_REASON_BYTES = 512 };

struct member {
    struct leader *leader;
    int index;
    struct dial *dial;
    struct link *link; /* NULL: not connected; of the leader's own always */
    bool present;      /* it said welcome */
    bool taking_part;  /* in the generation that is being formed, or runs */
    bool leaving;      /* it was asked to stop, and does when its rank has */
    bool ready, done;  /* in that generation; `done` with the three below */
    enum keeper_outcome outcome;
    int status;
    char reason[LEADER_REASON_BYTES];
    int64_t step, pid, kept_bytes; /* as it reported last */
    double rank_silence, heard;
    char doing[32], host[256];
    double next_dial, dial_seconds; /* how long a try to connect lasts */
    char absence[256];              /* why it is not there */
    bool heard_over;                /* it left after it was told that the job is over */
};

enum leader_phase { LEADER_GATHERS, LEADER_PREPARES, LEADER_RUNS, LEADER_ENDS, LEADER_IS_OVER };

struct leader {
    struct loop *loop;
    struct agent *agent;
    struct leader_settings settings;
    struct member *members;
    int count;
    char incarnation[HELLO_NAME_BYTES], ticket[HELLO_NAME_BYTES];
    struct strbuf out;

    enum leader_phase phase;
    double since, told; /* the phase; that it waits, and for whom */
    int64_t generation; /* the newest that anyone knows of */
    int64_t formed;     /* the newest that this process formed */
    int ranks;          /* taking part */
    int64_t newest;     /* finished step that anyone told of */
    double pause_until; /* members came back: ranks may end at a step boundary until then; 0: no */
    double grouped;     /* when the group was described last */

    pid_t mpirun; /* 0: it does not run */
    char directory[CHILD_DIRECTORY_BYTES];
    double kill_at; /* it is given time to say why; 0: no */

    int64_t failed_step; /* where it failed last, and how often in a row */
    int failures;
    double held_since;         /* another leads; 0: not so */
    const struct member *lost; /* mpirun is waited for to say why; NULL: nobody */
    int stop_signal;
    int status;
    char reason[LEADER_REASON_BYTES];
};

/* --- leader.c --- */
/* A member that took part is gone, or came. */
void leader_lost_member(struct leader *leader, struct member *member, const char *why);
void leader_heard(struct leader *leader, struct member *member, struct message *message);
void leader_fail(struct leader *leader, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void leader_mpirun_ended(struct leader *leader, int status);
/* To who came back after the job was over. */
void leader_tell_over(struct leader *leader, struct member *member);

/* --- leader_members.c --- */
void leader_call_members(struct leader *leader);
void leader_check_members(struct leader *leader);
void leader_dismiss_leaving(struct leader *leader);
/* begin, message_number and so on, then to one or to all who are present. */
struct strbuf *leader_begin(struct leader *leader, enum message_kind kind);
void leader_send(struct leader *leader, struct member *member);
void leader_send_all(struct leader *leader);
int leader_present(const struct leader *leader);
const char *leader_name(const struct leader *leader, const struct member *member);

/* --- leader_mpirun.c --- */
int leader_start_mpirun(struct leader *leader, struct error *err);
void leader_kill_mpirun(struct leader *leader);
void leader_on_child(void *context, pid_t pid, int status);

/* --- leader_group.c --- */
void leader_tell_group(struct leader *leader);

#endif
