/* Lines for the person running the program. Only cli/ and watch/ print; a library function that
 * has something to say beside its result says it here, and the program decides where it goes. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

/* `line` has no newline and is valid during the call, which may come from any thread, but never
 * from two at once. */
typedef void log_sink(void *context, enum log_level level, const char *line);

/* Where lines go from now on; NULL, as at the start: nowhere. */
void log_set_sink(log_sink *sink, void *context);
/* A second sink that gets the same lines, for a page that shows them; NULL: none. */
void log_set_copy(log_sink *sink, void *context);
void log_set_level(enum log_level lowest); /* LOG_INFO unless told */
/* Lines longer than 1023 bytes are cut. From any thread. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
