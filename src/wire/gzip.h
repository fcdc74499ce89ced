/* Gzip in memory, under a limit. */
#ifndef WIRE_GZIP_H
#define WIRE_GZIP_H

#include <stdbool.h>
#include <stddef.h>

struct error;

bool gzip_recognize(const void *bytes, size_t count);

/* Unpacks all members of `bytes`; `*out` is the caller's (memory_free). `name` goes into messages,
 * with the offset in the packed bytes where they went wrong. Fails rather than unpack more than
 * `limit` bytes. */
int gzip_unpack(const char *name, const void *bytes, size_t count, size_t limit, char **out,
                size_t *out_bytes, struct error *err);
/* Packs into one member without a time or a name: the same bytes each time. `*out` is the
 * caller's (memory_free). */
int gzip_pack(const void *bytes, size_t count, char **out, size_t *out_bytes, struct error *err);

#endif
