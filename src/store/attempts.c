#include "store/attempts.h"

#include <math.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"

static const char *const words[] = {
    [ATTEMPT_RUNNING] = "running",
    [ATTEMPT_MISSED] = "missed",
    [ATTEMPT_MET] = "met",
    [ATTEMPT_DONE] = "done",
};
enum { WORDS = sizeof words / sizeof *words };

const char *attempt_verdict_word(enum attempt_verdict verdict)
{
    return words[verdict];
}

static struct json *describe(const struct attempt *attempt, int number)
{
    struct json *json = json_object_create();
    if (!json)
        return NULL;
    json_set_integer(json, "attempt", number);
    json_set_integer(json, "first_step", attempt->first_step);
    json_set_integer(json, "last_step", attempt->last_step);
    json_set_integer(json, "goal", attempt->goal);
    json_set_integer(json, "steps", attempt->last_step - attempt->first_step);
    json_set_number(json, "seconds", attempt->seconds);
    json_set_number(json, "accuracy", attempt->accuracy);
    json_set_text(json, "verdict", words[attempt->verdict]);
    return json;
}

struct json *attempts_describe(const struct attempts *attempts)
{
    struct json *list = json_array_create();
    for (int i = 0; list && i < attempts->count; i++) {
        struct json *attempt = describe(&attempts->list[i], i + 1);
        if (!attempt) {
            json_release(list);
            return NULL;
        }
        json_append(list, attempt);
    }
    return list;
}

static bool read_verdict(const char *word, enum attempt_verdict *out)
{
    for (int i = 0; word && i < WORDS; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum attempt_verdict)i;
            return true;
        }
    return false;
}

/* Each begins where or behind the place the one before ended. */
static bool read_attempt(const struct json *json, bool last, int64_t earliest, struct attempt *out)
{
    struct attempt attempt = {
        .first_step = json_get_integer(json, "first_step", -1),
        .last_step = json_get_integer(json, "last_step", -1),
        .goal = json_get_integer(json, "goal", -1),
        .seconds = json_get_number(json, "seconds", -1),
        .accuracy = json_get_number(json, "accuracy", NAN),
    };
    if (!read_verdict(json_get_text(json, "verdict", NULL), &attempt.verdict) ||
        attempt.first_step < earliest || attempt.last_step < attempt.first_step ||
        attempt.goal < attempt.last_step || !(attempt.seconds >= 0) ||
        (attempt.verdict == ATTEMPT_RUNNING && !last))
        return false;
    *out = attempt;
    return true;
}

static int read_list(const char *name, const struct json *list, struct attempts *out,
                     struct error *err)
{
    int count = list ? json_count(list) : -1;
    if (count < 0 || count > ATTEMPTS_MOST)
        return error_set(err, ERROR_FORMAT, "%s: a list of up to %d attempts is expected", name,
                         (int)ATTEMPTS_MOST);
    for (int i = 0; i < count; i++)
        if (!read_attempt(json_at(list, i), i == count - 1, i ? out->list[i - 1].last_step : 0,
                          &out->list[i]))
            return error_set(err, ERROR_FORMAT, "%s: attempt %d makes no sense", name, i + 1);
    out->count = count;
    return 0;
}

int attempts_parse(const char *name, const char *text, size_t bytes, struct attempts *out,
                   struct error *err)
{
    struct json *json = NULL;
    struct attempts *read = memory_allocate(sizeof *read);
    if (!read)
        return error_set(err, ERROR_MEMORY, "%s: no memory to read it", name);
    int status = json_parse(text, bytes, &json, err);
    if (status < 0)
        error_wrap(err, "%s", name);
    else
        status = read_list(name, json_get(json, "attempts"), read, err);
    if (status == 0)
        *out = *read;
    json_release(json);
    memory_free(read);
    return status;
}

int attempts_load(const char *path, struct attempts *out, struct error *err)
{
    char *text = NULL;
    size_t bytes;
    out->count = 0;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(path, ATTEMPTS_MOST_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status = attempts_parse(path, text, bytes, out, err);
    memory_free(text);
    return status;
}

int attempts_save(const char *path, const struct attempts *attempts, struct error *err)
{
    struct json *json = json_object_create(), *list = attempts_describe(attempts);
    char *text = NULL;
    if (json && list) {
        json_set(json, "attempts", list);
        list = NULL;
        text = json_text(json, true);
    }
    int status = text ? file_write_atomic(path, text, strlen(text), err)
                      : error_set(err, ERROR_MEMORY, "%s: no memory to write it", path);
    memory_free(text);
    json_release(list);
    json_release(json);
    return status;
}
