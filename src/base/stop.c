#include "base/stop.h"

#include <time.h>

#include "base/clock.h"
#include "base/error.h"

static const double glance_seconds = 0.05;

int stop_check(const atomic_int *stop, struct error *err)
{
    return stop_wanted(stop) ? error_set(err, ERROR_CANCELLED, "stopped") : 0;
}

int stop_wait(const atomic_int *stop, double seconds, struct error *err)
{
    double until = clock_seconds() + seconds;
    for (double left = seconds; left > 0 && !stop_wanted(stop); left = until - clock_seconds()) {
        double step = left < glance_seconds ? left : glance_seconds;
        struct timespec time = {.tv_nsec = (long)(step * 1e9)};
        nanosleep(&time, NULL); /* a signal may well be the one that asks */
    }
    return stop_check(stop, err);
}
