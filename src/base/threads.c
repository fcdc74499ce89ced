#include "base/threads.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#ifdef _OPENMP /* the fuzzers are built without */
#include <omp.h>
#endif

#include "base/cgroup.h"
#include "base/proc.h"

enum { MAX_CPUS = 8192, MASK_BYTES = MAX_CPUS / 8 };

/* First number in /sys/devices/system/cpu/cpuN/topology/NAME, or `missing`. */
static int topology(int cpu, const char *name, int missing)
{
    char path[128], text[64];
    uint64_t value;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    if (proc_read(path, text, sizeof text) < 0 || !proc_find_number(text, "", &value))
        return missing;
    return value < MAX_CPUS ? (int)value : missing;
}

/* Hardware threads of one core share a name: the lowest-numbered of them. */
static int core_of(int cpu)
{
    return topology(cpu, "thread_siblings_list", cpu);
}

static int count_distinct(const cpu_set_t *cpus, int (*key)(int cpu))
{
    unsigned char seen[MASK_BYTES] = {0};
    int count = 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, MASK_BYTES, cpus))
            continue;
        int name = key(cpu);
        if (!(seen[name / 8] & 1u << name % 8))
            count++;
        seen[name / 8] |= (unsigned char)(1u << name % 8);
    }
    return count;
}

struct cpu_mask {
    _Alignas(cpu_set_t) unsigned char bytes[MASK_BYTES];
};

/* Cores and hardware threads that the affinity mask allows. */
static void count_allowed(int *cores, int *hardware_threads)
{
    struct cpu_mask mask = {0};
    cpu_set_t *cpus = (cpu_set_t *)(void *)mask.bytes;
    *cores = *hardware_threads = 1;
    if (sched_getaffinity(0, sizeof mask.bytes, cpus) < 0)
        return;
    *cores = count_distinct(cpus, core_of);
    *hardware_threads = CPU_COUNT_S(MASK_BYTES, cpus);
}

int threads_available(void)
{
    int cores, hardware_threads;
    count_allowed(&cores, &hardware_threads);
    struct cgroup_limits limits;
    cgroup_read("/proc/self", "", &limits);
    if (limits.cpu_cores > 0 && limits.cpu_cores < cores)
        cores = (int)limits.cpu_cores;
    return cores > 0 ? cores : 1;
}

static int socket_of(int cpu)
{
    return topology(cpu, "physical_package_id", 0);
}

/* "0-3,8": the list of processors that are switched on. */
static void read_online(cpu_set_t *cpus)
{
    char text[4096];
    if (proc_read("/sys/devices/system/cpu/online", text, sizeof text) < 0)
        return;
    for (char *at = text; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < MAX_CPUS; cpu++)
            CPU_SET_S((size_t)cpu, MASK_BYTES, cpus);
        at = *end == ',' ? end + 1 : end;
    }
}

#if defined(__x86_64__)
/* The tile registers also need the kernel's consent, which XCR0 shows. */
static bool has_amx(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & 1u << 24))
        return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 3u << 17) == 3u << 17;
}

static void describe_features(struct processor *out)
{
    __builtin_cpu_init();
    out->sse41 = __builtin_cpu_supports("sse4.1");
    out->avx2 = __builtin_cpu_supports("avx2");
    out->fma = __builtin_cpu_supports("fma");
    out->avx512f = __builtin_cpu_supports("avx512f");
    out->amx = has_amx();
}
#else
static void describe_features(struct processor *out)
{
    (void)out; /* the fields name x86 extensions */
}
#endif

void processor_describe(struct processor *out)
{
    *out = (struct processor){0};
    char text[4096];
    if (proc_read("/proc/cpuinfo", text, sizeof text) < 0 ||
        !proc_find_text(text, "model name", out->name, sizeof out->name))
        snprintf(out->name, sizeof out->name, "unknown processor");
    struct cpu_mask mask = {0};
    cpu_set_t *cpus = (cpu_set_t *)(void *)mask.bytes;
    read_online(cpus);
    out->hardware_threads = CPU_COUNT_S(MASK_BYTES, cpus);
    out->cores = count_distinct(cpus, core_of);
    out->sockets = count_distinct(cpus, socket_of);
    count_allowed(&out->allowed_cores, &out->allowed_threads);
    struct cgroup_limits limits;
    cgroup_read("/proc/self", "", &limits);
    out->quota_cores = limits.cpu_cores;
    describe_features(out);
}

int thread_start(pthread_t *thread, void *(*main)(void *context), void *context)
{
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) /* blocked, they kill unheard */
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(thread, NULL, main, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* Relative, for threads may have been told to step back before others were started beside them. */
void thread_step_back(int nicer)
{
    errno = 0;
    int now = getpriority(PRIO_PROCESS, 0); /* of this thread, on Linux */
    if (errno == 0)
        setpriority(PRIO_PROCESS, 0, now + nicer);
}

/* What the kernel calls struct sched_attr: its header and the C library's cannot be included together. */
struct turns {
    uint32_t size, policy;
    uint64_t flags;
    int32_t niceness;
    uint32_t priority;
    uint64_t nanoseconds, deadline, period;
};

/* For the ordinary policy kernels before 6.12 take the call and change nothing. */
void thread_take_short_turns(void)
{
    enum { SHORTEST = 100000 };
    struct turns turns = {.size = sizeof turns};
    if (syscall(SYS_sched_getattr, 0, &turns, sizeof turns, 0) < 0 || turns.policy != SCHED_OTHER)
        return;
    turns.nanoseconds = SHORTEST;
    syscall(SYS_sched_setattr, 0, &turns, 0);
}

void threads_dismiss_helpers(void)
{
#ifdef _OPENMP
    omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#endif
}
