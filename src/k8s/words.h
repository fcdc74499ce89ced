/* A command line as a person types it, in words; and back. No shell is asked. */
#ifndef K8S_WORDS_H
#define K8S_WORDS_H

struct arena;
struct error;

/* Quotes and backslashes as a POSIX shell takes them; $, ` and the rest mean themselves. The list,
 * in `memory`, ends in NULL. A quote that is not closed is refused. */
int words_split(const char *line, struct arena *memory, const char *const **out, struct error *err);

#endif
