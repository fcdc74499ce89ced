#include "train/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "base/error.h"

/* How far the part after the warm-up has come, 0 to 1. */
static double progress(const struct schedule *schedule, int64_t step)
{
    int64_t warm = schedule->warmup_steps;
    int64_t begin = schedule->origin > warm ? schedule->origin : warm;
    int64_t length = schedule->total_steps - begin;
    double part = length > 0 ? (double)(step - begin) / (double)length : 1;
    return part < 1 ? part : 1;
}

static double piecewise_factor(const struct schedule *schedule, int64_t step)
{
    double factor = 1;
    for (int i = 0; i < schedule->drop_count && step >= schedule->drops[i]; i++)
        factor = schedule->factors[i];
    return factor;
}

static double decayed_rate(const struct schedule *schedule, int64_t step)
{
    double base = schedule->base_rate, span = base - schedule->end_rate;
    switch (schedule->kind) {
    case SCHEDULE_CONSTANT:
        return base;
    case SCHEDULE_PIECEWISE:
        return base * piecewise_factor(schedule, step);
    case SCHEDULE_POLYNOMIAL:
        return schedule->end_rate + span * pow(1 - progress(schedule, step), schedule->power);
    case SCHEDULE_COSINE:
        return schedule->end_rate + span * (1 + cos(M_PI * progress(schedule, step))) / 2;
    }
    return base;
}

float schedule_rate(const struct schedule *schedule, int64_t step)
{
    if (step < schedule->warmup_steps)
        return (float)(schedule->base_rate * (double)step / (double)schedule->warmup_steps);
    return (float)decayed_rate(schedule, step);
}

/* --- from words ----------------------------------------------------------------------------- */

/* A finite number at *text, which is moved behind it. */
static bool take_number(const char **text, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(*text, &end);
    if (end == *text || errno || !isfinite(*out))
        return false;
    *text = end;
    return true;
}

/* "30=0.1,60=0.01": from epoch 30 on, a tenth of the base rate. */
static int parse_drops(const char *text, int64_t steps_per_epoch, struct schedule *out,
                       struct error *err)
{
    const char *at = text;
    for (;;) {
        double epoch, factor;
        if (!take_number(&at, &epoch) || *at++ != '=' || !take_number(&at, &factor) || epoch < 0 ||
            factor < 0)
            return error_set(err, ERROR_USAGE,
                             "--schedule=piecewise:%s: expected EPOCH=FACTOR,... such as "
                             "30=0.1,60=0.01",
                             text);
        int64_t step = llround(epoch * (double)steps_per_epoch);
        int last = out->drop_count - 1;
        if (last >= 0 && step < out->drops[last])
            return error_set(err, ERROR_USAGE, "--schedule=piecewise:%s: epochs must rise", text);
        if (out->drop_count == SCHEDULE_MAX_DROPS)
            return error_set(err, ERROR_USAGE, "--schedule=piecewise:%s: more than %d drops", text,
                             SCHEDULE_MAX_DROPS);
        out->drops[out->drop_count] = step;
        out->factors[out->drop_count++] = (float)factor;
        if (!*at)
            return 0;
        if (*at++ != ',')
            return error_set(err, ERROR_USAGE,
                             "--schedule=piecewise:%s: a comma goes between "
                             "two drops",
                             text);
    }
}

static int parse_power(const char *text, struct schedule *out, struct error *err)
{
    const char *at = text;
    double power;
    if (!take_number(&at, &power) || *at || power <= 0)
        return error_set(err, ERROR_USAGE,
                         "--schedule=polynomial:%s: the power must be a number "
                         "above 0",
                         text);
    out->power = (float)power;
    return 0;
}

/* "NAME" or "NAME:REST": *rest is NULL, or what stands behind the colon. */
static bool is_named(const char *text, const char *name, const char **rest)
{
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || (text[length] && text[length] != ':'))
        return false;
    *rest = text[length] ? text + length + 1 : NULL;
    return true;
}

static int parse_kind(const char *text, int64_t steps_per_epoch, struct schedule *out,
                      struct error *err)
{
    const char *rest;
    if (is_named(text, "constant", &rest) && !rest) {
        out->kind = SCHEDULE_CONSTANT;
    } else if (is_named(text, "cosine", &rest) && !rest) {
        out->kind = SCHEDULE_COSINE;
    } else if (is_named(text, "piecewise", &rest) && rest) {
        out->kind = SCHEDULE_PIECEWISE;
        return parse_drops(rest, steps_per_epoch, out, err);
    } else if (is_named(text, "polynomial", &rest)) {
        out->kind = SCHEDULE_POLYNOMIAL;
        return rest ? parse_power(rest, out, err) : 0;
    } else {
        return error_set(err, ERROR_USAGE,
                         "--schedule=%s: expected constant, cosine, polynomial[:POWER] or "
                         "piecewise:EPOCH=FACTOR,...",
                         text);
    }
    return 0;
}

int schedule_parse(const char *text, float base_rate, double warmup_epochs, int64_t steps_per_epoch,
                   int64_t total_steps, struct schedule *out, struct error *err)
{
    if (!(base_rate >= 0) || !isfinite(base_rate))
        return error_set(err, ERROR_USAGE, "--lr=%g is not a rate: it must be 0 or above",
                         (double)base_rate);
    if (!(warmup_epochs >= 0) || warmup_epochs > 1e6)
        return error_set(err, ERROR_USAGE, "--warmup-epochs=%g must be from 0 to 1000000",
                         warmup_epochs);
    struct schedule schedule = {
        .base_rate = base_rate,
        .power = 2,
        .warmup_steps = llround(warmup_epochs * (double)steps_per_epoch),
        .total_steps = total_steps,
    };
    if (parse_kind(text, steps_per_epoch, &schedule, err) < 0)
        return -1;
    *out = schedule;
    return 0;
}
