/* Where memory comes from. Every allocation of ours goes through here and is counted, so that a
 * test can show that a training step makes none. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct error;

/* Zeroed; NULL when there is none left. Free with memory_free. */
void *memory_allocate(size_t bytes);
/* As realloc: the part beyond the old size is not zeroed. */
void *memory_resize(void *block, size_t bytes);
char *memory_copy_text(const char *text);
void memory_free(void *block); /* accepts NULL */

/* Allocations since the process started, slabs and arenas included. */
uint64_t memory_allocation_count(void);

/* A large, page-aligned, zeroed region for which huge pages are advised; physical memory comes
 * with the first touch, so the thread that first writes a page decides where it lives. */
struct slab {
    void *data;
    size_t bytes;
};
/* Refuses, with the bytes needed and available, what this machine or its cgroup cannot hold. */
int slab_create(size_t bytes, const char *what, struct slab *out, struct error *err);
/* For a new slab of which every page will be used: one parallel sweep, each thread its share, costs
 * less than faults inside kernels, where one thread's fault makes all others wait. */
void slab_touch(const struct slab *slab);
void slab_release(struct slab *slab); /* accepts an empty one */
/* The physical memory of the whole pages inside [memory, memory + bytes) of a slab; they read as
 * zeros from now on. */
void slab_discard(void *memory, size_t bytes);

size_t memory_rss_bytes(void); /* in physical memory now */
size_t memory_peak_rss_bytes(void);
/* What this process may use: the cgroup's limit or the machine's memory, whichever is less. */
size_t memory_limit_bytes(void);
/* Of that, what is still free now. */
size_t memory_available_bytes(void);

#endif
