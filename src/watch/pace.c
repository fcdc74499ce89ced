#include "watch/pace.h"

#include <math.h>
#include <stdio.h>

#include "train/trainer.h"

/* About the last twenty steps: quick enough to follow, slow enough to read. */
static const double NEW_SHARE = 0.1;

static double smooth(double old, double value, int64_t seen)
{
    double share = 1.0 / (double)(seen + 1);
    if (isnan(old) || isnan(value))
        return value;
    return old + (value - old) * (share > NEW_SHARE ? share : NEW_SHARE);
}

void pace_add(struct pace *pace, const struct train_event *event)
{
    pace->loss = smooth(pace->loss, event->loss, pace->steps);
    pace->accuracy = smooth(pace->accuracy, event->accuracy, pace->steps);
    if (pace->steps < 2)
        pace->step_seconds = event->step_seconds;
    else
        pace->step_seconds = smooth(pace->step_seconds, event->step_seconds, pace->steps - 1);
    pace->step_examples = (double)(event->examples - pace->last_examples);
    pace->last_examples = event->examples;
    pace->steps++;
}

double pace_examples_per_second(const struct pace *pace)
{
    return pace->step_seconds > 0 ? pace->step_examples / pace->step_seconds : 0;
}

double pace_seconds_left(const struct pace *pace, const struct train_event *event)
{
    if (!pace->steps)
        return NAN;
    return (double)(event->total - event->step) * pace->step_seconds;
}

const char *pace_duration_text(double seconds, char *text, size_t bytes)
{
    if (!(seconds >= 0) || seconds > 1e10) {
        snprintf(text, bytes, "?");
        return text;
    }
    long long whole = llround(seconds);
    int minutes = (int)(whole / 60 % 60), hours = (int)(whole / 3600 % 24);
    long long days = whole / 86400;
    if (days)
        snprintf(text, bytes, "%lld d %02d:%02d", days, hours, minutes);
    else if (hours)
        snprintf(text, bytes, "%d:%02d:%02d", hours, minutes, (int)(whole % 60));
    else
        snprintf(text, bytes, "%d:%02d", minutes, (int)(whole % 60));
    return text;
}

const char *pace_number_text(double value, char *text, size_t bytes)
{
    double size = fabs(value);
    if (!isfinite(value))
        snprintf(text, bytes, "?");
    else if (size != 0 && (size < 1e-4 || size >= 1e7))
        snprintf(text, bytes, "%.3g", value);
    else
        snprintf(text, bytes, "%.*f",
                 size < 1      ? 4
                 : size < 10   ? 3
                 : size < 100  ? 2
                 : size < 1000 ? 1
                               : 0,
                 value);
    return text;
}
