#include "base/clock.h"

#include <time.h>
#include <unistd.h>

#include "base/proc.h"

static double read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double clock_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clock_wall_seconds(void)
{
    return read_clock(CLOCK_REALTIME);
}

double clock_processor_seconds(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double clock_thread_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* Field 22 of /proc/self/stat: clock ticks (10 ms) from boot to the start of the process. */
double clock_since_process_start(void)
{
    char text[1024];
    if (proc_read("/proc/self/stat", text, sizeof text) < 0)
        return 0;
    const char *at = strrchr(text, ')'); /* the program's name may hold blanks */
    if (!at)
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return 0;
    double started = strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK);
    double elapsed = read_clock(CLOCK_BOOTTIME) - started;
    return elapsed > 0 ? elapsed : 0;
}
