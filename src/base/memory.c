#include "base/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/proc.h"

enum { HUGE_PAGE_BYTES = 2 * 1024 * 1024 };

static _Atomic uint64_t allocation_count;
static _Atomic size_t slab_total; /* bytes of all slabs there are now */

static void count_allocation(void)
{
    atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
}

void *memory_allocate(size_t bytes)
{
    count_allocation();
    return calloc(1, bytes ? bytes : 1);
}

void *memory_resize(void *block, size_t bytes)
{
    count_allocation();
    return realloc(block, bytes ? bytes : 1);
}

char *memory_copy_text(const char *text)
{
    count_allocation();
    return strdup(text);
}

void memory_free(void *block)
{
    free(block);
}

uint64_t memory_allocation_count(void)
{
    return atomic_load_explicit(&allocation_count, memory_order_relaxed);
}

/* A small slab in a huge page would cost 2 MiB of zeroing for a few kilobytes. */
static size_t slab_alignment(size_t bytes)
{
    return bytes < HUGE_PAGE_BYTES ? 4096 : HUGE_PAGE_BYTES;
}

/* What is left behind the last huge page is in small ones: half of one huge page would be wasted on average. */
static size_t slab_mapped_bytes(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

/* mmap aligns to small pages only: map more, then give back what sticks out on both sides. */
static void *map_aligned(size_t bytes, size_t align)
{
    char *start =
        mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    size_t before = (align - (uintptr_t)start % align) % align;
    if (before)
        munmap(start, before);
    munmap(start + before + bytes, align - before);
    return start + before;
}

static double gibibytes(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

static size_t proc_kibibytes(const char *path, const char *key, size_t missing)
{
    char text[8192];
    uint64_t value;
    if (proc_read(path, text, sizeof text) < 0 || !proc_find_number(text, key, &value))
        return missing;
    return (size_t)value * 1024;
}

size_t memory_rss_bytes(void)
{
    return proc_kibibytes("/proc/self/status", "VmRSS:", 0);
}

int slab_create(size_t bytes, const char *what, struct slab *out, struct error *err)
{
    if (bytes == 0) {
        *out = (struct slab){0};
        return 0;
    }
    /* What earlier slabs were promised but have not touched yet still counts as free. */
    size_t available = memory_available_bytes(), resident = memory_rss_bytes();
    size_t promised = atomic_load(&slab_total) > resident ? atomic_load(&slab_total) - resident : 0;
    size_t left = available > promised ? available - promised : 0;
    if (bytes > left)
        return error_set(err, ERROR_MEMORY, "no memory for the %s: %.1f GiB needed, %.1f GiB left",
                         what, gibibytes(bytes), gibibytes(left));
    size_t mapped = slab_mapped_bytes(bytes);
    count_allocation();
    void *data = map_aligned(mapped, slab_alignment(bytes));
    if (!data)
        return error_set(err, ERROR_MEMORY, "%s: mapping %.1f GiB: %s", what, gibibytes(bytes),
                         strerror(errno));
    if (bytes >= HUGE_PAGE_BYTES)
        madvise(data, mapped, MADV_HUGEPAGE); /* an advice: small pages work too */
    atomic_fetch_add(&slab_total, bytes);
    *out = (struct slab){.data = data, .bytes = bytes};
    return 0;
}

void slab_touch(const struct slab *slab)
{
    enum { PAGE = 4096 };
    char *bytes = slab->data;
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < slab->bytes; at += PAGE)
        bytes[at] = 0;
}

void slab_release(struct slab *slab)
{
    if (slab->data) {
        munmap(slab->data, slab_mapped_bytes(slab->bytes));
        atomic_fetch_sub(&slab_total, slab->bytes);
    }
    *slab = (struct slab){0};
}

void slab_discard(void *memory, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)memory + bytes) / page * page;
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

/* "VmHWM:     1234 kB" in a file of such lines; `missing` when there is no such line. */
/* Not getrusage: its peak is inherited through exec from whoever started us. */
size_t memory_peak_rss_bytes(void)
{
    return proc_kibibytes("/proc/self/status", "VmHWM:", 0);
}

size_t memory_limit_bytes(void)
{
    struct cgroup_limits limits;
    cgroup_read("/proc/self", "", &limits);
    size_t machine = proc_kibibytes("/proc/meminfo", "MemTotal:", SIZE_MAX);
    return limits.memory_bytes < machine ? limits.memory_bytes : machine;
}

size_t memory_available_bytes(void)
{
    struct cgroup_limits limits;
    cgroup_read("/proc/self", "", &limits);
    size_t machine = proc_kibibytes("/proc/meminfo", "MemAvailable:", SIZE_MAX);
    return limits.memory_free_bytes < machine ? limits.memory_free_bytes : machine;
}
