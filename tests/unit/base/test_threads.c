#include "support/test.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"

TEST(threads, are_at_least_one_and_at_most_the_machines_cores)
{
    struct processor processor;
    processor_describe(&processor);
    ASSERT_INT(threads_available(), >=, 1);
    ASSERT_INT(threads_available(), <=, processor.allowed_cores);
    ASSERT_INT(processor.allowed_cores, <=, processor.cores);
    ASSERT_INT(processor.allowed_cores, <=, processor.allowed_threads);
    ASSERT_INT(processor.cores, <=, processor.hardware_threads);
    ASSERT_INT(processor.sockets, <=, processor.cores);
    ASSERT_INT(processor.sockets, >=, 1);
    ASSERT_TRUE(processor.name[0] != '\0');
}

TEST(threads, follow_the_affinity_mask)
{
    cpu_set_t all, one;
    ASSERT_INT(sched_getaffinity(0, sizeof all, &all), ==, 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    ASSERT_INT(sched_setaffinity(0, sizeof one, &one), ==, 0);
    int threads = threads_available();
    ASSERT_INT(sched_setaffinity(0, sizeof all, &all), ==, 0);
    ASSERT_INT(threads, ==, 1);
}

static void *step_back_twice(void *context)
{
    int *seen = context;
    for (int i = 0; i < 3; i++) {
        seen[i] = getpriority(PRIO_PROCESS, 0);
        thread_step_back(3);
    }
    return NULL;
}

TEST(threads, that_step_back_are_nicer_than_they_were_and_others_not)
{
    enum { NICEST = 19 };
    int before = getpriority(PRIO_PROCESS, 0), seen[3];
    pthread_t thread;
    ASSERT_INT(thread_start(&thread, step_back_twice, seen), ==, 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++)
        ASSERT_INT(seen[i], ==, before + 3 * i < NICEST ? before + 3 * i : NICEST);
    ASSERT_INT(getpriority(PRIO_PROCESS, 0), ==, before);
}

/* Nanoseconds of the calling thread's turns, which the kernel has behind size, policy, flags, niceness and
 * priority; 0: it does not tell. */
static uint64_t turn_nanoseconds(void)
{
    uint64_t words[6] = {0};
    return syscall(SYS_sched_getattr, 0, words, sizeof words, 0) == 0 ? words[3] : 0;
}

struct turns_seen {
    uint64_t nanoseconds;
    int niceness, policy;
};

static void *take_short_turns(void *context)
{
    struct turns_seen *seen = context;
    thread_step_back(2);
    thread_take_short_turns();
    *seen = (struct turns_seen){turn_nanoseconds(), getpriority(PRIO_PROCESS, 0),
                                sched_getscheduler(0)};
    return NULL;
}

TEST(threads, that_take_short_turns_keep_their_niceness_and_others_their_turns)
{
    int niceness = getpriority(PRIO_PROCESS, 0), policy = sched_getscheduler(0);
    uint64_t before = turn_nanoseconds();
    struct turns_seen seen;
    pthread_t thread;
    ASSERT_INT(thread_start(&thread, take_short_turns, &seen), ==, 0);
    pthread_join(thread, NULL);
    ASSERT_INT(seen.niceness, ==, niceness + 2 < 19 ? niceness + 2 : 19);
    ASSERT_INT(seen.policy, ==, policy);
    ASSERT_INT(turn_nanoseconds(), ==, before);
    if (before == 0 || policy != SCHED_OTHER) /* a kernel before 6.12, or idle priority: as it was */
        ASSERT_INT(seen.nanoseconds, ==, before);
    else
        ASSERT_INT(seen.nanoseconds, ==, 100000);
}

TEST(clock, goes_forward_and_knows_when_the_process_started)
{
    double first = clock_seconds(), age = clock_since_process_start();
    while (clock_seconds() < first + 0.03)
        ;
    double second = clock_since_process_start();
    ASSERT_NUMBER(second - age, >=, 0.02);
    ASSERT_NUMBER(age, >=, 0);
    ASSERT_NUMBER(age, <, 290); /* the test's own time limit */
    ASSERT_NUMBER(clock_wall_seconds(), >, 1.7e9);
}
