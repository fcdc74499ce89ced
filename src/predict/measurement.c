#include "predict/measurement.h"

#include <math.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"

enum { FORMAT = 1 };
static const double most_seconds = 1e6, most_bytes = 1e13;

/* A number of the file, while it is read. */
struct source {
    const char *where;
    const struct json *object;
    struct error *err;
};

static int refuse(const struct source *source, const char *key, const char *wanted)
{
    return error_set(source->err, ERROR_FORMAT, "%s: \"%s\" of the timeline is not %s",
                     source->where, key, wanted);
}

static int take_number(const struct source *source, const char *key, double most, double *out)
{
    *out = json_get_number(source->object, key, NAN);
    if (isfinite(*out) && *out >= 0 && *out <= most)
        return 0;
    return refuse(source, key, "a number that can be");
}

static int take_count(const struct source *source, const char *key, int *out)
{
    int64_t value = json_get_integer(source->object, key, -1);
    if (value < 1 || value > INT32_MAX / 2)
        return refuse(source, key, "a number of at least 1");
    *out = (int)value;
    return 0;
}

static int read_gradients(const struct source *source, struct arena *arena, struct step_work *out)
{
    const struct json *list = json_get(source->object, "gradients");
    int count = list ? json_count(list) : 0;
    if (count > MEASUREMENT_MAX_GRADIENTS)
        return refuse(source, "gradients", "a list of at most 100000");
    struct step_gradient *gradients = ARENA_ARRAY(arena, struct step_gradient, count + 1);
    if (!gradients)
        return error_set(source->err, ERROR_MEMORY, "no memory for %d gradients", count);
    for (int i = 0; i < count; i++) {
        struct source one = {source->where, json_at(list, i), source->err};
        if (!one.object)
            return refuse(source, "gradients", "a list of objects");
        if (take_number(&one, "bytes", most_bytes, &gradients[i].bytes) < 0 ||
            take_number(&one, "seconds", most_seconds, &gradients[i].seconds) < 0)
            return -1;
    }
    out->gradients = gradients;
    out->count = count;
    return 0;
}

static int read_timeline(const struct source *source, struct arena *arena, struct measurement *out)
{
    double input, forward, backward;
    if (json_get_integer(source->object, "format", 0) != FORMAT)
        return error_set(source->err, ERROR_FORMAT,
                         "%s: its timeline is not of format %d: measure again with this version",
                         source->where, FORMAT);
    if (take_count(source, "ranks", &out->ranks) < 0 ||
        take_count(source, "batch", &out->batch) < 0 ||
        take_count(source, "steps", &out->steps) < 0 ||
        take_number(source, "input_seconds", most_seconds, &input) < 0 ||
        take_number(source, "forward_seconds", most_seconds, &forward) < 0 ||
        take_number(source, "backward_seconds", most_seconds, &backward) < 0 ||
        take_number(source, "update_seconds", most_seconds, &out->work.update) < 0 ||
        take_number(source, "step_seconds", most_seconds, &out->step_seconds) < 0 ||
        take_number(source, "spread", most_seconds, &out->spread) < 0 ||
        take_number(source, "statistic_bytes", most_bytes, &out->work.statistic_bytes) < 0 ||
        take_number(source, "row_bytes", most_bytes, &out->work.row_bytes) < 0)
        return -1;
    out->work.compute = input + forward + backward;
    if (!(out->work.compute > 0))
        return refuse(source, "backward_seconds", "more than 0");
    return read_gradients(source, arena, &out->work);
}

int measurement_parse(const char *where, const char *text, size_t bytes, struct arena *arena,
                      struct measurement *out, struct error *err)
{
    struct json *json = NULL;
    *out = (struct measurement){0};
    if (json_parse(text, bytes, &json, err) < 0)
        return error_wrap(err, "%s", where);
    struct source source = {where, json_get(json, "timeline"), err};
    int status = source.object ? read_timeline(&source, arena, out)
                               : error_set(err, ERROR_FORMAT,
                                           "%s has no timeline: measure with `lockstep train MODEL "
                                           "--timeline --json FILE`",
                                           where);
    int64_t threads = json_get_integer(json, "threads", 0);
    out->threads = threads > 0 && threads < INT16_MAX ? (int)threads : 1;
    out->model = arena_copy_text(arena, json_get_text(json, "model", "a network"));
    json_release(json);
    if (status == 0 && !out->model)
        return error_set(err, ERROR_MEMORY, "no memory for a measurement");
    return status;
}

void measurement_speed_up(struct measurement *run, double speed)
{
    run->work.compute /= speed;
    run->work.update /= speed;
    for (int i = 0; i < run->work.count; i++)
        run->work.gradients[i].seconds /= speed;
}

int measurement_read(const char *path, struct arena *arena, struct measurement *out,
                     struct error *err)
{
    char *text;
    size_t bytes;
    if (file_read(path, MEASUREMENT_MAX_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status = measurement_parse(path, text, bytes, arena, out, err);
    memory_free(text);
    return status;
}
