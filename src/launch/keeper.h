/* A rank's line to the agent it runs under. The agent owns the memory in which the rank keeps its
 * state, so that it outlives the rank; over the line the rank gets that memory, says that it lives
 * and where it is, and says its last word. The agent never looks into the memory.
 *
 *     struct keeper *keeper;
 *     if (keeper_connect(&keeper, err) < 0)
 *         return -1;
 *     if (keeper) {                         an agent started this process
 *         map keeper_state(keeper) shared, take over what an earlier rank of this member left
 *         a thread: keeper_tell(keeper, step, "training") twice a second; also after each step
 *         at the end, also after a failure: keeper_finish(keeper, KEEPER_DONE, 0, "")
 *     }
 *     keeper_close(keeper);
 *
 * The thread must run from the beginning: a rank that says nothing for --peer-timeout is taken for
 * lost and killed. It must be a thread that nothing holds up (not the one that computes, none that
 * calls MPI). */
#ifndef LAUNCH_KEEPER_H
#define LAUNCH_KEEPER_H

#include <stdint.h>

struct error;
struct keeper;

/* *out is NULL, and the call succeeds, when no agent started this process (no LOCKSTEP_AGENT in its
 * environment). From now on this process is killed when its parent (Open MPI's daemon) dies. To be
 * called once, before MPI is started, from the main thread. */
int keeper_connect(struct keeper **out, struct error *err);
/* Without keeper_finish before it, the agent takes the rank for lost. Accepts NULL. */
void keeper_close(struct keeper *keeper);

/* A memfd of this member, the same in each generation of the group for as long as the agent lives;
 * of size 0 in the first. It belongs to the keeper: do not close it. When keeper_connect returns, no
 * earlier rank of this member lives that could still write to it. */
int keeper_state(const struct keeper *keeper);
/* Which forming of the group this is: 1 is the first; the same for all of its ranks. */
int64_t keeper_generation(const struct keeper *keeper);

enum keeper_wish {
    KEEPER_GO_ON,
    KEEPER_PAUSE, /* the group is about to be formed anew (a member came back): end at the next step
                   * boundary on which all ranks agree, print no results, KEEPER_PAUSED. A rank that
                   * does not heed it is killed some seconds later, which costs the step in flight. */
    KEEPER_ALONE, /* the agent is gone: end */
};

/* "I live, `step` steps are finished, and I am at `doing`" (a few words; cut at 31 bytes). A system
 * call that never waits. From any thread. Returns what the agent wants of the rank. */
enum keeper_wish keeper_tell(struct keeper *keeper, int64_t step, const char *doing);

enum keeper_outcome {
    KEEPER_DONE,       /* all there was to do; also: a gate that was not met, or a signal. `status` is
                        * the exit status that follows */
    KEEPER_FAILED,     /* this rank cannot go on, and would not in another try: bad usage, an unreadable
                        * file, NaN. Ends the job with `status` and `reason` */
    KEEPER_LOST_GROUP, /* another rank or the network failed (comm_is_over): form the group anew */
    KEEPER_PAUSED,
};

/* The last word: a process that ends without it, or says KEEPER_LOST_GROUP, makes the leader form
 * the group anew. Sent, not acknowledged; the process may end at once. */
void keeper_finish(struct keeper *keeper, enum keeper_outcome outcome, int status,
                   const char *reason);

#endif
