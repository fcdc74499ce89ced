/* From the words of the command line to the fields of the settings. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "cli/options.h"

const char *option_choice(const struct option *option, int index)
{
    if (option->choices)
        return option->choices[index];
    return option->choice_at ? option->choice_at(index) : NULL;
}

static int refuse(struct error *err, const char *where, const char *text, const char *why)
{
    return error_set(err, ERROR_USAGE, "%s=%s: %s", where, text, why);
}

static int check_range(const struct option *option, const char *where, const char *text,
                       double value, struct error *err)
{
    if (!(option->min < option->max) || (value >= option->min && value <= option->max))
        return 0;
    if (isinf(option->max))
        return error_set(err, ERROR_USAGE, "%s=%s: must be at least %.15g", where, text,
                         option->min);
    if (isinf(option->min))
        return error_set(err, ERROR_USAGE, "%s=%s: must be at most %.15g", where, text,
                         option->max);
    return error_set(err, ERROR_USAGE, "%s=%s: must be between %.15g and %.15g", where, text,
                     option->min, option->max);
}

static int read_flag(const char *where, const char *text, bool *out, struct error *err)
{
    static const char *const yes[] = {"true", "1", "yes", "on", "t", "y"};
    static const char *const no[] = {"false", "0", "no", "off", "f", "n"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return *out = true, 0;
        if (strcasecmp(text, no[i]) == 0)
            return *out = false, 0;
    }
    return refuse(err, where, text, "say true or false");
}

static int read_integer(const struct option *option, const char *where, const char *text,
                        int64_t low, int64_t high, int64_t *out, struct error *err)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end)
        return refuse(err, where, text, "is not a whole number");
    if (check_range(option, where, text, (double)value, err) < 0)
        return -1;
    if (errno == ERANGE || value < low || value > high)
        return refuse(err, where, text, "is out of range");
    *out = value;
    return 0;
}

static int read_number(const struct option *option, const char *where, const char *text,
                       double *out, struct error *err)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return refuse(err, where, text, "is not a number");
    if (check_range(option, where, text, value, err) < 0)
        return -1;
    *out = value;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

/* A number with a unit behind it; the unit named "" is for a number alone. */
static int read_with_unit(const struct option *option, const char *where, const char *text,
                          const struct unit *units, const char *advice, double *out,
                          struct error *err)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value < 0)
        return refuse(err, where, text, advice);
    for (; units->name; units++)
        if (strcasecmp(end, units->name) == 0) {
            value *= units->factor;
            if (check_range(option, where, text, value, err) < 0)
                return -1;
            *out = value;
            return 0;
        }
    return refuse(err, where, text, advice);
}

static int read_bytes(const struct option *option, const char *where, const char *text, size_t *out,
                      struct error *err)
{
    const double kibi = 1024.0, mebi = kibi * kibi, gibi = mebi * kibi, tebi = gibi * kibi;
    const struct unit units[] = {
        {"", 1},       {"B", 1},     {"K", kibi},   {"Ki", kibi},  {"KiB", kibi},
        {"M", mebi},   {"Mi", mebi}, {"MiB", mebi}, {"G", gibi},   {"Gi", gibi},
        {"GiB", gibi}, {"T", tebi},  {"Ti", tebi},  {"TiB", tebi}, {NULL, 0},
    };
    double value;
    if (read_with_unit(option, where, text, units, "is not a size: write 65536, 64K, 4M or 2G",
                       &value, err) < 0)
        return -1;
    if (value >= (double)(SIZE_MAX / 2))
        return refuse(err, where, text, "is out of range");
    *out = (size_t)value;
    return 0;
}

static int read_seconds(const struct option *option, const char *where, const char *text,
                        double *out, struct error *err)
{
    static const struct unit units[] = {
        {"", 1},     {"s", 1},    {"ms", 1e-3}, {"us", 1e-6}, {"m", 60},
        {"min", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0},
    };
    return read_with_unit(option, where, text, units,
                          "is not a time: write 90, 90s, 500ms, 15m or 2h", out, err);
}

static bool same_name(const char *a, const char *b)
{
    return nearest_distance(a, b) == 0; /* as elsewhere: case, - and _ do not matter */
}

static int unknown_choice(const struct option *option, const char *where, const char *text,
                          struct error *err)
{
    struct nearest nearest;
    struct strbuf names;
    nearest_start(&nearest, text);
    strbuf_init(&names);
    const char *name;
    for (int i = 0; (name = option_choice(option, i)); i++) {
        nearest_offer(&nearest, name);
        strbuf_addf(&names, "%s%s", i ? ", " : "", name);
    }
    if (nearest.best)
        error_set(err, ERROR_USAGE, "%s=%s: did you mean %s? (known: %s)", where, text,
                  nearest.best, names.text);
    else
        error_set(err, ERROR_USAGE, "%s=%s: is none of %s", where, text, names.text);
    strbuf_release(&names);
    return -1;
}

static int read_choice(const struct option *option, const char *where, const char *text,
                       const char **out, struct error *err)
{
    const char *name;
    for (int i = 0; (name = option_choice(option, i)); i++)
        if (same_name(name, text))
            return *out = name, 0;
    bool path = option->open && strpbrk(text, "./");
    if (option_choice(option, 0) && !path)
        return unknown_choice(option, where, text, err);
    *out = text;
    return 0;
}

static int add_to_list(const char *where, const char *text, struct option_list *list,
                       struct error *err)
{
    if (list->count == OPTION_LIST_MAX)
        return error_set(err, ERROR_USAGE, "%s: is given more than %d times", where,
                         OPTION_LIST_MAX);
    list->items[list->count++] = text;
    return 0;
}

/* `accepts` lists the values that ask for what this program does anyway. */
static int read_refused(const struct option *option, const char *where, const char *text,
                        struct error *err)
{
    const char *list = option->accepts, *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;)
        if (strlen(text) == length && strncasecmp(word, text, length) == 0)
            return 0;
    return option->value ? refuse(err, where, text, option->help)
                         : error_set(err, ERROR_USAGE, "%s: %s", where, option->help);
}

int option_set(const struct option *option, const char *where, const char *text, void *settings,
               struct error *err)
{
    void *field = (char *)settings + option->offset;
    int64_t integer;
    switch (option->type) {
    case OPTION_IS_FLAG:
        return read_flag(where, text, field, err);
    case OPTION_IS_INT:
        if (read_integer(option, where, text, INT_MIN, INT_MAX, &integer, err) < 0)
            return -1;
        *(int *)field = (int)integer;
        return 0;
    case OPTION_IS_LONG:
        return read_integer(option, where, text, INT64_MIN, INT64_MAX, field, err);
    case OPTION_IS_NUMBER:
        return read_number(option, where, text, field, err);
    case OPTION_IS_BYTES:
        return read_bytes(option, where, text, field, err);
    case OPTION_IS_SECONDS:
        return read_seconds(option, where, text, field, err);
    case OPTION_IS_TEXT:
    case OPTION_IS_CHOICE:
    case OPTION_IS_ARGUMENT:
        return read_choice(option, where, text, field, err);
    case OPTION_IS_LIST:
        return add_to_list(where, text, field, err);
    case OPTION_IS_REFUSED:
        return read_refused(option, where, text, err);
    case OPTION_IS_SECTION:
    case OPTION_IS_END:
        break;
    }
    return error_set(err, ERROR_USAGE, "%s: is not an option", where);
}

void option_text(const struct option *option, const void *settings, struct strbuf *out)
{
    const void *field = (const char *)settings + option->offset;
    switch (option->type) {
    case OPTION_IS_FLAG:
        strbuf_add(out, *(const bool *)field ? "true" : "false");
        break;
    case OPTION_IS_INT:
        strbuf_addf(out, "%d", *(const int *)field);
        break;
    case OPTION_IS_LONG:
        strbuf_addf(out, "%" PRId64, *(const int64_t *)field);
        break;
    case OPTION_IS_NUMBER:
    case OPTION_IS_SECONDS:
        strbuf_addf(out, "%.15g", *(const double *)field);
        break;
    case OPTION_IS_BYTES:
        strbuf_addf(out, "%zu", *(const size_t *)field);
        break;
    case OPTION_IS_TEXT:
    case OPTION_IS_CHOICE:
    case OPTION_IS_ARGUMENT:
        strbuf_add(out, *(const char *const *)field ? *(const char *const *)field : "");
        break;
    case OPTION_IS_LIST: {
        const struct option_list *list = field;
        for (int i = 0; i < list->count; i++)
            strbuf_addf(out, "%s%s", i ? " " : "", list->items[i]);
        break;
    }
    case OPTION_IS_REFUSED:
    case OPTION_IS_SECTION:
    case OPTION_IS_END:
        break;
    }
}
