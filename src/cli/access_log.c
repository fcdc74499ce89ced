#include "cli/access_log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

struct access_log {
    int descriptor;
    atomic_llong lost;
};

int access_log_open(const char *path, struct access_log **out, struct error *err)
{
    struct access_log *log = memory_allocate(sizeof *log);
    if (!log)
        return error_set(err, ERROR_MEMORY, "no memory for the access log");
    log->descriptor = strcmp(path, "-") == 0
                          ? STDOUT_FILENO
                          : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log->descriptor < 0) {
        memory_free(log);
        return error_set(err, ERROR_IO, "--access-log=%s: %s", path, strerror(errno));
    }
    *out = log;
    return 0;
}

void access_log_close(struct access_log *log)
{
    if (log && log->descriptor != STDOUT_FILENO)
        close(log->descriptor);
    memory_free(log);
}

int64_t access_log_lost(const struct access_log *log)
{
    return log ? atomic_load(&log->lost) : 0;
}

/* In one call, so that lines of two threads do not mix. Told once: a full disk would fill another. */
static void write_line(struct access_log *log, const char *line, size_t bytes)
{
    ssize_t written;
    do
        written = write(log->descriptor, line, bytes);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)bytes)
        return;
    const char *reason = written < 0 ? strerror(errno) : "there is no room for a whole line";
    if (atomic_fetch_add(&log->lost, 1) == 0)
        log_line(LOG_WARNING, "the access log cannot be written: %s; requests are answered",
                 reason);
}

void access_log_write(struct access_log *log, const char *peer, const char *what,
                      const char *status, size_t request_bytes, size_t reply_bytes, double seconds)
{
    struct timespec now;
    struct tm parts;
    char when[32], plain[512], line[1024];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(plain, sizeof plain, "%s", what);
    for (char *at = plain; *at; at++)
        if (!isprint((unsigned char)*at) || *at == '"')
            *at = '?';
    int bytes = snprintf(line, sizeof line, "%s.%03ldZ %s \"%s\" %s %zu %zu %.3fms\n", when,
                         now.tv_nsec / 1000000, *peer ? peer : "-", plain, status, request_bytes,
                         reply_bytes, seconds * 1e3);
    write_line(log, line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1);
}
