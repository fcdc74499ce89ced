/* A directory of files that data is read from: on this machine, or s3://bucket/prefix. The one
 * way in which datasets and `data` commands reach bytes, so that either works everywhere. */
#ifndef DATA_STORAGE_H
#define DATA_STORAGE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct storage;

struct storage_file {
    const char *name; /* below the directory, '/' between parts */
    uint64_t bytes;
    int64_t modified; /* changes with the content; locally nanoseconds since 1970 */
};

/* Opens a directory and lists the regular files below it (all levels), sorted by name; names that
 * start with a dot are left out, links are followed. Fails with ERROR_IO when there is no such
 * directory or bucket. When `stop` (may be NULL; borrowed until storage_close) becomes nonzero,
 * whatever waits for the network ends, and reading and mapping fail with ERROR_CANCELLED. */
int storage_open(const char *path, const atomic_int *stop, struct storage **out, struct error *err);
/* The same for files whose names are known: nothing is listed, so that it does not matter how much
 * else lies there. The list has those that exist. */
int storage_open_files(const char *path, const char *const *names, int count,
                       const atomic_int *stop, struct storage **out, struct error *err);
/* "DIR/NAME" taken apart for that: DIR ("." or "/" where it would be empty) goes to `directory`;
 * returns NAME, in `path`. NULL, with an error, when it is too long. */
const char *storage_split(const char *path, char directory[PATH_MAX], struct error *err);
void storage_close(struct storage *storage);             /* accepts NULL; what it mapped is gone */
const char *storage_name(const struct storage *storage); /* as it was opened */
bool storage_is_local(const struct storage *storage);
/* Returns how many; *out lives as long as the storage. */
int storage_files(const struct storage *storage, const struct storage_file **out);
int storage_find(const struct storage *storage, const char *name); /* index, or -1 */
/* "DIR/NAME" or "s3://bucket/prefix/NAME" for messages, into `text`, which it returns. */
const char *storage_describe(const struct storage *storage, int file, char *text, size_t bytes);

/* Exactly `bytes` bytes from `offset`; fails when the file has become shorter. Any number of
 * threads. */
int storage_read(struct storage *storage, int file, uint64_t offset, size_t bytes, void *out,
                 struct error *err);
/* The whole file as memory, until storage_close: mapped where it lies, or from the local cache
 * into which it was brought. Any number of threads; the same file gives the same address. A file
 * whose size is no longer the listed one is refused; one that is cut short while it is mapped
 * ends the process with SIGBUS when the missing part is touched, as for every program that maps
 * files: replace data by rename, never in place, while something reads it. */
int storage_map(struct storage *storage, int file, const uint8_t **out, struct error *err);
const atomic_int *storage_stop(const struct storage *storage); /* as it was opened with */
/* Fails with ERROR_CANCELLED once its stop is wanted: for long work on what was read. */
int storage_check_stop(const struct storage *storage, struct error *err);
/* This range will be read soon. A hint: does not fail, does not wait. */
void storage_expect(struct storage *storage, int file, uint64_t offset, size_t bytes);

#endif
