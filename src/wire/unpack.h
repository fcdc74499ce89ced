/* Gzip and zlib streams of any size, unpacked piece by piece. */
#ifndef WIRE_UNPACK_H
#define WIRE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

struct error;

/* Bytes that come one piece after the other: each call gives the next, valid until the call after
 * it; *count is 0 at the end. */
typedef int piece_source(void *context, const uint8_t **bytes, size_t *count, struct error *err);

/* Pulls packed pieces from `source`; whether they are gzip (all members) or zlib data shows in
 * their first bytes. `name` goes into messages and must outlive it. */
struct unpacker;
int unpacker_create(const char *name, piece_source *source, void *context, struct unpacker **out,
                    struct error *err);
int unpacker_next(void *unpacker, const uint8_t **bytes, size_t *count, struct error *err);
void unpacker_destroy(struct unpacker *unpacker); /* accepts NULL */

#endif
