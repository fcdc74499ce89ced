#include "base/json.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"

/* A `struct json` is jansson's value under a name of ours, so that its header stays in here. */
static json_t *inner(const struct json *json)
{
    return (json_t *)(uintptr_t)json;
}

static struct json *outer(json_t *value)
{
    return (struct json *)value;
}

const char *json_library_version(void)
{
    return jansson_version_str();
}

struct json *json_object_create(void)
{
    return outer(json_object());
}

struct json *json_array_create(void)
{
    return outer(json_array());
}

void json_release(struct json *json)
{
    json_decref(inner(json));
}

/* Text that is not UTF-8 cannot be written as JSON: bytes outside ASCII become '?'. */
static json_t *make_text(const char *value)
{
    if (!value)
        return json_null();
    json_t *text = json_string(value);
    if (text)
        return text;
    char *plain = memory_copy_text(value);
    if (!plain)
        return json_null();
    for (char *at = plain; *at; at++)
        if (*at & 0x80)
            *at = '?';
    text = json_string(plain);
    memory_free(plain);
    return text ? text : json_null();
}

void json_set_text(struct json *object, const char *key, const char *value)
{
    json_object_set_new(inner(object), key, make_text(value));
}

void json_set_number(struct json *object, const char *key, double value)
{
    json_object_set_new(inner(object), key, isfinite(value) ? json_real(value) : json_null());
}

void json_set_integer(struct json *object, const char *key, int64_t value)
{
    json_object_set_new(inner(object), key, json_integer(value));
}

void json_set_bool(struct json *object, const char *key, bool value)
{
    json_object_set_new(inner(object), key, json_boolean(value));
}

void json_set(struct json *object, const char *key, struct json *value)
{
    json_object_set_new(inner(object), key, inner(value));
}

void json_append(struct json *array, struct json *value)
{
    json_array_append_new(inner(array), inner(value));
}

void json_append_text(struct json *array, const char *value)
{
    json_array_append_new(inner(array), make_text(value));
}

void json_append_integer(struct json *array, int64_t value)
{
    json_array_append_new(inner(array), json_integer(value));
}

void json_append_number(struct json *array, double value)
{
    json_array_append_new(inner(array), isfinite(value) ? json_real(value) : json_null());
}

void json_append_bool(struct json *array, bool value)
{
    json_array_append_new(inner(array), json_boolean(value));
}

static int add_to_strbuf(const char *text, size_t bytes, void *buffer)
{
    strbuf_add_bytes(buffer, text, bytes);
    return 0;
}

char *json_text(const struct json *json, bool indented)
{
    struct strbuf text;
    strbuf_init(&text);
    /* 15 digits: 0.1 is written as 0.1, and every float is read back as it was. */
    size_t flags =
        JSON_REAL_PRECISION(15) | JSON_ENCODE_ANY | (indented ? JSON_INDENT(2) : JSON_COMPACT);
    int status = json_dump_callback(inner(json), add_to_strbuf, &text, flags);
    strbuf_add_char(&text, '\n');
    if (status < 0 || text.failed) {
        strbuf_release(&text);
        return NULL;
    }
    return text.text; /* never the empty initial one: it holds the newline */
}

int json_parse(const char *text, size_t bytes, struct json **out, struct error *err)
{
    json_error_t failure;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &failure);
    if (!value)
        return error_set(err, ERROR_FORMAT, "line %d, column %d: %s", failure.line, failure.column,
                         failure.text);
    *out = outer(value);
    return 0;
}

const struct json *json_get(const struct json *object, const char *key)
{
    return outer(json_object_get(inner(object), key));
}

const char *json_get_text(const struct json *object, const char *key, const char *missing)
{
    const char *text = json_string_value(inner(json_get(object, key)));
    return text ? text : missing;
}

double json_get_number(const struct json *object, const char *key, double missing)
{
    return json_as_number(json_get(object, key), missing);
}

int64_t json_get_integer(const struct json *object, const char *key, int64_t missing)
{
    return json_as_integer(json_get(object, key), missing);
}

bool json_get_bool(const struct json *object, const char *key, bool missing)
{
    const json_t *value = json_object_get(inner(object), key);
    return json_is_boolean(value) ? json_is_true(value) : missing;
}

int json_count(const struct json *array_or_object)
{
    const json_t *value = inner(array_or_object);
    size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    return count < INT_MAX ? (int)count : INT_MAX;
}

const struct json *json_at(const struct json *array, int index)
{
    return index < 0 ? NULL : outer(json_array_get(inner(array), (size_t)index));
}

int64_t json_as_integer(const struct json *json, int64_t missing)
{
    const json_t *value = inner(json);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

double json_as_number(const struct json *json, double missing)
{
    const json_t *value = inner(json);
    return json_is_number(value) ? json_number_value(value) : missing;
}

const char *json_as_text(const struct json *json, const char *missing)
{
    const json_t *value = inner(json);
    return json_is_string(value) ? json_string_value(value) : missing;
}

const struct json *json_next(const struct json *object, void **state, const char **key)
{
    json_t *value = inner(object);
    *state = *state ? json_object_iter_next(value, *state) : json_object_iter(value);
    if (!*state)
        return NULL;
    *key = json_object_iter_key(*state);
    return outer(json_object_iter_value(*state));
}

bool json_as_bool(const struct json *json, bool missing)
{
    return json && json_is_boolean(inner(json)) ? json_is_true(inner(json)) : missing;
}

enum json_type json_type_of(const struct json *json)
{
    switch (json ? json_typeof(inner(json)) : JSON_NULL) {
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_IS_BOOL;
    case JSON_INTEGER:
        return JSON_IS_INTEGER;
    case JSON_REAL:
        return JSON_IS_NUMBER;
    case JSON_STRING:
        return JSON_IS_TEXT;
    case JSON_ARRAY:
        return JSON_IS_ARRAY;
    case JSON_OBJECT:
        return JSON_IS_OBJECT;
    default:
        return JSON_IS_NULL;
    }
}
