#include "support/test.h"

#include "cli/machine.h"

static const char *environment[8]; /* "NAME", "value", ... */

static char *look_up(const char *name)
{
    for (int i = 0; environment[i]; i += 2)
        if (strcmp(environment[i], name) == 0)
            return (char *)(uintptr_t)environment[i + 1];
    return NULL;
}

/* A machine with nothing to complain about. */
static struct machine good_machine(void)
{
    return (struct machine){
        .processor = {.name = "Good",
                      .sockets = 1,
                      .cores = 8,
                      .hardware_threads = 16,
                      .allowed_cores = 8,
                      .allowed_threads = 16,
                      .sse41 = true,
                      .avx2 = true,
                      .fma = true},
        .threads = 8,
        .numa_nodes = 1,
        .instruction_set = "avx2",
        .memory_total = (size_t)64 << 30,
        .memory_limit = (size_t)64 << 30,
        .memory_free = (size_t)60 << 30,
        .huge_pages = "madvise",
    };
}

static int advise(const struct machine *machine, struct advice out[ADVICE_MAX])
{
    int count = machine_advise(machine, look_up, out);
    for (int i = 0; i < count; i++) {
        ASSERT_TRUE(out[i].problem[0] && out[i].remedy[0]);
        ASSERT_INT(strlen(out[i].problem), <, sizeof out[i].problem - 1);
        ASSERT_INT(strlen(out[i].remedy), <, sizeof out[i].remedy - 1);
    }
    return count;
}

/* The machine has exactly this one problem. */
static void expect(struct machine machine, const char *problem, const char *remedy)
{
    struct advice advice[ADVICE_MAX];
    int count = advise(&machine, advice);
    if (count != 1)
        FAIL("%d problems, expected only: %s", count, problem);
    ASSERT_CONTAINS(advice[0].problem, problem);
    ASSERT_CONTAINS(advice[0].remedy, remedy);
}

TEST(doctor, finds_nothing_on_a_good_machine)
{
    struct machine machine = good_machine();
    struct advice advice[ADVICE_MAX];
    ASSERT_INT(advise(&machine, advice), ==, 0);
}

TEST(doctor, names_what_the_machine_lacks)
{
    struct machine machine = good_machine();
    machine.processor.avx2 = false;
#if defined(__x86_64__)
    expect(machine, "Good has no AVX2", "processor");
#endif
    machine = good_machine();
    snprintf(machine.huge_pages, sizeof machine.huge_pages, "never");
    expect(machine, "huge pages are off", "echo madvise");
    machine = good_machine();
    machine.memory_free = (size_t)3 << 29;
    expect(machine, "1.5 GiB of memory are free", "--batch-size");
    machine = good_machine();
    machine.numa_nodes = 2;
    expect(machine, "2 memory nodes", "numactl");
    machine = good_machine();
    machine.load = 7;
    expect(machine, "7.0 processes", "OMP_WAIT_POLICY=passive");
    environment[0] = "OMP_WAIT_POLICY", environment[1] = "passive", environment[2] = NULL;
    expect(machine, "7.0 processes", "end other programs");
    environment[0] = NULL;
    machine = good_machine();
    machine.slow_build = true;
    expect(machine, "built for testing", "make");
}

TEST(doctor, sees_cores_that_may_not_be_used)
{
    struct machine machine = good_machine();
    machine.processor.quota_cores = 4;
    machine.threads = 4;
    expect(machine, "quota allows 4 of 8 cores", "CPU limit");
    machine = good_machine();
    machine.processor.allowed_cores = 2;
    machine.threads = 2;
    expect(machine, "allows 2 of 8 cores", "taskset");
    machine = good_machine();
    struct advice advice[ADVICE_MAX];
    machine.processor.quota_cores = 2.5;
    machine.threads = 2;
    ASSERT_INT(advise(&machine, advice), ==, 2);
    ASSERT_CONTAINS(advice[1].problem, "2.5 cores runs 2 threads");
}

TEST(doctor, knows_a_governor_that_slows_from_one_that_does_not)
{
    struct machine machine = good_machine();
    snprintf(machine.governor, sizeof machine.governor, "powersave");
    snprintf(machine.frequency_driver, sizeof machine.frequency_driver, "acpi-cpufreq");
    expect(machine, "governor powersave", "performance");
    snprintf(machine.frequency_driver, sizeof machine.frequency_driver, "intel_pstate");
    struct advice advice[ADVICE_MAX];
    ASSERT_INT(advise(&machine, advice), ==, 0);
}

TEST(doctor, finds_variables_that_slow_us)
{
    static const char *const cases[][3] = {
        {"OMP_NUM_THREADS", "16", "OMP_NUM_THREADS=16 is more than the 8 cores"},
        {"OMP_NUM_THREADS", "2", "leaves 6 of 8 cores idle"},
        {"OMP_THREAD_LIMIT", "4", "leaves 4 of 8 cores idle"},
        {"OMP_WAIT_POLICY", "PASSIVE", "sleep between operations"},
        {"OMP_DYNAMIC", "true", "number of threads change"},
        {"ONEDNN_MAX_CPU_ISA", "SSE41", "keeps kernels from using"},
        {"ONEDNN_VERBOSE", "1", "writes at every kernel"},
        {"KMP_AFFINITY", "compact", "has no effect"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        environment[0] = cases[i][0], environment[1] = cases[i][1];
        expect(good_machine(), cases[i][2], "unset");
    }
    static const char *const harmless[][2] = {
        {"OMP_NUM_THREADS", "8"},      {"OMP_NUM_THREADS", ""}, {"OMP_THREAD_LIMIT", "100"},
        {"ONEDNN_MAX_CPU_ISA", "ALL"}, {"ONEDNN_VERBOSE", "0"}, {"OMP_WAIT_POLICY", "active"},
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        struct machine machine = good_machine();
        struct advice advice[ADVICE_MAX];
        environment[0] = harmless[i][0], environment[1] = harmless[i][1];
        ASSERT_INT(advise(&machine, advice), ==, 0);
    }
    environment[0] = NULL;
}

TEST(doctor, survives_everything_being_wrong_at_once)
{
    static const char *const all[] = {"OMP_NUM_THREADS", "1", "OMP_DYNAMIC", "true",
                                      "KMP_AFFINITY",    "x", NULL};
    memcpy(environment, all, sizeof all);
    struct machine machine = {.processor = {.cores = 64, .allowed_cores = 32, .quota_cores = 0.5},
                              .threads = 1,
                              .numa_nodes = 8,
                              .load = 99,
                              .slow_build = true};
    memset(machine.processor.name, 'x', sizeof machine.processor.name - 1);
    struct advice advice[ADVICE_MAX];
    ASSERT_INT(advise(&machine, advice), >, 5);
    memset(environment, 0, sizeof environment);
}
