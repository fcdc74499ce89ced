/* JSON: a writer that quotes, and a reader with limits (jansson behind both). */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct json; /* one value, owned by whoever parsed or made the outermost */

const char *json_library_version(void); /* of jansson */

struct json *json_object_create(void);
struct json *json_array_create(void);
void json_release(struct json *json); /* accepts NULL */

/* Setters copy; a value that cannot be written (NaN) becomes null. The last two take over
 * `value`. */
void json_set_text(struct json *object, const char *key, const char *value);
void json_set_number(struct json *object, const char *key, double value);
void json_set_integer(struct json *object, const char *key, int64_t value);
void json_set_bool(struct json *object, const char *key, bool value);
void json_set(struct json *object, const char *key, struct json *value);
void json_append(struct json *array, struct json *value);
void json_append_text(struct json *array, const char *value);
void json_append_integer(struct json *array, int64_t value);
void json_append_number(struct json *array, double value);
void json_append_bool(struct json *array, bool value);

/* Compact or indented text, ending in a newline; the caller frees it with memory_free. */
char *json_text(const struct json *json, bool indented);

/* Duplicate keys and anything behind the value are refused, with line and column. */
int json_parse(const char *text, size_t bytes, struct json **out, struct error *err);
/* Readers give the default when the key is missing or of another type; borrowed results. */
const struct json *json_get(const struct json *object, const char *key);
const char *json_get_text(const struct json *object, const char *key, const char *missing);
double json_get_number(const struct json *object, const char *key, double missing);
int64_t json_get_integer(const struct json *object, const char *key, int64_t missing);
bool json_get_bool(const struct json *object, const char *key, bool missing);
int json_count(const struct json *array_or_object);
const struct json *json_at(const struct json *array, int index);
int64_t json_as_integer(const struct json *json, int64_t missing);
double json_as_number(const struct json *json, double missing);
bool json_as_bool(const struct json *json, bool missing);
const char *json_as_text(const struct json *json, const char *missing);
enum json_type {
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_INTEGER,
    JSON_IS_NUMBER,
    JSON_IS_TEXT,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT
};
enum json_type json_type_of(const struct json *json); /* NULL is JSON_IS_NULL, too */
/* Walks an object's members in the order they were written; start with *state = NULL. */
const struct json *json_next(const struct json *object, void **state, const char **key);

#endif
