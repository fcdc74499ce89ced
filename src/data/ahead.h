/* Ranges that were announced, fetched by a few threads before they are read. Bounded memory;
 * announcements that lie side by side become one fetch. */
#ifndef DATA_AHEAD_H
#define DATA_AHEAD_H

#include <stddef.h>
#include <stdint.h>

struct ahead;
struct error;

typedef int ahead_fetch(void *context, int file, uint64_t offset, size_t bytes, void *out,
                        struct error *err);

/* NULL when memory is short. The threads start with the first announcement. */
struct ahead *ahead_create(ahead_fetch *fetch, void *context);
void ahead_destroy(struct ahead *ahead); /* accepts NULL; waits for fetches under way */
/* A hint: does not wait, and forgets what there is no room for. */
void ahead_expect(struct ahead *ahead, int file, uint64_t offset, size_t bytes);
/* Copies as much of the range's beginning as was announced, waiting for fetches of it; returns how
 * much. What could not be fetched counts as not announced: whoever fetches it will see why. */
size_t ahead_take(struct ahead *ahead, int file, uint64_t offset, size_t bytes, void *out);

#endif
