/* Ranks of one mpirun. One thread makes every call of the library, in the order in which the jobs
 * were posted, so that a blocking reduction, which is the fastest kind, runs beside the computation.
 * It starts and ends the library, too; only the pulse talks beside it. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/trace.h"
#include "comm/mpi_internal.h"

enum { JOBS = 2 * COMM_MAX_REQUESTS }; /* posted and not yet waited for */

enum job_kind { JOB_REDUCE, JOB_BROADCAST, JOB_AGREE, JOB_GATHER, JOB_SEND, JOB_RECEIVE };

struct job {
    enum job_kind kind;
    struct comm_reduction reduction;
    void *buffer;
    const void *own;
    size_t bytes, capacity;
    size_t *sizes;
    int peer;
    uint64_t value;
    bool same;
    double start, end;
    struct error error;
};

struct mpi {
    struct comm base;
    struct mpi_reducer reducer;
    struct mpi_pulse *pulse;
    char (*hosts)[MPI_MAX_PROCESSOR_NAME];
    int *lengths, *places; /* of gathers, in bytes */
    pthread_t thread;

    pthread_mutex_t lock; /* guards all below; not held while the library is at work */
    pthread_cond_t posted_one, done_one;
    struct job jobs[JOBS]; /* number n is jobs[n % JOBS] */
    int64_t posted, done;
    bool started, closing, leaving;
    struct error failure; /* of the start */
    struct trace_track *track;
};

static struct mpi *mpi_of(const struct comm *comm)
{
    return (struct mpi *)comm;
}

/* --- jobs, on the thread that talks ----------------------------------------------------------- */

static int refuse(const char *what, int code, struct error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    return error_set(err, ERROR_PEER, "%s: %s", what, text);
}

static int run_agree(struct mpi *mpi, struct job *job)
{
    uint64_t range[2] = {job->value, ~job->value};
    int code = MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_UINT64_T, MPI_MIN, mpi->reducer.group);
    job->same = range[0] == ~range[1];
    return code;
}

static int run_gather(struct mpi *mpi, struct job *job)
{
    _Static_assert(sizeof(size_t) == sizeof(uint64_t), "sizes travel as 64 bits");
    uint64_t own = job->bytes;
    int code =
        MPI_Allgather(&own, 1, MPI_UINT64_T, job->sizes, 1, MPI_UINT64_T, mpi->reducer.group);
    size_t sum = 0;
    for (int r = 0; r < mpi->base.size; r++) {
        mpi->lengths[r] = (int)job->sizes[r];
        mpi->places[r] = (int)sum;
        sum += job->sizes[r];
    }
    if (code != MPI_SUCCESS)
        return code;
    if (sum > job->capacity || sum > INT32_MAX) {
        error_set(&job->error, ERROR_MEMORY, "gathered %zu bytes do not fit %zu", sum,
                  job->capacity);
        return MPI_SUCCESS;
    }
    return MPI_Allgatherv(job->own, (int)own, MPI_BYTE, job->buffer, mpi->lengths, mpi->places,
                          MPI_BYTE, mpi->reducer.group);
}

/* Counts of the library are int, so large messages go in pieces. */
enum { PIECE_BYTES = 1 << 30 };

static int in_pieces(struct mpi *mpi, struct job *job)
{
    int code = MPI_SUCCESS;
    for (size_t at = 0; code == MPI_SUCCESS && at < job->bytes; at += PIECE_BYTES) {
        size_t left = job->bytes - at;
        int count = left < PIECE_BYTES ? (int)left : PIECE_BYTES;
        void *place = (char *)job->buffer + at;
        MPI_Comm group = mpi->reducer.group;
        if (job->kind == JOB_BROADCAST)
            code = MPI_Bcast(place, count, MPI_BYTE, job->peer, group);
        else if (job->kind == JOB_SEND)
            code = MPI_Send(place, count, MPI_BYTE, job->peer, 0, group);
        else
            code = MPI_Recv(place, count, MPI_BYTE, job->peer, 0, group, MPI_STATUS_IGNORE);
    }
    return code;
}

static const char *const job_names[] = {"reduction", "broadcast", "agreement",
                                        "gathering", "sending",   "receiving"};

static int run_job(struct mpi *mpi, struct job *job)
{
    switch (job->kind) {
    case JOB_REDUCE:
        return mpi_reduce(&mpi->reducer, &job->reduction);
    case JOB_AGREE:
        return run_agree(mpi, job);
    case JOB_GATHER:
        return run_gather(mpi, job);
    default:
        return in_pieces(mpi, job);
    }
}

/* Waits until all ranks have come to this job, asleep but for the first moments: the library would
 * spin, or yield, all the while. */
static int wait_for_others(struct mpi *mpi)
{
    static const double patience = 50e-6; /* most waits are shorter */
    static const struct timespec nap = {.tv_nsec = 50000};
    MPI_Request all_here;
    int here = 0, code = MPI_Ibarrier(mpi->reducer.group, &all_here);
    double start = clock_seconds();
    while (code == MPI_SUCCESS && !here) {
        code = MPI_Test(&all_here, &here, MPI_STATUS_IGNORE);
        if (!here && clock_seconds() - start > patience)
            nanosleep(&nap, NULL);
    }
    return code;
}

static bool spins_for_others(const struct mpi *mpi, const struct job *job)
{
    if (job->kind == JOB_REDUCE)
        return !mpi_reduce_sleeps(&mpi->reducer, &job->reduction);
    return job->kind != JOB_SEND && job->kind != JOB_RECEIVE;
}

/* A reduction's name does not last as long as the trace, so it is copied. */
static void note_span(struct mpi *mpi, const struct job *job, int64_t number)
{
    const struct comm_reduction *reduction = &job->reduction;
    size_t each = reduction->wire == COMM_WIRE_HALF ? sizeof(uint16_t) : sizeof(float);
    size_t bytes = job->kind == JOB_REDUCE ? reduction->count * each : job->bytes;
    struct trace_span span = {
        .category = "comm",
        .start = job->start,
        .end = job->end,
        .arguments = {{"job", .number = number}, {"bytes", .number = (int64_t)bytes}}};
    snprintf(span.label, sizeof span.label, "%s",
             reduction->name ? reduction->name : job_names[job->kind]);
    trace_add(mpi->track, &span);
}

static void do_job(struct mpi *mpi, int64_t number)
{
    struct job *job = &mpi->jobs[number % JOBS];
    job->error = (struct error){0};
    mpi_pulse_job(mpi->pulse, number + 1,
                  job->kind == JOB_REDUCE && job->reduction.name ? job->reduction.name
                                                                 : job_names[job->kind]);
    job->start = clock_seconds();
    int code = spins_for_others(mpi, job) ? wait_for_others(mpi) : MPI_SUCCESS;
    if (code == MPI_SUCCESS)
        code = run_job(mpi, job);
    job->end = clock_seconds();
    mpi_pulse_job(mpi->pulse, 0, NULL);
    if (code != MPI_SUCCESS)
        refuse(job_names[job->kind], code, &job->error);
    pthread_mutex_lock(&mpi->lock);
    if (mpi->track)
        note_span(mpi, job, number);
    pthread_mutex_unlock(&mpi->lock);
}

/* --- the thread that talks -------------------------------------------------------------------- */

/* Who else may use this rank's processors: those of the same host with the same mask. */
struct place {
    char host[MPI_MAX_PROCESSOR_NAME];
    cpu_set_t mask;
};

static int meet(struct mpi *mpi)
{
    int size = mpi->base.size, length, code;
    struct place own = {0}, *all = memory_allocate((size_t)size * sizeof *all);
    if (!all)
        return MPI_ERR_NO_MEM;
    MPI_Get_processor_name(own.host, &length);
    sched_getaffinity(0, sizeof own.mask, &own.mask);
    code = MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, mpi->reducer.group);
    mpi->reducer.spread = size > 1;
    for (int r = 0; r < size; r++) {
        memcpy(mpi->hosts[r], all[r].host, sizeof all[r].host);
        mpi->base.crowd += !strcmp(all[r].host, own.host) && CPU_EQUAL(&all[r].mask, &own.mask);
        for (int other = 0; other < r; other++)
            mpi->reducer.spread &= strcmp(all[r].host, all[other].host) != 0;
    }
    memory_free(all);
    return code;
}

static int take_memory(struct mpi *mpi)
{
    size_t size = (size_t)mpi->base.size;
    mpi->hosts = memory_allocate(size * sizeof *mpi->hosts);
    mpi->lengths = memory_allocate(size * sizeof *mpi->lengths);
    mpi->places = memory_allocate(size * sizeof *mpi->places);
    return mpi->hosts && mpi->lengths && mpi->places ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static bool on_one_host(void)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = getenv("OMPI_COMM_WORLD_SIZE");
    return here && all && !strcmp(here, all);
}

/* The library lets ranks of one host read each other's memory, unless it is told that the kernel has
 * no such call. Where a container's seccomp profile forbids it, every large message would fail once,
 * with a line on standard error, before it is sent in another way. */
static bool may_copy_between_processes(void)
{
    char from = 0, to;
    struct iovec here = {&to, 1}, there = {&from, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static int start(struct mpi *mpi, struct error *err)
{
    int provided;
    MPI_Comm pulse_group;
    if (!getenv("PMIX_NAMESPACE")) /* the library would go alone */
        return error_set(err, ERROR_USAGE,
                         "OMPI_COMM_WORLD_SIZE names several ranks, but no mpirun started this "
                         "process; unset it to go alone");
    /* Over a network most of a reduction is waiting, and a thread that waits by spinning would take
     * the core from one that computes. Inside a host it is copying; there a yield would cost more,
     * a whole time slice where others want the core. */
    setenv("OMPI_MCA_mpi_yield_when_idle", on_one_host() ? "0" : "1", 0);
    /* A put over TCP asks for its turn behind the data of the other direction, which halves the
     * speed of two ranks that send to each other on a slow link; a plain send does not. */
    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
    if (!may_copy_between_processes())
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (code != MPI_SUCCESS)
        return refuse("MPI_Init_thread", code, err);
    if (provided < MPI_THREAD_MULTIPLE)
        return error_set(err, ERROR_PEER,
                         "this Open MPI was built without MPI_THREAD_MULTIPLE, which is needed");
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->reducer.group);
    MPI_Comm_dup(MPI_COMM_WORLD, &pulse_group);
    MPI_Comm_set_errhandler(mpi->reducer.group, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(pulse_group, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->reducer.group, &mpi->base.rank);
    MPI_Comm_size(mpi->reducer.group, &mpi->base.size);
    mpi->reducer.rank = mpi->base.rank;
    mpi->reducer.size = mpi->base.size;
    mpi->reducer.networked = !on_one_host();
    code = take_memory(mpi);
    if (code == MPI_SUCCESS)
        code = meet(mpi);
    if (code != MPI_SUCCESS)
        return refuse("the ranks could not meet", code, err);
    mpi->pulse = mpi_pulse_start(&mpi->base, pulse_group);
    return mpi->pulse ? 0 : error_set(err, ERROR_MEMORY, "no memory for the group of ranks");
}

static void *talk(void *context)
{
    struct mpi *mpi = context;
    thread_take_short_turns(); /* those who compute would keep the core while a socket runs dry */
    int status = start(mpi, &mpi->failure);
    pthread_mutex_lock(&mpi->lock);
    mpi->started = true;
    pthread_cond_broadcast(&mpi->done_one);
    while (status == 0) {
        while (mpi->posted == mpi->done && !mpi->closing)
            pthread_cond_wait(&mpi->posted_one, &mpi->lock);
        if (mpi->posted == mpi->done)
            break;
        int64_t number = mpi->done;
        pthread_mutex_unlock(&mpi->lock);
        do_job(mpi, number);
        pthread_mutex_lock(&mpi->lock);
        mpi->done++;
        pthread_cond_broadcast(&mpi->done_one);
    }
    pthread_mutex_unlock(&mpi->lock);
    if (status == 0) {
        mpi_pulse_stop(mpi->pulse);
        MPI_Finalize();
    }
    return NULL;
}

/* --- what callers see ------------------------------------------------------------------------- */

static int64_t post(struct mpi *mpi, const struct job *job)
{
    pthread_mutex_lock(&mpi->lock);
    while (mpi->posted - mpi->done == JOBS)
        pthread_cond_wait(&mpi->done_one, &mpi->lock);
    int64_t number = mpi->posted++;
    mpi->jobs[number % JOBS] = *job;
    pthread_cond_signal(&mpi->posted_one);
    pthread_mutex_unlock(&mpi->lock);
    return number;
}

static int finish(struct mpi *mpi, int64_t number, struct job *out, struct error *err)
{
    pthread_mutex_lock(&mpi->lock);
    assert(mpi->posted - number <= JOBS);
    while (mpi->done <= number)
        pthread_cond_wait(&mpi->done_one, &mpi->lock);
    *out = mpi->jobs[number % JOBS];
    pthread_mutex_unlock(&mpi->lock);
    if (!out->error.code)
        return 0;
    if (out->error.code == ERROR_PEER)
        atomic_store(&mpi->base.over, true);
    return error_set(err, out->error.code, "%s", out->error.message);
}

static int mpi_run(struct comm *comm, struct job *job, struct error *err)
{
    struct mpi *mpi = mpi_of(comm);
    return finish(mpi, post(mpi, job), job, err);
}

static int mpi_reduce_start(struct comm *comm, const struct comm_reduction *reduction,
                            struct comm_request *out, struct error *err)
{
    (void)err;
    struct job job = {.kind = JOB_REDUCE, .reduction = *reduction};
    *out = (struct comm_request){.id = post(mpi_of(comm), &job)};
    return 0;
}

static int mpi_wait(struct comm *comm, struct comm_request *request, struct error *err)
{
    struct job job;
    int status = finish(mpi_of(comm), request->id, &job, err);
    request->start = job.start;
    request->end = job.end;
    return status;
}

static int mpi_broadcast(struct comm *comm, void *buffer, size_t bytes, int root, struct error *err)
{
    struct job job = {.kind = JOB_BROADCAST, .buffer = buffer, .bytes = bytes, .peer = root};
    return mpi_run(comm, &job, err);
}

static int mpi_agree(struct comm *comm, uint64_t value, bool *same, struct error *err)
{
    struct job job = {.kind = JOB_AGREE, .value = value};
    int status = mpi_run(comm, &job, err);
    *same = job.same;
    return status;
}

static int mpi_gather(struct comm *comm, const void *own, size_t bytes, void *all, size_t capacity,
                      size_t *sizes, struct error *err)
{
    struct job job = {.kind = JOB_GATHER,
                      .own = own,
                      .bytes = bytes,
                      .buffer = all,
                      .capacity = capacity,
                      .sizes = sizes};
    return mpi_run(comm, &job, err);
}

static int mpi_send(struct comm *comm, int to, const void *buffer, size_t bytes, struct error *err)
{
    struct job job = {.kind = JOB_SEND, .buffer = (void *)buffer, .bytes = bytes, .peer = to};
    return mpi_run(comm, &job, err);
}

static int mpi_receive(struct comm *comm, int from, void *buffer, size_t bytes, struct error *err)
{
    struct job job = {.kind = JOB_RECEIVE, .buffer = buffer, .bytes = bytes, .peer = from};
    return mpi_run(comm, &job, err);
}

static const char *mpi_host(const struct comm *comm, int rank)
{
    return mpi_of(comm)->hosts[rank];
}

static void mpi_end(struct comm *comm)
{
    struct mpi *mpi = mpi_of(comm);
    pthread_mutex_lock(&mpi->lock);
    mpi->leaving = true;
    pthread_mutex_unlock(&mpi->lock);
}

static void mpi_tell(struct comm *comm, int64_t step, const char *doing)
{
    mpi_pulse_tell(mpi_of(comm)->pulse, step, doing);
}

static void mpi_watch_stalls(struct comm *comm, double warning, double limit)
{
    mpi_pulse_watch(mpi_of(comm)->pulse, warning, limit);
}

static void mpi_trace(struct comm *comm, struct trace_track *track)
{
    struct mpi *mpi = mpi_of(comm);
    pthread_mutex_lock(&mpi->lock);
    mpi->track = track;
    pthread_mutex_unlock(&mpi->lock);
}

static void release(struct mpi *mpi)
{
    mpi_reducer_release(&mpi->reducer);
    memory_free(mpi->hosts);
    memory_free(mpi->lengths);
    memory_free(mpi->places);
    pthread_cond_destroy(&mpi->posted_one);
    pthread_cond_destroy(&mpi->done_one);
    pthread_mutex_destroy(&mpi->lock);
    memory_free(mpi);
}

/* A rank that leaves early may have a thread that waits for the others for good: what it uses stays,
 * and mpirun, seeing a process end that did not take its leave of the library, ends the others. */
static void mpi_close(struct comm *comm)
{
    struct mpi *mpi = mpi_of(comm);
    pthread_mutex_lock(&mpi->lock);
    bool leaving = mpi->leaving || atomic_load(&comm->over);
    mpi->closing = !leaving;
    pthread_cond_broadcast(&mpi->posted_one);
    pthread_mutex_unlock(&mpi->lock);
    if (leaving)
        return;
    pthread_join(mpi->thread, NULL);
    release(mpi);
}

static const struct comm_kind comm_kind_mpi = {
    .name = "mpi",
    .close = mpi_close,
    .host = mpi_host,
    .reduce_start = mpi_reduce_start,
    .wait = mpi_wait,
    .broadcast = mpi_broadcast,
    .agree = mpi_agree,
    .gather = mpi_gather,
    .send = mpi_send,
    .receive = mpi_receive,
    .end = mpi_end,
    .tell = mpi_tell,
    .watch_stalls = mpi_watch_stalls,
    .trace = mpi_trace,
};

/* The caller's thread, and those it starts from now on, compute; the one that talks has little to do,
 * sleeps while it waits, and must come in between at once: ranks of one host that exchange numbers by
 * turns would otherwise wait a time slice at each turn. */
static void let_it_talk(void)
{
    enum { NICER = 10 };
    thread_step_back(NICER);
}

int comm_mpi_open(struct comm **out, struct error *err)
{
    struct mpi *mpi = memory_allocate(sizeof *mpi);
    if (!mpi)
        return error_set(err, ERROR_MEMORY, "no memory for the group of ranks");
    mpi->base.kind = &comm_kind_mpi;
    pthread_mutex_init(&mpi->lock, NULL);
    pthread_cond_init(&mpi->posted_one, NULL);
    pthread_cond_init(&mpi->done_one, NULL);
    int code = thread_start(&mpi->thread, talk, mpi);
    if (code == 0) {
        pthread_mutex_lock(&mpi->lock);
        while (!mpi->started)
            pthread_cond_wait(&mpi->done_one, &mpi->lock);
        pthread_mutex_unlock(&mpi->lock);
    }
    if (code != 0 || mpi->failure.code) {
        if (code == 0)
            pthread_join(mpi->thread, NULL);
        error_set(err, code ? ERROR_MEMORY : mpi->failure.code, "%s",
                  code ? "the thread for messages cannot be started" : mpi->failure.message);
        release(mpi);
        return -1;
    }
    let_it_talk();
    *out = &mpi->base;
    return 0;
}
