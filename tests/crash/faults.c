/* Preloaded into the program under test: counts what it asks of the system below one directory, and
 * kills it or lets a call fail at a place that the environment names.
 *
 *   FAULTS_BELOW=DIR     only calls about this directory count (an absolute path, as the program
 *                        is given it)
 *   FAULTS_LOG=FILE      gets the name of each such call on a line
 *   FAULTS_KILL=N        SIGKILL instead of the N-th
 *   FAULTS_TORN=1        ... after half of the bytes, if it writes
 *   FAULTS_CALL=NAME FAULTS_ERRNO=E [FAULTS_AT=N]
 *                        the N-th call of that name, or every one, fails with that errno
 *   FAULTS_PATH=TEXT     ... only those whose path has this in it */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int counted, matched;

static int number(const char *variable)
{
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static bool is_below(const char *path)
{
    const char *below = getenv("FAULTS_BELOW");
    return below && path && !strncmp(path, below, strlen(below));
}

static const char *path_of(int descriptor, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t bytes = readlink(link, path, PATH_MAX - 1);
    path[bytes < 0 ? 0 : bytes] = '\0';
    return path;
}

static void note(const char *call)
{
    const char *log = getenv("FAULTS_LOG");
    int file = log ? REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (file < 0)
        return;
    if (REAL(write)(file, call, strlen(call)) < 0 || REAL(write)(file, "\n", 1) < 0)
        abort();
    REAL(close)(file);
}

/* Counts the call, which changes something below; tells whether it is the one before which all ends. */
static bool is_last(const char *call, const char *path)
{
    if (!is_below(path))
        return false;
    note(call);
    return __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST) == number("FAULTS_KILL");
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static bool fails(const char *call, const char *path)
{
    int before = errno;
    const char *wanted = getenv("FAULTS_CALL"), *part = getenv("FAULTS_PATH");
    int at = number("FAULTS_AT");
    errno = before;
    if (!is_below(path) || !wanted || strcmp(wanted, call) != 0 || (part && !strstr(path, part)))
        return false;
    int now = __atomic_add_fetch(&matched, 1, __ATOMIC_SEQ_CST);
    if (at && now != at)
        return false;
    errno = number("FAULTS_ERRNO");
    return true;
}

/* Before each call: ends here, or returns true when the call shall fail. */
static bool meet(const char *call, const char *path)
{
    int before = errno;
    if (is_last(call, path))
        die();
    if (fails(call, path))
        return true;
    errno = before;
    return false;
}

static bool meet_file(const char *call, int descriptor)
{
    char path[PATH_MAX];
    return meet(call, path_of(descriptor, path));
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    bool failed = flags & O_CREAT ? meet("open", path) : fails("open", path);
    return failed ? -1 : REAL(open)(path, flags, mode);
}

static bool torn(void)
{
    return number("FAULTS_TORN") != 0;
}

ssize_t write(int file, const void *bytes, size_t count)
{
    char path[PATH_MAX];
    path_of(file, path);
    if (is_last("write", path)) {
        if (torn() && REAL(write)(file, bytes, count / 2) < 0)
            abort();
        die();
    }
    return fails("write", path) ? -1 : REAL(write)(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset)
{
    char path[PATH_MAX];
    path_of(file, path);
    if (is_last("pwrite", path)) {
        if (torn() && REAL(pwrite)(file, bytes, count / 2, offset) < 0)
            abort();
        die();
    }
    return fails("pwrite", path) ? -1 : REAL(pwrite)(file, bytes, count, offset);
}

/* What changes nothing is not counted, but it may fail. */
ssize_t read(int file, void *bytes, size_t count)
{
    char path[PATH_MAX];
    return fails("read", path_of(file, path)) ? -1 : REAL(read)(file, bytes, count);
}

ssize_t pread(int file, void *bytes, size_t count, off_t offset)
{
    char path[PATH_MAX];
    return fails("pread", path_of(file, path)) ? -1 : REAL(pread)(file, bytes, count, offset);
}

int fsync(int file)
{
    return meet_file("fsync", file) ? -1 : REAL(fsync)(file);
}

int close(int file)
{
    char path[PATH_MAX];
    bool failed = fails("close", path_of(file, path));
    int code = errno, status = REAL(close)(file);
    if (failed)
        errno = code;
    return failed ? -1 : status;
}

int sync_file_range(int file, off64_t offset, off64_t count, unsigned flags)
{
    return meet_file("sync_file_range", file) ? -1
                                              : REAL(sync_file_range)(file, offset, count, flags);
}

int ftruncate(int file, off_t length)
{
    return meet_file("ftruncate", file) ? -1 : REAL(ftruncate)(file, length);
}

int flock(int file, int operation);
int flock(int file, int operation)
{
    return meet_file("flock", file) ? -1 : REAL(flock)(file, operation);
}

int rename(const char *from, const char *to)
{
    return meet("rename", to) ? -1 : REAL(rename)(from, to);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to,
              unsigned flags)
{
    return meet("renameat2", to) ? -1
                                 : REAL(renameat2)(from_directory, from, to_directory, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    return meet("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}

int symlink(const char *target, const char *path)
{
    return meet("symlink", path) ? -1 : REAL(symlink)(target, path);
}

int unlink(const char *path)
{
    return meet("unlink", path) ? -1 : REAL(unlink)(path);
}

int remove(const char *path)
{
    return meet("remove", path) ? -1 : REAL(remove)(path);
}
