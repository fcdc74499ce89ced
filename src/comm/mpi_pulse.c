/* Who waits for whom. While one thread of a rank is in a reduction, which says nothing until it is
 * over, another tells rank 0 twice a second what this rank is at, and rank 0 answers with the same
 * about itself. So each rank knows whether rank 0 lives, and rank 0 whom all wait for; and that one
 * rank wants to stop reaches all. */
#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "comm/mpi_internal.h"

enum { PULSE_TAG = 2, MAX_NAMED = 8, DOING_BYTES = 32, GRACE_SECONDS = 5 };
static const double interval = 0.5;

/* What one rank says about itself. */
struct state {
    int64_t step, job; /* jobs begun since the start: all ranks make the same ones */
    double doing_seconds;
    char doing[DOING_BYTES];
    int leaving, stop_asked;
};

struct heard {
    struct state state;
    double when; /* clock_seconds(); 0: never */
};

struct mpi_pulse {
    struct comm *comm;
    MPI_Comm group;
    pthread_t thread;
    struct heard *heard; /* [ranks] of rank 0; of the others only the first is filled */
    MPI_Request sending; /* the last message, perhaps not taken yet */
    struct state sent;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t wake;
    int64_t step, jobs;
    const char *doing, *job; /* job NULL: in none */
    double doing_since, job_since, warned_at;
    double warning, limit;
    bool stopping;
};

void mpi_pulse_tell(struct mpi_pulse *pulse, int64_t step, const char *doing)
{
    pthread_mutex_lock(&pulse->lock);
    pulse->step = step;
    pulse->doing = doing;
    pulse->doing_since = clock_seconds();
    pthread_mutex_unlock(&pulse->lock);
}

void mpi_pulse_watch(struct mpi_pulse *pulse, double warning, double limit)
{
    pthread_mutex_lock(&pulse->lock);
    pulse->warning = warning;
    pulse->limit = limit;
    pthread_mutex_unlock(&pulse->lock);
}

void mpi_pulse_job(struct mpi_pulse *pulse, int64_t job, const char *what)
{
    pthread_mutex_lock(&pulse->lock);
    pulse->job = what;
    pulse->job_since = clock_seconds();
    pulse->warned_at = 0;
    if (what)
        pulse->jobs = job;
    pthread_mutex_unlock(&pulse->lock);
}

static struct state own_state(struct mpi_pulse *pulse)
{
    struct state state = {0};
    pthread_mutex_lock(&pulse->lock);
    state.step = pulse->step;
    state.job = pulse->jobs;
    state.doing_seconds = clock_seconds() - pulse->doing_since;
    snprintf(state.doing, sizeof state.doing, "%s", pulse->doing);
    state.leaving = pulse->stopping;
    state.stop_asked = comm_stop_asked(pulse->comm);
    pthread_mutex_unlock(&pulse->lock);
    return state;
}

/* A message that a rank does not take must not hold this one up: the next waits until it has. */
static void send_state(struct mpi_pulse *pulse, int to)
{
    int taken = 1;
    if (pulse->sending != MPI_REQUEST_NULL)
        MPI_Test(&pulse->sending, &taken, MPI_STATUS_IGNORE);
    if (!taken)
        return;
    pulse->sent = own_state(pulse);
    MPI_Isend(&pulse->sent, sizeof pulse->sent, MPI_BYTE, to, PULSE_TAG, pulse->group,
              &pulse->sending);
}

static void answer(struct mpi_pulse *pulse, int to)
{
    struct state state = own_state(pulse);
    MPI_Request request;
    if (MPI_Isend(&state, sizeof state, MPI_BYTE, to, PULSE_TAG, pulse->group, &request) ==
        MPI_SUCCESS)
        MPI_Wait(&request, MPI_STATUS_IGNORE); /* small enough to be on its way at once */
}

static void hear(struct mpi_pulse *pulse)
{
    for (;;) {
        int waiting = 0;
        MPI_Status status;
        struct state state;
        if (MPI_Iprobe(MPI_ANY_SOURCE, PULSE_TAG, pulse->group, &waiting, &status) != MPI_SUCCESS ||
            !waiting)
            return;
        MPI_Recv(&state, sizeof state, MPI_BYTE, status.MPI_SOURCE, PULSE_TAG, pulse->group,
                 MPI_STATUS_IGNORE);
        pulse->heard[status.MPI_SOURCE] = (struct heard){state, clock_seconds()};
        if (state.stop_asked)
            comm_ask_stop(pulse->comm);
        if (pulse->comm->rank == 0 && !state.leaving)
            answer(pulse, status.MPI_SOURCE);
    }
}

/* --- stalls --------------------------------------------------------------------------------- */

/* A copy, so that nothing is locked while it is told. */
struct stall {
    const char *job;
    int64_t number, step;
    double seconds, limit;
    bool warn, end;
};

static struct stall look(struct mpi_pulse *pulse)
{
    struct stall stall = {0};
    double now = clock_seconds();
    pthread_mutex_lock(&pulse->lock);
    if (pulse->job) {
        stall = (struct stall){.job = pulse->job,
                               .number = pulse->jobs,
                               .step = pulse->step,
                               .seconds = now - pulse->job_since,
                               .limit = pulse->limit};
        /* Rank 0 knows most, so it speaks first. */
        double grace = pulse->comm->rank ? GRACE_SECONDS : 0;
        double since = pulse->warned_at > 0 ? pulse->warned_at : pulse->job_since;
        stall.warn = pulse->warning > 0 && now - since >= pulse->warning + grace;
        stall.end = pulse->limit > 0 && stall.seconds >= pulse->limit + grace;
        if (stall.warn)
            pulse->warned_at = now;
    }
    pthread_mutex_unlock(&pulse->lock);
    return stall;
}

static void say_late(const struct mpi_pulse *pulse, enum log_level level, int rank,
                     const struct stall *stall)
{
    const struct heard *heard = &pulse->heard[rank];
    const char *host = comm_host(pulse->comm, rank);
    double now = clock_seconds();
    if (heard->when == 0)
        log_line(level, "step %" PRId64 ", %s: waiting %.0f s for rank %d on %s, which never spoke",
                 stall->step, stall->job, stall->seconds, rank, host);
    else
        log_line(level,
                 "step %" PRId64
                 ", %s: waiting %.0f s for rank %d on %s; %.0f s ago it was at step "
                 "%" PRId64 ", %s for %.0f s",
                 stall->step, stall->job, stall->seconds, rank, host, now - heard->when,
                 heard->state.step, heard->state.doing, heard->state.doing_seconds);
}

/* Rank 0 knows what all others said last; the others know only what it did. */
static void say_who(const struct mpi_pulse *pulse, enum log_level level, const struct stall *stall)
{
    int named = 0, late = 0, last = pulse->comm->rank == 0 ? pulse->comm->size : 1;
    for (int rank = pulse->comm->rank == 0; rank < last; rank++) {
        bool silent = clock_seconds() - pulse->heard[rank].when > 4 * interval;
        if (!silent && pulse->heard[rank].state.job >= stall->number)
            continue;
        if (named < MAX_NAMED)
            say_late(pulse, level, rank, stall), named++;
        late++;
    }
    if (late > named)
        log_line(level, "and %d more ranks", late - named);
    if (!late && pulse->comm->rank == 0)
        log_line(level,
                 "step %" PRId64 ", %s: all ranks have been at it for %.0f s; is the network down?",
                 stall->step, stall->job, stall->seconds);
    if (!late && pulse->comm->rank)
        log_line(level, "step %" PRId64 ", %s: waiting %.0f s; rank 0 knows for whom", stall->step,
                 stall->job, stall->seconds);
}

static void check_stall(struct mpi_pulse *pulse)
{
    struct stall stall = look(pulse);
    if (stall.warn || stall.end)
        say_who(pulse, stall.end ? LOG_ERROR : LOG_WARNING, &stall);
    if (!stall.end)
        return;
    log_line(LOG_ERROR, "nothing moved for %.0f s (--stall-timeout); the job is ended",
             stall.limit);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* --- the thread ----------------------------------------------------------------------------- */

/* False when it is to stop. */
static bool rest(struct mpi_pulse *pulse)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(interval * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&pulse->lock);
    if (!pulse->stopping)
        pthread_cond_timedwait(&pulse->wake, &pulse->lock, &until);
    bool go_on = !pulse->stopping;
    pthread_mutex_unlock(&pulse->lock);
    return go_on;
}

static void *pulse_main(void *context)
{
    struct mpi_pulse *pulse = context;
    while (rest(pulse)) {
        hear(pulse);
        if (pulse->comm->rank)
            send_state(pulse, 0);
        check_stall(pulse);
    }
    return NULL;
}

struct mpi_pulse *mpi_pulse_start(struct comm *comm, MPI_Comm group)
{
    struct mpi_pulse *pulse = memory_allocate(sizeof *pulse);
    if (!pulse)
        return NULL;
    pulse->comm = comm;
    pulse->group = group;
    pulse->sending = MPI_REQUEST_NULL;
    pulse->doing = "starting";
    pulse->doing_since = clock_seconds();
    pthread_mutex_init(&pulse->lock, NULL);
    pthread_cond_init(&pulse->wake, NULL);
    pulse->heard = memory_allocate((size_t)comm->size * sizeof *pulse->heard);
    if (!pulse->heard || thread_start(&pulse->thread, pulse_main, pulse) != 0) {
        memory_free(pulse->heard);
        memory_free(pulse);
        return NULL;
    }
    return pulse;
}

/* Messages that are still on their way are taken before the library is left. */
void mpi_pulse_stop(struct mpi_pulse *pulse)
{
    pthread_mutex_lock(&pulse->lock);
    pulse->stopping = true;
    pthread_cond_signal(&pulse->wake);
    pthread_mutex_unlock(&pulse->lock);
    pthread_join(pulse->thread, NULL);
    MPI_Request all_here;
    int done = 0;
    MPI_Ibarrier(pulse->group, &all_here);
    while (!done) {
        static const struct timespec nap = {.tv_nsec = 200000};
        hear(pulse);
        MPI_Test(&all_here, &done, MPI_STATUS_IGNORE);
        if (!done)
            nanosleep(&nap, NULL);
    }
    hear(pulse);
    if (pulse->sending != MPI_REQUEST_NULL)
        MPI_Wait(&pulse->sending, MPI_STATUS_IGNORE);
    pthread_cond_destroy(&pulse->wake);
    pthread_mutex_destroy(&pulse->lock);
    memory_free(pulse->heard);
    memory_free(pulse);
}
