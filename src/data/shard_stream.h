/* The plain bytes of a shard, unpacked where it is packed, from front to back. Only a stretch of
 * them is in memory, however large the shard is. */
#ifndef DATA_SHARD_STREAM_H
#define DATA_SHARD_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct shard_stream;
struct storage;

/* `name` goes into messages; it and the storage must outlive the stream. For one thread. */
int shard_stream_open(struct storage *storage, int file, const char *name,
                      struct shard_stream **out, struct error *err);
void shard_stream_close(struct shard_stream *stream); /* accepts NULL */
bool shard_stream_is_packed(const struct shard_stream *stream);

/* Lets go of what lies before `offset`, which is never less than in the last call, and brings at
 * least `bytes` bytes from there on into memory: *count is less only where the shard ends. The
 * bytes are valid until the next call. */
int shard_stream_view(struct shard_stream *stream, uint64_t offset, size_t bytes,
                      const uint8_t **out, size_t *count, struct error *err);
/* Where the plain bytes end. Of a packed shard that has not been seen to its end it takes a pass
 * of its own. */
int shard_stream_end(struct shard_stream *stream, uint64_t *out, struct error *err);

/* Bytes of the file, as it lies there, that were read so far. */
uint64_t shard_stream_taken(const struct shard_stream *stream);
/* Packed data that is damaged ends the plain bytes early: why, or NULL. */
const char *shard_stream_damage(const struct shard_stream *stream);

#endif
