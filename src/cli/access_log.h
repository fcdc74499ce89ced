/* A line for each request that was answered: when, who, what, how it ended, bytes in and out, and how
 * long it took. */
#ifndef CLI_ACCESS_LOG_H
#define CLI_ACCESS_LOG_H

#include <stddef.h>
#include <stdint.h>

struct access_log;
struct error;

/* Appends to a file; "-" is standard output. */
int access_log_open(const char *path, struct access_log **out, struct error *err);
void access_log_close(struct access_log *log); /* accepts NULL */
/* Lines that could not be written so far; the first is told by log_line. */
int64_t access_log_lost(const struct access_log *log); /* accepts NULL */
/* From any thread. What `what` holds that a terminal would obey is written as ?. */
void access_log_write(struct access_log *log, const char *peer, const char *what,
                      const char *status, size_t request_bytes, size_t reply_bytes, double seconds);

#endif
