#include "cli/machine.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/memory.h"
#include "base/proc.h"
#include "exec/dnn.h"

static void read_line(const char *path, char *out, size_t capacity)
{
    if (proc_read(path, out, capacity) >= 0)
        out[strcspn(out, "\n")] = '\0';
}

/* "always [madvise] never": the one in brackets is in force. */
static void read_huge_pages(char *out, size_t capacity)
{
    char text[128];
    out[0] = '\0';
    if (proc_read("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) < 0)
        return;
    const char *open = strchr(text, '[');
    if (open)
        snprintf(out, capacity, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
}

static int count_numa_nodes(void)
{
    int count = 0;
    for (int node = 0; node < 256; node++) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
        count += access(path, F_OK) == 0;
    }
    return count > 0 ? count : 1;
}

static bool is_slow_build(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    return true;
#else
    return false;
#endif
}

void machine_describe(struct machine *out)
{
    *out = (struct machine){0};
    processor_describe(&out->processor);
    out->threads = threads_available();
    out->numa_nodes = count_numa_nodes();
    out->instruction_set = dnn_instruction_set();
    char text[8192];
    uint64_t kibibytes = 0;
    if (proc_read("/proc/meminfo", text, sizeof text) > 0)
        proc_find_number(text, "MemTotal:", &kibibytes);
    out->memory_total = (size_t)kibibytes * 1024;
    out->memory_limit = memory_limit_bytes();
    out->memory_free = memory_available_bytes();
    struct cgroup_limits limits;
    cgroup_read("/proc/self", "", &limits);
    out->cgroup_version = limits.version;
    read_huge_pages(out->huge_pages, sizeof out->huge_pages);
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out->governor,
              sizeof out->governor);
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", out->frequency_driver,
              sizeof out->frequency_driver);
    if (proc_read("/proc/loadavg", text, sizeof text) > 0)
        out->load = strtod(text, NULL);
    out->slow_build = is_slow_build();
}

struct adviser {
    const struct machine *machine;
    char *(*environment)(const char *name);
    struct advice *out;
    int count;
};

static void advise_problem(struct adviser *adviser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void advise_remedy(struct adviser *adviser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts an advice; the remedy is filled in by advise_remedy. */
static void advise_problem(struct adviser *adviser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(adviser->out[adviser->count].problem, sizeof adviser->out->problem, format,
              arguments);
    va_end(arguments);
}

static void advise_remedy(struct adviser *adviser, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(adviser->out[adviser->count].remedy, sizeof adviser->out->remedy, format, arguments);
    va_end(arguments);
    if (adviser->count < ADVICE_MAX - 1)
        adviser->count++;
}

static const char *variable(const struct adviser *adviser, const char *name)
{
    const char *value = adviser->environment(name);
    return value && *value ? value : NULL;
}

static void advise_build(struct adviser *to)
{
    if (!to->machine->slow_build)
        return;
    advise_problem(to, "this program was built for testing (sanitizers, or no optimisation)");
    advise_remedy(to, "build it with plain `make`");
}

static void advise_instructions(struct adviser *to)
{
    const struct processor *processor = &to->machine->processor;
#if defined(__x86_64__)
    if (!processor->avx2 || !processor->fma) {
        advise_problem(to, "%s has no AVX2 with FMA: kernels use narrower vectors",
                       processor->name);
        advise_remedy(to, "use a processor from 2013 or later; in a virtual machine, pass the "
                          "host's processor through");
    }
#else
    (void)processor;
#endif
    static const char *const limits[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
    for (int i = 0; i < 2; i++) {
        const char *value = variable(to, limits[i]);
        if (!value || strcasecmp(value, "ALL") == 0 || strcasecmp(value, "DEFAULT") == 0)
            continue;
        advise_problem(to, "%s=%s keeps kernels from using all that the processor can", limits[i],
                       value);
        advise_remedy(to, "unset %s", limits[i]);
    }
}

static void advise_cores(struct adviser *to)
{
    const struct machine *machine = to->machine;
    const struct processor *processor = &machine->processor;
    if (processor->quota_cores > 0 && processor->quota_cores < processor->allowed_cores) {
        advise_problem(to, "the cgroup's quota allows %.4g of %d cores", processor->quota_cores,
                       processor->allowed_cores);
        advise_remedy(to, "raise the container's CPU limit");
    }
    if (processor->quota_cores > 1 && processor->quota_cores != floor(processor->quota_cores)) {
        advise_problem(to, "a quota of %.4g cores runs %d threads; the rest is not used",
                       processor->quota_cores, machine->threads);
        advise_remedy(to, "make the container's CPU limit a whole number");
    }
    if (processor->quota_cores > 0 && processor->quota_cores < 1) {
        advise_problem(to, "a quota of %.4g cores stops the one thread again and again",
                       processor->quota_cores);
        advise_remedy(to, "give the container at least one CPU");
    }
    if (processor->allowed_cores < processor->cores) {
        advise_problem(to, "the affinity mask allows %d of %d cores", processor->allowed_cores,
                       processor->cores);
        advise_remedy(to, "start it without taskset, or with more processors in the mask");
    }
}

/* Threads that spin while they wait for each other take the core from the very one they wait for,
 * where other programs run, too: small steps become many times slower. */
static bool is_busy(const struct machine *machine)
{
    return machine->load > 0.5 * machine->processor.cores;
}

static bool waits_asleep(struct adviser *to)
{
    const char *policy = variable(to, "OMP_WAIT_POLICY");
    return policy && strcasecmp(policy, "passive") == 0;
}

static void advise_thread_variables(struct adviser *to)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT"};
    int threads = to->machine->threads;
    for (int i = 0; i < 2; i++) {
        const char *value = variable(to, names[i]);
        long given = value ? strtol(value, NULL, 10) : 0;
        if (given <= 0 || given == threads || (i == 1 && given > threads))
            continue;
        if (given > threads)
            advise_problem(to,
                           "%s=%ld is more than the %d cores there are: threads wait for each "
                           "other",
                           names[i], given, threads);
        else
            advise_problem(to, "%s=%ld leaves %ld of %d cores idle", names[i], given,
                           threads - given, threads);
        advise_remedy(to, "unset %s, or use --threads", names[i]);
    }
    if (waits_asleep(to) && !is_busy(to->machine)) {
        advise_problem(to, "OMP_WAIT_POLICY=passive makes threads sleep between operations");
        advise_remedy(to, "unset OMP_WAIT_POLICY");
    }
    const char *dynamic = variable(to, "OMP_DYNAMIC");
    if (dynamic && strcasecmp(dynamic, "true") == 0) {
        advise_problem(to,
                       "OMP_DYNAMIC=%s lets the number of threads change, and with it the "
                       "last bits of results",
                       dynamic);
        advise_remedy(to, "unset OMP_DYNAMIC");
    }
}

static void advise_other_variables(struct adviser *to)
{
    static const char *const other[] = {"KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_SETTINGS"};
    for (int i = 0; i < 3; i++)
        if (variable(to, other[i])) {
            advise_problem(to,
                           "%s has no effect: it tunes another OpenMP library than the one "
                           "used here",
                           other[i]);
            advise_remedy(to, "unset it; use --threads, and taskset to choose processors");
        }
    static const char *const verbose[] = {"ONEDNN_VERBOSE", "DNNL_VERBOSE", "ONEDNN_JIT_DUMP",
                                          "DNNL_JIT_DUMP"};
    for (int i = 0; i < 4; i++) {
        const char *value = variable(to, verbose[i]);
        if (!value || strcmp(value, "0") == 0)
            continue;
        advise_problem(to, "%s=%s writes at every kernel", verbose[i], value);
        advise_remedy(to, "unset %s", verbose[i]);
    }
}

static void advise_memory(struct adviser *to)
{
    const struct machine *machine = to->machine;
    const size_t gibibyte = (size_t)1 << 30;
    if (strcmp(machine->huge_pages, "never") == 0) {
        advise_problem(to, "transparent huge pages are off: large buffers cost many page faults");
        advise_remedy(to, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
    }
    if (machine->memory_free < 4 * gibibyte) {
        advise_problem(to, "%.1f GiB of memory are free: large networks need small batches",
                       (double)machine->memory_free / (double)gibibyte);
        advise_remedy(to, "end other programs, raise the container's limit, or lower "
                          "--batch-size");
    }
    if (machine->numa_nodes > 1) {
        advise_problem(to, "%d memory nodes: reading the other node's memory is slower",
                       machine->numa_nodes);
        advise_remedy(to, "numactl --cpunodebind=0 --membind=0 lockstep ...");
    }
}

static void advise_clock(struct adviser *to)
{
    const struct machine *machine = to->machine;
    /* Drivers with "pstate" in their name reach full speed under this governor too. */
    if (strcmp(machine->governor, "powersave") == 0 &&
        !strstr(machine->frequency_driver, "pstate")) {
        advise_problem(to, "the clock is kept at its lowest (governor powersave)");
        advise_remedy(to, "sudo cpupower frequency-set -g performance");
    }
    if (is_busy(machine)) {
        advise_problem(to, "%.1f processes ran here over the last minute, on %d cores",
                       machine->load, machine->processor.cores);
        advise_remedy(to, waits_asleep(to)
                              ? "end other programs before measuring"
                              : "end other programs; where they must run, OMP_WAIT_POLICY=passive "
                                "keeps waiting threads from taking their cores");
    }
}

int machine_advise(const struct machine *machine, char *(*environment)(const char *name),
                   struct advice out[ADVICE_MAX])
{
    struct adviser to = {.machine = machine, .environment = environment, .out = out};
    advise_build(&to);
    advise_instructions(&to);
    advise_thread_variables(&to);
    advise_cores(&to);
    advise_memory(&to);
    advise_clock(&to);
    advise_other_variables(&to);
    return to.count;
}
