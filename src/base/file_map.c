#include "base/file_map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

/* --- which maps there are --------------------------------------------------------------------- */

/* A signal handler reads it, so there is no lock: `changes` is odd while its owner writes, and has
 * another value after that. */
struct slot {
    atomic_uint changes;
    atomic_uintptr_t start, end; /* both 0: free */
    atomic_bool torn;
};

enum { SLOTS = 256 };
static struct slot slots[SLOTS];

static bool claim(struct slot *slot, uintptr_t start, size_t bytes)
{
    unsigned changes = atomic_load(&slot->changes);
    if (changes % 2 != 0 || atomic_load(&slot->start) != 0 ||
        !atomic_compare_exchange_strong(&slot->changes, &changes, changes + 1))
        return false;
    atomic_store(&slot->torn, false);
    atomic_store(&slot->start, start);
    atomic_store(&slot->end, start + bytes);
    atomic_store(&slot->changes, changes + 2);
    return true;
}

static bool enlist(const void *mapped, size_t bytes)
{
    for (int i = 0; i < SLOTS; i++)
        if (claim(&slots[i], (uintptr_t)mapped, bytes))
            return true;
    return false;
}

/* The slot of the map in which the address lies, which does not change while somebody reads that map;
 * NULL: it lies in none. */
static struct slot *find(uintptr_t address, uintptr_t *end)
{
    for (int i = 0; i < SLOTS; i++) {
        unsigned changes = atomic_load(&slots[i].changes);
        uintptr_t start = atomic_load(&slots[i].start);
        *end = atomic_load(&slots[i].end);
        if (changes % 2 == 0 && start <= address && address < *end &&
            atomic_load(&slots[i].changes) == changes)
            return &slots[i];
    }
    return NULL;
}

static void strike_off(const void *mapped)
{
    uintptr_t end;
    struct slot *slot = find((uintptr_t)mapped, &end);
    if (!slot)
        return;
    atomic_fetch_add(&slot->changes, 1);
    atomic_store(&slot->start, 0);
    atomic_store(&slot->end, 0);
    atomic_fetch_add(&slot->changes, 1);
}

/* --- what happens when a file is cut ----------------------------------------------------------- */

static struct sigaction before;
static uintptr_t page_bytes;

/* From the address on, for what lies behind is most likely missing, too. */
static bool patch(uintptr_t address)
{
    uintptr_t end, page = address & ~(page_bytes - 1);
    struct slot *slot = find(address, &end);
    if (!slot)
        return false;
    atomic_store(&slot->torn, true);
    return mmap((void *)page, end - page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    int kept = errno;
    if (info->si_code != BUS_ADRERR || !patch((uintptr_t)info->si_addr)) {
        sigaction(number, &before, NULL); /* the instruction faults again */
        if (info->si_code <= 0)
            raise(number); /* somebody sent it */
    }
    errno = kept;
}

static void look_around(void)
{
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, NULL, &before);
}

/* At every map, for libraries set handlers, too. On a stack of its own where the thread has one: see
 * cli/signals.c. */
static void catch_faults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction now, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    pthread_once(&once, look_around);
    if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_fault)
        sigaction(SIGBUS, &action, NULL);
}

/* --- mapping ---------------------------------------------------------------------------------- */

static int fail(const char *path, struct error *err)
{
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

static int fail_torn(const char *path, struct error *err)
{
    return error_set(err, ERROR_IO,
                     "%s shrank while it was read; write a new file and rename it, so that nobody "
                     "sees half of one",
                     path);
}

/* In place of a map for which there is no slot left. */
static int copy(int file, const char *path, size_t bytes, char **out, struct error *err)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail(path, err);
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file, memory + done, bytes - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int status = got < 0 ? fail(path, err) : fail_torn(path, err);
            munmap(memory, bytes);
            return status;
        }
        done += (size_t)got;
    }
    *out = memory;
    return 0;
}

static int map(int file, const char *path, char **out, size_t *bytes, struct error *err)
{
    struct stat info;
    if (fstat(file, &info) < 0)
        return fail(path, err);
    if (!S_ISREG(info.st_mode) || info.st_size == 0)
        return error_set(err, ERROR_FORMAT, "%s: %s", path,
                         S_ISREG(info.st_mode) ? "is empty" : "is not a regular file");
    *bytes = (size_t)info.st_size;
    void *mapped = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED)
        return fail(path, err);
    catch_faults();
    if (!enlist(mapped, *bytes)) {
        munmap(mapped, *bytes);
        return copy(file, path, *bytes, out, err);
    }
    *out = mapped;
    return 0;
}

int file_map(const char *path, char **out, size_t *bytes, struct error *err)
{
    int file = file_open(path, err);
    if (file < 0)
        return -1;
    int status = map(file, path, out, bytes, err);
    close(file);
    return status;
}

void file_unmap(char *bytes, size_t count)
{
    if (!bytes)
        return;
    strike_off(bytes); /* first: the next map may get the same address */
    munmap(bytes, count);
}

void file_map_rest(char *bytes, size_t count)
{
    uintptr_t end;
    if (find((uintptr_t)bytes, &end)) /* a copy would be lost */
        madvise(bytes, count, MADV_DONTNEED);
}

bool file_map_is_torn(const void *inside)
{
    uintptr_t end;
    const struct slot *slot = find((uintptr_t)inside, &end);
    return slot && atomic_load(&slot->torn);
}

int file_map_check(const char *path, const void *inside, struct error *err)
{
    return file_map_is_torn(inside) ? fail_torn(path, err) : 0;
}
