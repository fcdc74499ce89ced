#include "cli/access_log.h"

#include <ctype.h>
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "base/memory.h"

struct access_log {
    FILE *file;
};

int access_log_open(const char *path, struct access_log **out, struct error *err)
{
    struct access_log *log = memory_allocate(sizeof *log);
    if (!log)
        return error_set(err, ERROR_MEMORY, "no memory for the access log");
    log->file = strcmp(path, "-") == 0 ? stdout : fopen(path, "ae");
    if (!log->file) {
        memory_free(log);
        return error_set(err, ERROR_IO, "--access-log=%s: %s", path, strerror(errno));
    }
    setvbuf(log->file, NULL, _IOLBF, 0);
    *out = log;
    return 0;
}

void access_log_close(struct access_log *log)
{
    if (log && log->file != stdout)
        fclose(log->file);
    memory_free(log);
}

void access_log_write(struct access_log *log, const char *peer, const char *what,
                      const char *status, size_t request_bytes, size_t reply_bytes, double seconds)
{
    struct timespec now;
    struct tm parts;
    char when[32], plain[512];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(plain, sizeof plain, "%s", what);
    for (char *at = plain; *at; at++)
        if (!isprint((unsigned char)*at) || *at == '"')
            *at = '?';
    /* One call, one line: the stream has a lock of its own. */
    fprintf(log->file, "%s.%03ldZ %s \"%s\" %s %zu %zu %.3fms\n", when, now.tv_nsec / 1000000,
            *peer ? peer : "-", plain, status, request_bytes, reply_bytes, seconds * 1e3);
}
