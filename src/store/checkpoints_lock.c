#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "store/checkpoints.h"
#include "store/checkpoints_names.h"

/* The longest name below the directory: a draft's manifest while it is written. */
enum { ROOM_BELOW = 160 };

static int refuse_second(const char *directory, int descriptor, struct error *err)
{
    char holder[128] = "";
    ssize_t bytes = pread(descriptor, holder, sizeof holder - 1, 0);
    holder[bytes > 0 ? strcspn(holder, "\n") : 0] = '\0';
    return error_set(err, ERROR_USAGE,
                     "%s: another run writes its checkpoints there%s%s; wait for it, or give this "
                     "one a directory of its own",
                     directory, *holder ? ": " : "", holder);
}

static void sign(int descriptor)
{
    char host[64] = "", line[128];
    gethostname(host, sizeof host - 1);
    int length = snprintf(line, sizeof line, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) < 0 || pwrite(descriptor, line, (size_t)length, 0) < 0)
        log_line(LOG_DEBUG, "the lock could not be signed: %s", strerror(errno));
}

/* A directory that was made just now is lost with the power, and all in it, until those above know
 * of it. Some of them may not be ours to flush. */
static void flush_above(const char *directory)
{
    char above[PATH_MAX];
    struct error ignored = {0};
    snprintf(above, sizeof above, "%s", directory);
    for (char *slash; (slash = strrchr(above, '/')) && slash != above;) {
        *slash = '\0';
        directory_flush(above, &ignored);
    }
    directory_flush(above[0] == '/' ? "/" : ".", &ignored);
}

static int prepare(const char *directory, struct error *err)
{
    if (strlen(directory) + ROOM_BELOW > PATH_MAX)
        return error_set(err, ERROR_IO, "a path of %zu bytes leaves no room for checkpoints: %s",
                         strlen(directory), strerror(ENAMETOOLONG));
    if (directory_make(directory, err) < 0)
        return -1;
    flush_above(directory);
    if (access(directory, W_OK | X_OK) < 0)
        return error_set(err, ERROR_IO, "%s cannot be written to: %s", directory, strerror(errno));
    return 0;
}

static bool knows_no_locks(int code)
{
    return code == ENOLCK || code == EOPNOTSUPP || code == ENOSYS;
}

/* *locked tells whether the disk knows locks at all. */
static int lock(const char *directory, int descriptor, bool *locked, struct error *err)
{
    int status;
    do
        status = flock(descriptor, LOCK_EX | LOCK_NB);
    while (status < 0 && errno == EINTR);
    *locked = status == 0;
    if (status == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return refuse_second(directory, descriptor, err);
    if (!knows_no_locks(errno))
        return error_set(err, ERROR_IO, "%s cannot be locked: %s", directory, strerror(errno));
    log_line(LOG_WARNING,
             "%s cannot be locked on this disk (%s): make sure that no other run writes there",
             directory, strerror(errno));
    return 0;
}

int checkpoints_take(const char *directory, struct checkpoints_lock *out, struct error *err)
{
    char path[PATH_MAX];
    bool locked;
    out->descriptor = -1;
    if (prepare(directory, err) < 0 || checkpoints_join(directory, CHECKPOINTS_LOCK, path, err) < 0)
        return -1;
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    out->descriptor = descriptor;
    int status = lock(directory, descriptor, &locked, err);
    if (status == 0)
        status = checkpoints_check_held(directory, out, err);
    if (status == 0 && locked)
        status = checkpoints_sweep(directory, err);
    if (status == 0)
        sign(descriptor);
    else
        checkpoints_let_go(out);
    return status;
}

void checkpoints_let_go(struct checkpoints_lock *lock)
{
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}

int checkpoints_check_held(const char *directory, const struct checkpoints_lock *lock,
                           struct error *err)
{
    char path[PATH_MAX];
    struct stat held, there;
    if (checkpoints_join(directory, CHECKPOINTS_LOCK, path, err) < 0)
        return -1;
    if (fstat(lock->descriptor, &held) == 0 && stat(path, &there) == 0 &&
        held.st_ino == there.st_ino && held.st_dev == there.st_dev)
        return 0;
    return error_set(err, ERROR_IO,
                     "%s was removed or replaced while this run wrote its checkpoints there",
                     directory);
}
