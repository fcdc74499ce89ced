#include "serve/rest_examples.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/base64.h"
#include "serve/examples.h"
#include "serve/json_scan.h"
#include "serve/rest_predict.h"
#include "wire/proto.h"

/* tf.Feature's lists: bytes, floats, integers. */
enum list_kind { LIST_NONE = 0, LIST_BYTES = 1, LIST_FLOAT = 2, LIST_INT64 = 3 };

/* One feature while its values are read. */
struct feature_list {
    struct text_view name;
    enum list_kind kind;
    struct strbuf values; /* packed, or fields of bytes */
};

static int set_kind(struct feature_list *list, enum list_kind kind, struct error *err)
{
    if (list->kind != LIST_NONE && list->kind != kind)
        return error_set(err, ERROR_FORMAT, "Unexpected element type in feature: %.*s",
                         (int)(list->name.count < 64 ? list->name.count : 64), list->name.bytes);
    list->kind = kind;
    return 0;
}

static int add_number(struct json_scan *scan, struct feature_list *list, struct error *err)
{
    struct json_number number;
    if (json_scan_number(scan, &number, err) < 0 ||
        set_kind(list, number.integer ? LIST_INT64 : LIST_FLOAT, err) < 0)
        return -1;
    if (number.integer)
        proto_put_varint(&list->values, (uint64_t)number.whole);
    else
        proto_put_float(&list->values, (float)number.value);
    return 0;
}

static int add_binary(struct json_scan *scan, struct feature_list *list, struct arena *arena,
                      struct error *err)
{
    struct text_view key, text;
    bool first;
    if (json_scan_enter(scan, &first, err) < 0 ||
        json_scan_next_key(scan, &first, arena, &key, err) < 0)
        return -1;
    if (!text_is(key, "b64") || json_scan_text(scan, arena, &text, err) < 0 ||
        json_scan_next_key(scan, &first, arena, &key, err) != 0)
        return error_set(err, ERROR_FORMAT,
                         "an object that is not {\"b64\": \"...\"} in a feature");
    char *bytes = arena_take(arena, base64_room(text.count));
    size_t count;
    if (!bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    if (!base64_decode(text.bytes, text.count, bytes, &count))
        return error_set(err, ERROR_FORMAT, "Unable to base64 decode");
    proto_add_bytes(&list->values, 1, bytes, count);
    return set_kind(list, LIST_BYTES, err);
}

static int add_value(struct json_scan *scan, struct feature_list *list, struct arena *arena,
                     struct error *err)
{
    struct text_view text;
    bool boolean;
    switch (json_scan_peek(scan)) {
    case JSON_IS_NUMBER:
        return add_number(scan, list, err);
    case JSON_IS_OBJECT:
        return add_binary(scan, list, arena, err);
    case JSON_IS_BOOL:
        if (json_scan_bool(scan, &boolean, err) < 0)
            return -1;
        proto_put_varint(&list->values, boolean);
        return set_kind(list, LIST_INT64, err);
    case JSON_IS_TEXT:
        if (json_scan_text(scan, arena, &text, err) < 0)
            return -1;
        proto_add_bytes(&list->values, 1, text.bytes, text.count);
        return set_kind(list, LIST_BYTES, err);
    default:
        return json_scan_fail(scan, err, "a feature is a number, a text or a list of them");
    }
}

static int add_values(struct json_scan *scan, struct feature_list *list, struct arena *arena,
                      struct error *err)
{
    bool first;
    int more;
    if (json_scan_peek(scan) != JSON_IS_ARRAY)
        return add_value(scan, list, arena, err);
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next(scan, &first, err)) > 0)
        if (add_value(scan, list, arena, err) < 0)
            return -1;
    return more;
}

/* Features.feature (a map) of Example.features: entry { key, Feature { LIST { value } } }. */
static void put_feature(const struct feature_list *list, struct strbuf *out)
{
    size_t entry = proto_begin(out, 1);
    proto_add_bytes(out, 1, list->name.bytes, list->name.count);
    size_t feature = proto_begin(out, 2);
    if (list->kind != LIST_NONE) {
        size_t values = proto_begin(out, list->kind);
        if (list->kind == LIST_BYTES)
            strbuf_add_bytes(out, list->values.text, list->values.length);
        else
            proto_add_bytes(out, 1, list->values.text, list->values.length);
        proto_end(out, values);
    }
    proto_end(out, feature);
    proto_end(out, entry);
}

static int put_example(struct json_scan *scan, struct feature_list *list, struct arena *arena,
                       struct strbuf *out, struct error *err)
{
    bool first;
    int more;
    if (json_scan_peek(scan) != JSON_IS_OBJECT)
        return error_set(err, ERROR_FORMAT, "Example must be JSON object");
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    strbuf_clear(out);
    size_t features = proto_begin(out, 1);
    while ((more = json_scan_next_key(scan, &first, arena, &list->name, err)) > 0) {
        list->kind = LIST_NONE;
        strbuf_clear(&list->values);
        if (add_values(scan, list, arena, err) < 0)
            return -1;
        put_feature(list, out);
    }
    proto_end(out, features);
    if (out->failed || list->values.failed)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    return more;
}

static int keep(const struct strbuf *message, struct arena *arena, struct text_view *out,
                struct error *err)
{
    char *bytes = arena_take(arena, message->length);
    if (!bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    memcpy(bytes, message->text, message->length);
    *out = (struct text_view){bytes, message->length};
    return 0;
}

static int count_examples(struct json_scan scan, int64_t *count, struct error *err)
{
    bool first;
    int more;
    *count = 0;
    if (json_scan_peek(&scan) != JSON_IS_ARRAY)
        return error_set(err, ERROR_FORMAT, "Expecting 'examples' value to be an list/array");
    if (json_scan_enter(&scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next(&scan, &first, err)) > 0)
        if (++*count > EXAMPLES_MAX || json_scan_skip(&scan, err) < 0)
            return error_set(err, ERROR_FORMAT, "more than %d examples", EXAMPLES_MAX);
    if (more == 0 && *count == 0)
        return error_set(err, ERROR_FORMAT, "'examples' value is an empty array");
    return more;
}

static int read_list(struct json_scan *scan, struct feature_list *list, struct strbuf *message,
                     struct arena *arena, struct text_view *examples, int64_t count,
                     struct error *err)
{
    bool first;
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (json_scan_next(scan, &first, err) < 0 ||
            put_example(scan, list, arena, message, err) < 0 ||
            keep(message, arena, &examples[i], err) < 0)
            return error_wrap(err, "example %" PRId64, i);
    return 0;
}

int rest_examples_read(const struct rest_body *body, struct arena *arena,
                       struct text_view **examples, int64_t *count, struct text_view *context,
                       struct error *err)
{
    struct json_scan scan;
    if (!body->examples.count)
        return error_set(err, ERROR_FORMAT, "key 'examples' is expected and was not found");
    json_scan_open(&scan, body->examples.bytes, body->examples.count);
    if (count_examples(scan, count, err) < 0)
        return -1;
    *examples = ARENA_ARRAY(arena, struct text_view, *count);
    if (!*examples)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    struct feature_list list = {0};
    struct strbuf message;
    strbuf_init(&list.values);
    strbuf_init(&message);
    *context = (struct text_view){0};
    int status = read_list(&scan, &list, &message, arena, *examples, *count, err);
    if (status == 0 && body->context.count) {
        json_scan_open(&scan, body->context.bytes, body->context.count);
        status = put_example(&scan, &list, arena, &message, err);
        if (status == 0)
            status = keep(&message, arena, context, err);
    }
    strbuf_release(&list.values);
    strbuf_release(&message);
    return status;
}

void rest_classification_write(const struct classification *result, struct strbuf *out)
{
    strbuf_add(out, "{\n    \"results\": [");
    for (int64_t row = 0; row < result->rows; row++) {
        strbuf_add(out, row ? ",\n        [" : "[");
        for (int64_t i = 0; i < result->classes; i++) {
            const struct text_view *label =
                result->labels ? &result->labels[row * result->classes + i] : NULL;
            strbuf_add(out, i ? ", [" : "[");
            rest_write_text(out, label ? label->bytes : "", label ? label->count : 0);
            strbuf_add(out, ", ");
            rest_write_float(out, result->scores ? result->scores[row * result->classes + i] : 0);
            strbuf_add(out, "]");
        }
        strbuf_add(out, "]");
    }
    strbuf_add(out, "]\n}\n");
}

void rest_regression_write(const float *values, int64_t rows, struct strbuf *out)
{
    strbuf_add(out, "{\n    \"results\": [");
    for (int64_t row = 0; row < rows; row++) {
        strbuf_add(out, row ? ", " : "");
        rest_write_float(out, values[row]);
    }
    strbuf_add(out, "]\n}\n");
}
