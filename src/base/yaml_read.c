#include <errno.h>
#include <math.h>
#include <yaml.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/yaml.h"

struct level {
    struct json *container;
    bool map;
    char *key; /* of the value that comes next; owned */
};

struct reader {
    yaml_parser_t parser;
    enum yaml_reading reading;
    struct level levels[YAML_MAX_DEPTH + 1]; /* the first is the array of documents */
    int depth;
    struct error *err;
};

static int refuse(struct reader *in, const yaml_mark_t *mark, const char *why)
{
    return error_set(in->err, ERROR_FORMAT, "line %zu: %s", mark->line + 1, why);
}

static bool is_any(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(text, *words) == 0)
            return true;
    return false;
}

/* YAML 1.1's plain values, as far as Go's reader and libyaml's users agree on them. */
enum plain { PLAIN_TEXT, PLAIN_NULL, PLAIN_TRUE, PLAIN_FALSE, PLAIN_INTEGER, PLAIN_NUMBER };

static enum plain resolve_number(const char *text, int64_t *integer, double *number)
{
    char *end;
    if (!strpbrk(text, "0123456789") ||
        strspn(text, "+-.0123456789eExXabcdfABCDF_") != strlen(text))
        return PLAIN_TEXT;
    errno = 0;
    *integer = strtoll(text, &end, 0);
    if (!*end && errno == 0)
        return PLAIN_INTEGER;
    *number = strtod(text, &end);
    return !*end && isfinite(*number) ? PLAIN_NUMBER : PLAIN_TEXT;
}

static enum plain resolve(const char *text, int64_t *integer, double *number)
{
    static const char *const yes[] = {"true", "yes", "on", "y", NULL};
    static const char *const no[] = {"false", "no", "off", "n", NULL};
    static const char *const nothing[] = {"", "~", "null", NULL};
    if (is_any(text, nothing))
        return PLAIN_NULL;
    if (is_any(text, yes))
        return PLAIN_TRUE;
    if (is_any(text, no))
        return PLAIN_FALSE;
    return resolve_number(text, integer, number);
}

static void put_text(struct level *level, const char *value)
{
    if (level->map)
        json_set_text(level->container, level->key, value);
    else
        json_append_text(level->container, value);
}

static void put_plain(struct level *level, const char *text)
{
    int64_t integer = 0;
    double number = 0;
    enum plain kind = resolve(text, &integer, &number);
    bool truth = kind == PLAIN_TRUE;
    switch (kind) {
    case PLAIN_TEXT:
    case PLAIN_NULL:
        put_text(level, kind == PLAIN_NULL ? NULL : text);
        break;
    case PLAIN_TRUE:
    case PLAIN_FALSE:
        if (level->map)
            json_set_bool(level->container, level->key, truth);
        else
            json_append_bool(level->container, truth);
        break;
    case PLAIN_INTEGER:
        if (level->map)
            json_set_integer(level->container, level->key, integer);
        else
            json_append_integer(level->container, integer);
        break;
    case PLAIN_NUMBER:
        if (level->map)
            json_set_number(level->container, level->key, number);
        else
            json_append_number(level->container, number);
        break;
    }
}

/* A value was put: the next text of a map is a key again. */
static void drop_key(struct level *level)
{
    memory_free(level->key);
    level->key = NULL;
}

static int read_scalar(struct reader *in, const yaml_event_t *event)
{
    struct level *level = &in->levels[in->depth];
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length)
        return refuse(in, &event->start_mark, "a text has a zero byte in it");
    if (in->depth == 0)
        return refuse(in, &event->start_mark, "a document must be a map or a list");
    if (level->map && !level->key) {
        if (json_get(level->container, text))
            return refuse(in, &event->start_mark, "a key is there twice");
        level->key = memory_copy_text(text);
        return level->key ? 0 : error_set(in->err, ERROR_MEMORY, "no memory for a key");
    }
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag;
    if (plain && in->reading == YAML_TYPES)
        put_plain(level, text);
    else
        put_text(level, text);
    drop_key(level);
    return 0;
}

static int open_container(struct reader *in, const yaml_event_t *event, bool map)
{
    struct level *outer = &in->levels[in->depth];
    if (in->depth == YAML_MAX_DEPTH)
        return refuse(in, &event->start_mark, "is nested too deeply");
    if (outer->map && !outer->key)
        return refuse(in, &event->start_mark, "a key must be a text");
    struct json *container = map ? json_object_create() : json_array_create();
    if (!container)
        return error_set(in->err, ERROR_MEMORY, "no memory for a document");
    if (outer->map)
        json_set(outer->container, outer->key, container);
    else
        json_append(outer->container, container);
    drop_key(outer);
    in->levels[++in->depth] = (struct level){.container = container, .map = map};
    return 0;
}

static int take(struct reader *in, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(in, event);
    case YAML_MAPPING_START_EVENT:
        return open_container(in, event, true);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(in, event, false);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        in->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return refuse(in, &event->start_mark, "aliases are not read; write the value itself");
    default:
        return 0;
    }
}

static int read_events(struct reader *in)
{
    for (bool done = false; !done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&in->parser, &event))
            return error_set(in->err, ERROR_FORMAT, "line %zu: %s",
                             in->parser.problem_mark.line + 1,
                             in->parser.problem ? in->parser.problem : "is no YAML");
        done = event.type == YAML_STREAM_END_EVENT;
        int status = take(in, &event);
        yaml_event_delete(&event);
        if (status < 0)
            return -1;
    }
    return 0;
}

int yaml_read(const char *text, size_t bytes, enum yaml_reading reading, struct json **out,
              struct error *err)
{
    struct reader in = {.reading = reading, .err = err};
    in.levels[0].container = json_array_create();
    if (!in.levels[0].container || !yaml_parser_initialize(&in.parser)) {
        json_release(in.levels[0].container);
        return error_set(err, ERROR_MEMORY, "no memory for reading YAML");
    }
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, bytes);
    yaml_parser_set_encoding(&in.parser, YAML_UTF8_ENCODING);
    int status = read_events(&in);
    for (int i = 0; i <= in.depth; i++)
        memory_free(in.levels[i].key);
    yaml_parser_delete(&in.parser);
    if (status < 0)
        json_release(in.levels[0].container);
    else
        *out = in.levels[0].container;
    return status;
}
