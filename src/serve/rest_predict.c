#include "serve/rest_predict.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/base64.h"
#include "serve/inference.h"
#include "serve/json_scan.h"

/* --- the body -------------------------------------------------------------------------------- */

static int take_value(struct json_scan *scan, struct text_view *out, struct error *err)
{
    json_scan_peek(scan);
    const char *start = scan->at;
    if (json_scan_skip(scan, err) < 0)
        return -1;
    *out = (struct text_view){start, (size_t)(scan->at - start)};
    return 0;
}

static int take_member(struct json_scan *scan, struct text_view key, struct arena *arena,
                       struct rest_body *out, struct error *err)
{
    if (text_is(key, "signature_name")) {
        if (json_scan_peek(scan) != JSON_IS_TEXT)
            return error_set(err, ERROR_FORMAT, "'signature_name' key must be a string value.");
        return json_scan_text(scan, arena, &out->signature, err);
    }
    struct text_view ignored;
    struct text_view *place = text_is(key, "instances")  ? &out->instances
                              : text_is(key, "inputs")   ? &out->inputs
                              : text_is(key, "examples") ? &out->examples
                              : text_is(key, "context")  ? &out->context
                                                         : &ignored;
    return take_value(scan, place, err);
}

int rest_body_read(const char *text, size_t bytes, struct arena *arena, struct rest_body *out,
                   struct error *err)
{
    struct json_scan scan;
    struct text_view key;
    bool first;
    int more;
    *out = (struct rest_body){0};
    json_scan_open(&scan, text, bytes);
    if (json_scan_peek(&scan) == JSON_IS_NOTHING)
        return json_scan_fail(&scan, err, bytes ? "Invalid value." : "The document is empty");
    if (json_scan_peek(&scan) != JSON_IS_OBJECT)
        return error_set(err, ERROR_FORMAT, "the body is not a JSON object");
    if (json_scan_enter(&scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next_key(&scan, &first, arena, &key, err)) > 0)
        if (take_member(&scan, key, arena, out, err) < 0)
            return -1;
    return more < 0 ? -1 : json_scan_finish(&scan, err);
}

/* --- elements -------------------------------------------------------------------------------- */

static int wrong_kind(const struct json_scan *scan, const struct signature_tensor *wanted,
                      struct error *err)
{
    return error_set(err, ERROR_FORMAT,
                     "input '%s': the JSON value at offset %zu is not of expected type: %s",
                     wanted->key, (size_t)(scan->at - scan->start), dtype_name(wanted->dtype));
}

static int read_integer(const struct json_number *number, const struct signature_tensor *wanted,
                        const struct json_scan *scan, int64_t low, int64_t high, struct error *err)
{
    if (number->integer && number->whole >= low && number->whole <= high)
        return 0;
    return wrong_kind(scan, wanted, err);
}

/* {"b64": "..."}: the only object that is an element. */
static int read_binary(struct json_scan *scan, const struct signature_tensor *wanted,
                       struct arena *arena, struct text_view *out, struct error *err)
{
    struct text_view key, text;
    bool first;
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    int more = json_scan_next_key(scan, &first, arena, &key, err);
    if (more < 0)
        return -1;
    if (more == 0 || !text_is(key, "b64") || json_scan_peek(scan) != JSON_IS_TEXT)
        return error_set(err, ERROR_FORMAT,
                         "input '%s': an object that is not {\"b64\": \"...\"} where a text should "
                         "stand",
                         wanted->key);
    if (json_scan_text(scan, arena, &text, err) < 0)
        return -1;
    char *bytes = arena_take(arena, base64_room(text.count));
    if (!bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    *out = (struct text_view){.bytes = bytes};
    if (!base64_decode(text.bytes, text.count, bytes, &out->count))
        return error_set(err, ERROR_FORMAT, "input '%s': Unable to base64 decode", wanted->key);
    more = json_scan_next_key(scan, &first, arena, &key, err);
    return more == 0 ? 0
                     : error_set(err, ERROR_FORMAT,
                                 "input '%s': a {\"b64\": \"...\"} with more than that in it",
                                 wanted->key);
}

static int read_number(struct json_scan *scan, const struct signature_tensor *wanted, void *data,
                       size_t index, struct error *err)
{
    struct json_number number;
    if (json_scan_peek(scan) != JSON_IS_NUMBER)
        return wrong_kind(scan, wanted, err);
    if (json_scan_number(scan, &number, err) < 0)
        return -1;
    switch (wanted->dtype) {
    case DTYPE_F32:
        ((float *)data)[index] = (float)number.value;
        return 0;
    case DTYPE_U8:
        ((uint8_t *)data)[index] = (uint8_t)number.whole;
        return read_integer(&number, wanted, scan, 0, UINT8_MAX, err);
    case DTYPE_I32:
        ((int32_t *)data)[index] = (int32_t)number.whole;
        return read_integer(&number, wanted, scan, INT32_MIN, INT32_MAX, err);
    case DTYPE_I64:
        ((int64_t *)data)[index] = number.whole;
        return read_integer(&number, wanted, scan, INT64_MIN, INT64_MAX, err);
    case DTYPE_STRING:
        break;
    }
    return wrong_kind(scan, wanted, err);
}

static int read_element(struct json_scan *scan, const struct signature_tensor *wanted,
                        struct arena *arena, void *data, size_t index, struct error *err)
{
    if (wanted->dtype != DTYPE_STRING)
        return read_number(scan, wanted, data, index, err);
    struct text_view *texts = data;
    enum json_kind kind = json_scan_peek(scan);
    if (kind == JSON_IS_OBJECT)
        return read_binary(scan, wanted, arena, &texts[index], err);
    if (kind != JSON_IS_TEXT)
        return wrong_kind(scan, wanted, err);
    return json_scan_text(scan, arena, &texts[index], err);
}

/* --- tensors --------------------------------------------------------------------------------- */

/* Where nested lists go. */
struct filling {
    const struct signature_tensor *wanted;
    struct arena *arena;
    const struct tensor *tensor;
    size_t index; /* of the next element */
};

static int wrong_length(const struct filling *filling, int level, int64_t count, struct error *err)
{
    char shape[96];
    return error_set(
        err, ERROR_FORMAT, "input '%s': a list of %s%" PRId64 " at level %d; the shape is %s",
        filling->wanted->key, count > filling->tensor->shape.dim[level] ? "more than " : "",
        count > filling->tensor->shape.dim[level] ? count - 1 : count, level,
        shape_text(&filling->wanted->shape, shape, sizeof shape));
}

/* Lists from `level` on; as deep as a shape. */
static int fill_level(struct json_scan *scan, struct filling *filling, int level, struct error *err)
{
    const struct shape *shape = &filling->tensor->shape;
    if (level == shape->ndim)
        return read_element(scan, filling->wanted, filling->arena, filling->tensor->data,
                            filling->index++, err);
    bool first;
    int more;
    int64_t count = 0;
    if (json_scan_peek(scan) != JSON_IS_ARRAY) {
        char text[96];
        return error_set(
            err, ERROR_FORMAT, "input '%s': a list is wanted at level %d; the shape is %s",
            filling->wanted->key, level, shape_text(&filling->wanted->shape, text, sizeof text));
    }
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next(scan, &first, err)) > 0) {
        if (++count > shape->dim[level])
            return wrong_length(filling, level, count, err);
        if (fill_level(scan, filling, level + 1, err) < 0)
            return -1;
    }
    if (more == 0 && count < shape->dim[level])
        return wrong_length(filling, level, count, err);
    return more;
}

static int count_members(struct json_scan scan, int64_t *count, struct error *err)
{
    bool first;
    int more;
    *count = 0;
    if (json_scan_enter(&scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next(&scan, &first, err)) > 0) {
        if (++*count > INFERENCE_MAX_ROWS)
            return error_set(err, ERROR_FORMAT, "more than %d rows at once", INFERENCE_MAX_ROWS);
        if (json_scan_skip(&scan, err) < 0)
            return -1;
    }
    return more;
}

/* Nobody may make us take more memory than a body's length justifies: an element takes a letter and
 * a comma at least. */
static int take_tensor(const struct signature_tensor *wanted, int64_t rows, size_t bytes,
                       struct arena *arena, struct tensor *out, struct error *err)
{
    *out = (struct tensor){.dtype = wanted->dtype, .shape = shape_with_batch(wanted->shape, rows)};
    if (shape_count(&out->shape) > (int64_t)bytes)
        return error_set(err, ERROR_FORMAT, "input '%s': too few values for %" PRId64 " rows",
                         wanted->key, rows);
    out->data = arena_take(arena, tensor_bytes(out));
    if (!out->data)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    return 0;
}

int rest_tensor_read(struct json_scan *scan, const struct signature_tensor *wanted, bool flat,
                     struct arena *arena, struct tensor *out, struct error *err)
{
    int64_t rows = 0;
    if (json_scan_peek(scan) != JSON_IS_ARRAY)
        return error_set(err, ERROR_FORMAT, "input '%s': a list of rows is wanted", wanted->key);
    if (!flat && count_members(*scan, &rows, err) < 0)
        return -1;
    if (flat)
        rows = out->shape.dim[0];
    if (take_tensor(wanted, rows, (size_t)(scan->end - scan->at), arena, out, err) < 0)
        return -1;
    struct tensor all = *out;
    if (flat)
        all.shape = SHAPE(shape_count(&out->shape));
    struct filling filling = {.wanted = wanted, .arena = arena, .tensor = &all};
    return fill_level(scan, &filling, 0, err);
}

static int find_input(const struct signature *signature, struct text_view key)
{
    for (int i = 0; i < signature->input_count; i++)
        if (text_is(key, signature->inputs[i].key))
            return i;
    return -1;
}

static int no_such_input(struct text_view key, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "JSON object: does not have named input: %.*s",
                     (int)(key.count < 64 ? key.count : 64), key.bytes);
}

static int missing_input(const struct signature *signature, const bool *found, const char *where,
                         struct error *err)
{
    for (int i = 0; i < signature->input_count; i++)
        if (!found[i])
            return error_set(err, ERROR_FORMAT, "Missing named input: %s in %s.",
                             signature->inputs[i].key, where);
    return 0;
}

/* Whether the object at `scan` is {"b64": ...} and so a value. */
static bool is_binary(struct json_scan scan, struct arena *arena)
{
    struct text_view key;
    bool first;
    return json_scan_enter(&scan, &first, NULL) == 0 &&
           json_scan_next_key(&scan, &first, arena, &key, NULL) == 1 && text_is(key, "b64");
}

/* --- by columns ------------------------------------------------------------------------------ */

static int read_columns(struct json_scan *scan, const struct signature *signature,
                        struct arena *arena, struct tensor *inputs, struct error *err)
{
    if (json_scan_peek(scan) != JSON_IS_OBJECT || is_binary(*scan, arena)) {
        if (signature->input_count != 1)
            return error_set(err, ERROR_FORMAT,
                             "inputs is a plain value/list, but expecting an object as multiple "
                             "input tensors required");
        return rest_tensor_read(scan, &signature->inputs[0], false, arena, &inputs[0], err);
    }
    struct text_view key;
    bool first;
    int more;
    bool *found = ARENA_ARRAY(arena, bool, signature->input_count + 1);
    if (!found)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next_key(scan, &first, arena, &key, err)) > 0) {
        int i = find_input(signature, key);
        if (i < 0)
            return no_such_input(key, err);
        if (rest_tensor_read(scan, &signature->inputs[i], false, arena, &inputs[i], err) < 0)
            return -1;
        found[i] = true;
    }
    return more < 0 ? -1 : missing_input(signature, found, "'inputs' object", err);
}

/* --- by rows --------------------------------------------------------------------------------- */

/* One row of one input. */
static int fill_row(struct json_scan *scan, const struct signature_tensor *wanted,
                    const struct tensor *input, int64_t row, struct arena *arena, struct error *err)
{
    struct tensor one = *input;
    size_t elements = (size_t)(shape_count(&input->shape) / input->shape.dim[0]);
    one.shape.ndim--;
    memmove(one.shape.dim, one.shape.dim + 1, sizeof *one.shape.dim * (TENSOR_MAX_DIMS - 1));
    one.data = (char *)input->data + (size_t)row * elements * dtype_bytes(input->dtype);
    struct filling filling = {.wanted = wanted, .arena = arena, .tensor = &one};
    return fill_level(scan, &filling, 0, err);
}

static int read_named_row(struct json_scan *scan, const struct signature *signature,
                          struct arena *arena, struct tensor *inputs, int64_t row, int64_t *seen,
                          struct error *err)
{
    struct text_view key;
    bool first;
    int more, count = 0;
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next_key(scan, &first, arena, &key, err)) > 0) {
        int i = find_input(signature, key);
        if (i < 0)
            return no_such_input(key, err);
        if (fill_row(scan, &signature->inputs[i], &inputs[i], row, arena, err) < 0)
            return -1;
        count += seen[i] != row + 1;
        seen[i] = row + 1;
    }
    if (more < 0 || count == signature->input_count)
        return more;
    for (int i = 0; i < signature->input_count; i++)
        if (seen[i] != row + 1)
            return error_set(err, ERROR_FORMAT, "Missing named input: %s",
                             signature->inputs[i].key);
    return 0;
}

static int read_row(struct json_scan *scan, const struct signature *signature, struct arena *arena,
                    struct tensor *inputs, int64_t row, int64_t *seen, struct error *err)
{
    bool named = json_scan_peek(scan) == JSON_IS_OBJECT && !is_binary(*scan, arena);
    if (named)
        return read_named_row(scan, signature, arena, inputs, row, seen, err);
    if (signature->input_count != 1)
        return error_set(err, ERROR_FORMAT,
                         "instances is a plain list, but expecting list of objects as multiple "
                         "input tensors required");
    return fill_row(scan, &signature->inputs[0], &inputs[0], row, arena, err);
}

static int read_rows(struct json_scan *scan, const struct signature *signature, struct arena *arena,
                     struct tensor *inputs, struct error *err)
{
    int64_t rows;
    bool first;
    if (json_scan_peek(scan) != JSON_IS_ARRAY)
        return error_set(err, ERROR_FORMAT, "Expecting 'instances' to be an list/array");
    if (count_members(*scan, &rows, err) < 0)
        return -1;
    if (rows == 0)
        return error_set(err, ERROR_FORMAT, "No values in 'instances' array");
    int64_t *seen = ARENA_ARRAY(arena, int64_t, signature->input_count + 1);
    if (!seen)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    for (int i = 0; i < signature->input_count; i++)
        if (take_tensor(&signature->inputs[i], rows, (size_t)(scan->end - scan->at), arena,
                        &inputs[i], err) < 0)
            return -1;
    if (json_scan_enter(scan, &first, err) < 0)
        return -1;
    for (int64_t row = 0; row < rows; row++)
        if (json_scan_next(scan, &first, err) < 0 ||
            read_row(scan, signature, arena, inputs, row, seen, err) < 0)
            return error_wrap(err, "Failed to process element: %" PRId64 " of 'instances' list",
                              row);
    return 0;
}

int rest_predict_read(const struct rest_body *body, const struct signature *signature,
                      struct arena *arena, struct tensor *inputs, int64_t *rows, bool *by_rows,
                      struct error *err)
{
    struct json_scan scan;
    *by_rows = body->instances.count > 0;
    if (body->instances.count && body->inputs.count)
        return error_set(err, ERROR_FORMAT,
                         "Not formatted correctly expecting only one of 'inputs' or 'instances' "
                         "keys to exist");
    if (!body->instances.count && !body->inputs.count)
        return error_set(err, ERROR_FORMAT, "Missing 'inputs' or 'instances' key");
    struct text_view value = *by_rows ? body->instances : body->inputs;
    json_scan_open(&scan, value.bytes, value.count);
    int status = *by_rows ? read_rows(&scan, signature, arena, inputs, err)
                          : read_columns(&scan, signature, arena, inputs, err);
    if (status == 0)
        *rows = signature->input_count ? inputs[0].shape.dim[0] : 0;
    return status;
}
