/* Files written by a thread of its own, for those who may not wait for a disk. What is handed over
 * is copied into bounded memory; when that is full, or the disk refuses, it is left out, which is
 * counted and said once. */
#ifndef WATCH_SPOOL_H
#define WATCH_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct spool;

enum { SPOOL_MAX_FILES = 4 };

struct spool_options {
    size_t capacity;         /* bytes waiting, at most; 0: 8 MiB, touched only as needed */
    double patience_seconds; /* for the disk at the end; 0: 10 s */
};

int spool_create(const struct spool_options *options, struct spool **out, struct error *err);
/* Writes what is waiting, but not longer than the patience lasts: a disk that hangs keeps its
 * thread, not the program. Says how much was left out. Accepts NULL. */
void spool_destroy(struct spool *spool);

/* Both before the first spool_write, at most SPOOL_MAX_FILES in all; they return the file's number
 * or -1. A file that grows: takes over the descriptor (-1, too: a failure), which was opened for
 * appending and is empty. Records are there whole or not at all, also on a full disk. */
int spool_append(struct spool *spool, int descriptor, const char *path, struct error *err);
/* A file that holds the last record only, and is opened anew for each. It is not renamed into its
 * place: where it stands, others may be allowed to write it but not to make one. */
int spool_replace(struct spool *spool, const char *path, struct error *err);

/* Copies the record, which comes in parts; from any thread, and never waits for a disk. False when
 * it was left out. */
struct spool_part {
    const void *data;
    size_t bytes;
};
bool spool_write(struct spool *spool, int file, const struct spool_part *parts, int count);
uint64_t spool_left_out(struct spool *spool, int file); /* records, so far */

#endif
