/* A rank under an agent: its state lies in memory of the agent's, so that another process can go on
 * where this one was killed; and the agent hears twice a second that it lives. Without an agent all
 * of this does nothing. */
#ifndef CLI_KEEPING_H
#define CLI_KEEPING_H

#include <pthread.h>

#include "base/strbuf.h"
#include "cli/ranks.h"
#include "cli/saving.h"
#include "launch/keeper.h"
#include "train/trainer.h"

struct state;

/* All zero is none. */
struct keeping {
    struct keeper *keeper; /* NULL: no agent */
    struct state *state;
    struct strbuf facts; /* of this run; text NULL: not yet */
    bool holds;          /* this rank's memory has the step that the run goes on from */
    bool returned;       /* the run goes on from memory: this rank's, or another's */
    struct params_memory memory;

    struct trainer_progress progress;
    pthread_t teller;
    bool telling;
    atomic_bool alone;    /* the agent is gone */
    double told;          /* clock_seconds() of the last word from the thread that trains */
    pthread_mutex_t lock; /* guards `closing` */
    pthread_cond_t changed;
    bool closing;

    bool ended; /* how it went is known: */
    enum keeper_outcome outcome;
    int status;
    char reason[512];
};

/* Meets the agent, if one started this process. Before MPI, on the main thread. */
int keeping_open(struct keeping *keeping, struct error *err);
/* Finds out with the other ranks whether one of them holds a state of this run that is not older
 * than the checkpoint that was found: then that is what `saving` goes on from. */
int keeping_choose(struct keeping *keeping, const struct ranks *ranks,
                   const struct options *options, const struct session *session,
                   struct saving *saving, struct error *err);
/* For params_create; NULL without an agent. */
const struct params_memory *keeping_memory(struct keeping *keeping);
/* When params, plan and updater are made: ties them to the state. ERROR_FORMAT when what the memory
 * holds was laid out for another network; see keeping_misfits. A step that was cut off in the middle is
 * finished here. */
int keeping_attach(struct keeping *keeping, struct params *params, const struct plan *plan,
                   struct updater *updater, struct error *err);
/* Did making those fail for what lies in the memory? Then that is to be forgotten, and they are to
 * be made once more: another rank may hold the step, too. */
bool keeping_misfits(const struct keeping *keeping, const struct error *err);
int keeping_drop(struct keeping *keeping, struct error *err);
/* Gives the numbers to the ranks that lack them, and begins to keep. Does nothing without an agent;
 * collective otherwise. */
int keeping_start(struct keeping *keeping, const struct ranks *ranks, struct saving *saving,
                  const struct saving_run *run, struct error *err);
/* For the trainer. The run after the first one returns from nowhere. */
struct trainer_keeping keeping_for_trainer(struct keeping *keeping, const struct saving *saving,
                                           bool first);

/* After a step, so that the agent knows of it before the next half second; not of each when they are
 * fast. On the thread that trains. */
void keeping_tell(struct keeping *keeping, int64_t step);
/* What the last word will be. `over`: the group was lost. */
void keeping_note(struct keeping *keeping, bool paused, bool over, int status,
                  const struct error *err);
/* The last word. */
void keeping_finish(struct keeping *keeping);
void keeping_close(struct keeping *keeping); /* after params_destroy */

#endif
