#include "watch/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"

enum { DEFAULT_CAPACITY = 8 << 20, DEFAULT_PATIENCE = 10 };

struct spool_file {
    char path[PATH_MAX];
    int descriptor; /* -1: opened anew for each record */
    off_t whole;    /* bytes of whole records; the thread's own */
    bool torn;      /* ends in half a record that cannot be cut off: nothing may follow */
    bool replaced;
    bool told;         /* guarded by the lock */
    uint64_t left_out; /* the same */
};

/* In front of each record that waits. */
struct record {
    int file;
    size_t bytes;
};

struct spool {
    struct spool_options options;
    struct spool_file files[SPOOL_MAX_FILES];
    int file_count;
    pthread_t thread;
    char *writing; /* the thread's own */

    pthread_mutex_t lock;    /* guards all below; never held while a file is written */
    pthread_cond_t filled;   /* there is something to write, or we are stopping */
    pthread_cond_t finished; /* the thread has ended */
    char *filling;           /* [capacity] */
    size_t used;             /* of it */
    bool stopping, ended;
    bool abandoned; /* nobody waits any more: the thread frees all this */
};

static void spool_free(struct spool *spool)
{
    for (int i = 0; i < spool->file_count; i++)
        if (spool->files[i].descriptor >= 0)
            close(spool->files[i].descriptor);
    pthread_cond_destroy(&spool->finished);
    pthread_cond_destroy(&spool->filled);
    pthread_mutex_destroy(&spool->lock);
    memory_free(spool->writing);
    memory_free(spool->filling);
    memory_free(spool);
}

/* --- the thread ----------------------------------------------------------------------------- */

static void leave_out(struct spool *spool, struct spool_file *file, const char *why)
{
    pthread_mutex_lock(&spool->lock);
    bool told = file->told;
    file->told = true;
    file->left_out++;
    pthread_mutex_unlock(&spool->lock);
    if (!told)
        log_line(LOG_WARNING,
                 "%s: %s; what cannot be written is left out, and nothing waits for it", file->path,
                 why);
}

static bool write_whole(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t wrote = write(descriptor, data, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        data += wrote;
        bytes -= (size_t)wrote;
    }
    return true;
}

static bool append_record(struct spool_file *file, const char *data, size_t bytes)
{
    if (file->torn) {
        errno = EIO;
        return false;
    }
    if (write_whole(file->descriptor, data, bytes)) {
        file->whole += (off_t)bytes;
        return true;
    }
    int reason = errno;
    file->torn = ftruncate(file->descriptor, file->whole) < 0;
    errno = reason;
    return false;
}

/* One short write over the old bytes, then the rest is cut off: a reader sees one of the two, as
 * long as a record is not shorter than the one before. */
static bool replace_record(const struct spool_file *file, const char *data, size_t bytes)
{
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (descriptor < 0)
        return false;
    bool done = write_whole(descriptor, data, bytes) &&
                (ftruncate(descriptor, (off_t)bytes) == 0 || errno == EINVAL); /* no regular file */
    int reason = errno;
    done = close(descriptor) == 0 && done;
    if (!done && reason)
        errno = reason;
    return done;
}

static void write_records(struct spool *spool, size_t used)
{
    struct record record;
    for (size_t at = 0; at < used; at += sizeof record + record.bytes) {
        memcpy(&record, spool->writing + at, sizeof record);
        struct spool_file *file = &spool->files[record.file];
        const char *data = spool->writing + at + sizeof record;
        errno = 0;
        if (!(file->replaced ? replace_record(file, data, record.bytes)
                             : append_record(file, data, record.bytes)))
            leave_out(spool, file, strerror(errno));
    }
}

/* Two halves of memory change places, so that one is filled while the other is written. */
static void *spool_main(void *context)
{
    struct spool *spool = context;
    pthread_mutex_lock(&spool->lock);
    for (;;) {
        while (spool->used == 0 && !spool->stopping)
            pthread_cond_wait(&spool->filled, &spool->lock);
        if (spool->used == 0)
            break;
        size_t used = spool->used;
        char *swap = spool->writing;
        spool->writing = spool->filling;
        spool->filling = swap;
        spool->used = 0;
        pthread_mutex_unlock(&spool->lock);
        write_records(spool, used);
        pthread_mutex_lock(&spool->lock);
    }
    spool->ended = true;
    bool abandoned = spool->abandoned;
    pthread_cond_signal(&spool->finished);
    pthread_mutex_unlock(&spool->lock);
    if (abandoned)
        spool_free(spool);
    return NULL;
}

/* --- its life ------------------------------------------------------------------------------- */

static int start_thread(struct spool *spool, struct error *err)
{
    int code = thread_start(&spool->thread, spool_main, spool);
    if (code != 0)
        return error_set(err, ERROR_MEMORY, "cannot start the thread that writes files: %s",
                         strerror(code));
    return 0;
}

static void init_locks(struct spool *spool)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&spool->lock, NULL);
    pthread_cond_init(&spool->filled, NULL);
    pthread_cond_init(&spool->finished, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int spool_create(const struct spool_options *options, struct spool **out, struct error *err)
{
    struct spool *spool = memory_allocate(sizeof *spool);
    if (!spool)
        return error_set(err, ERROR_MEMORY, "no memory for the files of the training");
    spool->options = *options;
    if (!spool->options.capacity)
        spool->options.capacity = DEFAULT_CAPACITY;
    if (!spool->options.patience_seconds)
        spool->options.patience_seconds = DEFAULT_PATIENCE;
    init_locks(spool);
    spool->filling = memory_allocate(spool->options.capacity);
    spool->writing = memory_allocate(spool->options.capacity);
    int status = 0;
    if (!spool->filling || !spool->writing)
        status = error_set(err, ERROR_MEMORY, "no memory for the files of the training");
    if (status < 0 || start_thread(spool, err) < 0) {
        spool_free(spool);
        return -1;
    }
    *out = spool;
    return 0;
}

/* True when the thread has ended in time; else the spool is the thread's. */
static bool wait_for_thread(struct spool *spool)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double patience = spool->options.patience_seconds;
    until.tv_sec += (time_t)patience;
    until.tv_nsec += (long)((patience - (double)(time_t)patience) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&spool->lock);
    spool->stopping = true;
    pthread_cond_signal(&spool->filled);
    int code = 0;
    while (!spool->ended && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&spool->finished, &spool->lock, &until);
    bool ended = spool->ended;
    spool->abandoned = !ended;
    if (!ended)
        log_line(LOG_WARNING, "%s: the disk did not take what was left within %g s",
                 spool->files[0].path, patience);
    pthread_mutex_unlock(&spool->lock);
    return ended;
}

void spool_destroy(struct spool *spool)
{
    if (!spool)
        return;
    pthread_t thread = spool->thread;
    if (!wait_for_thread(spool)) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < spool->file_count; i++)
        if (spool->files[i].left_out)
            log_line(LOG_WARNING, "%s: %" PRIu64 " records were left out", spool->files[i].path,
                     spool->files[i].left_out);
    spool_free(spool);
}

/* --- its users ------------------------------------------------------------------------------ */

static int add_file(struct spool *spool, const struct spool_file *file, const char *path,
                    struct error *err)
{
    if (spool->file_count == SPOOL_MAX_FILES)
        return error_set(err, ERROR_USAGE, "%s: more than %d files to write beside a training",
                         path, SPOOL_MAX_FILES);
    struct spool_file *added = &spool->files[spool->file_count];
    *added = *file;
    snprintf(added->path, sizeof added->path, "%s", path);
    return spool->file_count++;
}

int spool_append(struct spool *spool, int descriptor, const char *path, struct error *err)
{
    if (descriptor < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    int number = add_file(spool, &(struct spool_file){.descriptor = descriptor}, path, err);
    if (number < 0)
        close(descriptor);
    return number;
}

int spool_replace(struct spool *spool, const char *path, struct error *err)
{
    return add_file(spool, &(struct spool_file){.descriptor = -1, .replaced = true}, path, err);
}

bool spool_write(struct spool *spool, int file, const struct spool_part *parts, int count)
{
    struct record record = {.file = file};
    for (int i = 0; i < count; i++)
        record.bytes += parts[i].bytes;
    pthread_mutex_lock(&spool->lock);
    bool room = sizeof record + record.bytes <= spool->options.capacity - spool->used;
    char *at = spool->filling + spool->used;
    if (room) {
        memcpy(at, &record, sizeof record);
        at += sizeof record;
        for (int i = 0; i < count; at += parts[i++].bytes)
            memcpy(at, parts[i].data, parts[i].bytes);
        spool->used += sizeof record + record.bytes;
        pthread_cond_signal(&spool->filled);
    }
    pthread_mutex_unlock(&spool->lock);
    if (!room)
        leave_out(spool, &spool->files[file], "the disk is too slow");
    return room;
}

uint64_t spool_left_out(struct spool *spool, int file)
{
    pthread_mutex_lock(&spool->lock);
    uint64_t count = spool->files[file].left_out;
    pthread_mutex_unlock(&spool->lock);
    return count;
}
