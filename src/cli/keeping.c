#include "cli/keeping.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "cli/command.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "exec/plan.h"
#include "exec/sparse.h"
#include "store/manifest.h"
#include "store/state.h"
#include "train/optimizer.h"

/* --- telling the agent ------------------------------------------------------------------------ */

enum { TELL_NANOSECONDS = 500000000 };

static void heed(struct keeping *keeping, enum keeper_wish wish)
{
    if (wish == KEEPER_PAUSE)
        atomic_store(&keeping->progress.pause, true);
    if (wish == KEEPER_ALONE && !atomic_exchange(&keeping->alone, true))
        kill(getpid(), SIGTERM); /* a second one would end it in the middle of saving */
}

/* Returns whether it goes on. */
static bool wait_a_while(struct keeping *keeping)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TELL_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&keeping->lock);
    while (!keeping->closing &&
           pthread_cond_timedwait(&keeping->changed, &keeping->lock, &until) != ETIMEDOUT)
        ;
    bool closing = keeping->closing;
    pthread_mutex_unlock(&keeping->lock);
    return !closing;
}

static void *tell(void *context)
{
    struct keeping *keeping = context;
    struct trainer_progress *progress = &keeping->progress;
    do {
        heed(keeping, keeper_tell(keeping->keeper, atomic_load(&progress->step),
                                  atomic_load(&progress->doing)));
    } while (wait_a_while(keeping));
    return NULL;
}

void keeping_tell(struct keeping *keeping, int64_t step)
{
    static const double least_seconds = 0.05;
    double now = clock_seconds();
    if (!keeping->keeper || now - keeping->told < least_seconds)
        return;
    keeping->told = now;
    heed(keeping, keeper_tell(keeping->keeper, step, "training"));
}

static int start_telling(struct keeping *keeping, struct error *err)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&keeping->lock, NULL);
    pthread_cond_init(&keeping->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_store(&keeping->progress.doing, "preparing");
    int code = thread_start(&keeping->teller, tell, keeping);
    if (code)
        return error_set(err, ERROR_MEMORY, "no thread to talk to the agent: %s", strerror(code));
    keeping->telling = true;
    return 0;
}

static void stop_telling(struct keeping *keeping)
{
    if (!keeping->telling)
        return;
    pthread_mutex_lock(&keeping->lock);
    keeping->closing = true;
    pthread_cond_signal(&keeping->changed);
    pthread_mutex_unlock(&keeping->lock);
    pthread_join(keeping->teller, NULL);
    pthread_cond_destroy(&keeping->changed);
    pthread_mutex_destroy(&keeping->lock);
    keeping->telling = false;
}

/* --- meeting ---------------------------------------------------------------------------------- */

int keeping_open(struct keeping *keeping, struct error *err)
{
    if (keeper_connect(&keeping->keeper, err) < 0)
        return -1;
    if (!keeping->keeper)
        return 0;
    if (start_telling(keeping, err) < 0 ||
        state_open(keeper_state(keeping->keeper), &keeping->state, err) < 0)
        return -1;
    strbuf_init(&keeping->facts);
    keeping->memory = state_memory(keeping->state);
    if (*state_trouble(keeping->state))
        log_line(LOG_WARNING, "what an earlier process left in memory is not used: %s",
                 state_trouble(keeping->state));
    return 0;
}

void keeping_note(struct keeping *keeping, bool paused, bool over, int status,
                  const struct error *err)
{
    keeping->ended = true;
    if (status < 0 && err->code == ERROR_CANCELLED && signals_status())
        status = signals_status();
    keeping->outcome = paused        ? KEEPER_PAUSED
                       : status >= 0 ? KEEPER_DONE
                       : over        ? KEEPER_LOST_GROUP
                                     : KEEPER_FAILED;
    keeping->status = status;
    if (status < 0) {
        keeping->status = err->code == ERROR_USAGE ? STATUS_USAGE : STATUS_FAILED;
        snprintf(keeping->reason, sizeof keeping->reason, "%s", err->message);
    }
}

void keeping_finish(struct keeping *keeping)
{
    stop_telling(keeping);
    if (keeping->keeper && keeping->ended)
        keeper_finish(keeping->keeper, keeping->outcome, keeping->status, keeping->reason);
}

void keeping_close(struct keeping *keeping)
{
    stop_telling(keeping);
    state_close(keeping->state);
    if (keeping->facts.text)
        strbuf_release(&keeping->facts);
    keeper_close(keeping->keeper);
    *keeping = (struct keeping){0};
}

/* --- where the run goes on -------------------------------------------------------------------- */

/* What another run left here, perhaps the same model with other words, is none of ours. */
static int refuse_other_run(struct keeping *keeping, struct error *err)
{
    const char *before = state_facts(keeping->state), *now = keeping->facts.text;
    if (!strcmp(before, now))
        return 0;
    ranks_find_difference(&before, &now);
    log_line(LOG_WARNING,
             "memory holds step %" PRId64 " of another run and is not used: that one had \"%.*s\", "
             "this one has \"%.*s\"",
             state_step(keeping->state), (int)strcspn(before, "\n"), before,
             (int)strcspn(now, "\n"), now);
    return state_clear(keeping->state, err);
}

static int find_own(struct keeping *keeping, const struct options *options,
                    const struct session *session, int64_t *step, struct error *err)
{
    *step = -1;
    if (!keeping->state)
        return 0;
    /* Of one rank: another number of them, too, may go on. */
    ranks_list_facts(options, session, "batch-size", &keeping->facts);
    if (keeping->facts.failed)
        return error_set(err, ERROR_MEMORY, "no memory to describe the run");
    if (state_holds(keeping->state) && refuse_other_run(keeping, err) < 0)
        return -1;
    *step = state_step(keeping->state);
    return 0;
}

/* The newest step of all ranks, -1 when none holds any, and the first who has it. */
static int find_newest(const struct ranks *ranks, int64_t own, int64_t *newest, int *holder,
                       struct error *err)
{
    size_t count = (size_t)ranks->size;
    int64_t *steps = memory_allocate(count * sizeof *steps);
    size_t *sizes = memory_allocate(count * sizeof *sizes);
    int status = steps && sizes ? comm_gather(ranks->trainer.comm, &own, sizeof own, steps,
                                              count * sizeof *steps, sizes, err)
                                : error_set(err, ERROR_MEMORY, "no memory to compare the ranks");
    *newest = -1;
    *holder = 0;
    for (int r = 0; status == 0 && r < ranks->size; r++)
        if (steps[r] > *newest) {
            *newest = steps[r];
            *holder = r;
        }
    memory_free(steps);
    memory_free(sizes);
    return status;
}

static char *compose_own(const struct keeping *keeping, struct error *err)
{
    struct arena *arena = arena_create();
    struct manifest manifest;
    char *text = NULL;
    if (!arena)
        error_set(err, ERROR_MEMORY, "no memory for the manifest");
    else if (state_manifest(keeping->state, arena, &manifest, err) == 0 &&
             manifest_compose(&manifest, &text, err) < 0)
        text = NULL;
    arena_destroy(arena);
    return text;
}

/* All ranks read the holder's manifest as if it were that of a checkpoint. */
static int share_manifest(const struct keeping *keeping, const struct ranks *ranks, int holder,
                          struct saving *saving, struct error *err)
{
    struct comm *comm = ranks->trainer.comm;
    struct arena *arena = saving_arena(saving, err);
    struct manifest manifest;
    char *text = ranks->rank == holder ? compose_own(keeping, err) : NULL;
    uint64_t bytes = text ? strlen(text) : 0;
    int status = arena && (text || ranks->rank != holder) ? 0 : -1;
    if (status == 0)
        status = comm_broadcast(comm, &bytes, sizeof bytes, holder, err);
    if (status == 0 && !text &&
        (bytes > MANIFEST_MOST_BYTES || !(text = memory_allocate(bytes + 1))))
        status = error_set(err, ERROR_MEMORY, "no memory for the manifest");
    if (status == 0)
        status = comm_broadcast(comm, text, bytes, holder, err);
    if (status == 0)
        status = manifest_parse("the state in memory", text, bytes, arena, &manifest, err);
    if (status == 0)
        saving_return(saving, &manifest);
    memory_free(text);
    return status;
}

int keeping_choose(struct keeping *keeping, const struct ranks *ranks,
                   const struct options *options, const struct session *session,
                   struct saving *saving, struct error *err)
{
    int64_t own, newest;
    int holder;
    if (find_own(keeping, options, session, &own, err) < 0 ||
        find_newest(ranks, own, &newest, &holder, err) < 0)
        return -1;
    keeping->returned = newest >= 0 && !(saving->resumed && saving->manifest.step > newest);
    keeping->holds = keeping->returned && own == newest;
    if (keeping->state && !keeping->holds && state_clear(keeping->state, err) < 0)
        return -1;
    if (!keeping->returned)
        return 0;
    atomic_store(&keeping->progress.step, newest);
    if (keeping->keeper) /* so that the agent knows where it begins, however early it ends */
        heed(keeping, keeper_tell(keeping->keeper, newest, "preparing"));
    if (ranks->rank == 0)
        log_line(LOG_INFO, "going on after step %" PRId64 ", which memory kept", newest);
    return share_manifest(keeping, ranks, holder, saving, err);
}

/* --- tying a run to its state ----------------------------------------------------------------- */

const struct params_memory *keeping_memory(struct keeping *keeping)
{
    if (!keeping->state)
        return NULL;
    keeping->memory = state_memory(keeping->state);
    return &keeping->memory;
}

static int compare_layouts(struct keeping *keeping, const struct params *params, struct error *err)
{
    uint64_t *layout = state_area(keeping->state, "layout", sizeof *layout, err);
    uint64_t now = params_fingerprint(params);
    if (!layout)
        return -1;
    if (keeping->holds && *layout != now)
        return error_set(err, ERROR_FORMAT, "memory holds weights in another layout");
    *layout = now;
    return 0;
}

static int keep_updates(struct keeping *keeping, const struct plan *plan, struct updater *updater,
                        struct error *err)
{
    int count = plan_sparse_count(plan);
    struct sparse_rows *lists = memory_allocate((size_t)count * sizeof *lists);
    if (!lists)
        return error_set(err, ERROR_MEMORY, "no memory for %d tables", count);
    for (int i = 0; i < count; i++)
        plan_sparse(plan, i, &lists[i]);
    int status = updater_keep(updater, keeping->state, lists, count, err);
    memory_free(lists);
    return status;
}

int keeping_attach(struct keeping *keeping, struct params *params, const struct plan *plan,
                   struct updater *updater, struct error *err)
{
    if (!keeping->state)
        return 0;
    if (compare_layouts(keeping, params, err) < 0 || keep_updates(keeping, plan, updater, err) < 0)
        return -1;
    if (!keeping->holds)
        return 0;
    if (updater_recover(updater, err) < 0)
        return -1;
    memcpy(params_statistics(params), state_statistics(keeping->state),
           params_statistic_elements(params) * sizeof(float));
    return 0;
}

bool keeping_misfits(const struct keeping *keeping, const struct error *err)
{
    return keeping->holds && err->code == ERROR_FORMAT;
}

int keeping_drop(struct keeping *keeping, struct error *err)
{
    log_line(LOG_WARNING, "what this rank has in memory does not fit: %s", err->message);
    keeping->holds = false;
    *err = (struct error){0};
    return state_clear(keeping->state, err);
}

/* Ranks may hold it, but none in a layout that it has now. */
static int share_numbers(const struct keeping *keeping, const struct ranks *ranks,
                         const struct saving_run *run, struct error *err)
{
    int64_t newest;
    int holder;
    bool all;
    if (comm_agree(ranks->trainer.comm, keeping->holds, &all, err) < 0)
        return -1;
    if (all && keeping->holds)
        return 0;
    if (find_newest(ranks, keeping->holds ? 1 : -1, &newest, &holder, err) < 0)
        return -1;
    if (newest < 0)
        return error_set(err, ERROR_PEER,
                         "the ranks' memory holds a step that none of them can read: it was laid "
                         "out for another number of ranks; start as many as before, or use "
                         "--shards, with which the number does not matter");
    return ranks_share(ranks, run->params, run->updater, holder, keeping->holds, err);
}

static struct saver_moment first_moment(const struct saving *saving, const struct saving_run *run)
{
    const struct manifest *from = &saving->manifest;
    struct saver_moment moment = {.goal = run->goal, .origin = saving_origin(saving)};
    if (saving->resumed) {
        moment.step = from->step;
        moment.bucket_bytes = from->bucket_bytes;
        moment.evaluated = from->evaluated;
        moment.loss = from->loss;
        moment.accuracy = from->accuracy;
    }
    return moment;
}

int keeping_start(struct keeping *keeping, const struct ranks *ranks, struct saving *saving,
                  const struct saving_run *run, struct error *err)
{
    struct manifest manifest;
    if (keeping->returned && share_numbers(keeping, ranks, run, err) < 0)
        return -1;
    if (!keeping->state)
        return 0;
    state_settle(keeping->state);
    if (keeping->holds)
        return 0;
    if (saving_describe(saving, run, &manifest, err) < 0 ||
        state_describe(keeping->state, keeping->facts.text, &manifest, err) < 0)
        return -1;
    struct saver_moment moment = first_moment(saving, run);
    state_commit(keeping->state, &moment, params_statistics(run->params));
    keeping->holds = true;
    return 0;
}

struct trainer_keeping keeping_for_trainer(struct keeping *keeping, const struct saving *saving,
                                           bool first)
{
    struct trainer_keeping out = {.state = keeping->state,
                                  .progress = keeping->state ? &keeping->progress : NULL,
                                  .returned = keeping->returned && first};
    const struct manifest *manifest = &saving->manifest;
    if (!out.returned)
        return out;
    out.evaluated = manifest->evaluated;
    out.loss = manifest->loss;
    out.accuracy = manifest->accuracy;
    out.saved_at = saving->checkpoint_step;
    if (saving->checkpoint_saved > 0 && clock_wall_seconds() > saving->checkpoint_saved)
        out.saved_ago = clock_wall_seconds() - saving->checkpoint_saved;
    return out;
}
