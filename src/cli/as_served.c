#include "cli/as_served.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/asked.h"
#include "cli/output.h"
#include "convert/imported.h"
#include "data/loader.h"
#include "train/feed.h"

enum { MOST_REQUEST_BYTES = 1 << 30, MOST_ROWS = 1 << 24 };

/* The answers to many batches. */
struct told {
    struct asked asked;
    struct json *columns; /* KEY: rows */
};

int as_served_check(const struct as_served_settings *settings, const struct options *parsed,
                    bool exported, struct error *err)
{
    static const char *const needing[] = {"signature", "inputs", "outputs"};
    for (size_t i = 0; !settings->wanted && i < sizeof needing / sizeof *needing; i++)
        if (options_source(parsed, needing[i]) > OPTION_FROM_TABLE)
            return error_set(err, ERROR_USAGE, "--%s would change nothing without --as-served",
                             needing[i]);
    if (settings->wanted && !exported)
        return error_set(err, ERROR_USAGE,
                         "--as-served is for exports: MODEL must be a directory that `lockstep "
                         "export` wrote");
    if (settings->wanted && options_source(parsed, "json") > OPTION_FROM_TABLE)
        return error_set(
            err, ERROR_USAGE,
            "--as-served writes answers, not scores: give --outputs instead of --json");
    return 0;
}

/* ---- opening ---- */

static int open_told(struct told *told, const struct as_served_settings *settings,
                     const struct imported *model, int batch, int threads, struct error *err)
{
    *told = (struct told){.columns = json_object_create()};
    if (!told->columns)
        return error_set(err, ERROR_MEMORY, "no memory for the answers");
    if (asked_open(&told->asked, model, settings->signature, batch, threads, err) < 0)
        return -1;
    const struct signature *signature = told->asked.signature;
    for (int i = 0; i < signature->output_count; i++)
        json_set(told->columns, signature->outputs[i].key, json_array_create());
    return 0;
}

static void close_told(struct told *told)
{
    asked_close(&told->asked);
    json_release(told->columns);
}

/* ---- answers as JSON ---- */

static void append_one(struct json *array, const struct tensor *tensor, int64_t at)
{
    switch (tensor->dtype) {
    case DTYPE_F32:
        json_append_number(array, (double)((const float *)tensor->data)[at]);
        break;
    case DTYPE_I32:
        json_append_integer(array, ((const int32_t *)tensor->data)[at]);
        break;
    case DTYPE_I64:
        json_append_integer(array, ((const int64_t *)tensor->data)[at]);
        break;
    case DTYPE_U8:
        json_append_integer(array, ((const uint8_t *)tensor->data)[at]);
        break;
    case DTYPE_STRING:
        json_append_text(array, ((const struct text_view *)tensor->data)[at].bytes);
        break;
    }
}

/* Elements from `at` on, below dimension `dim`; returns where the next ones are. */
static int64_t append_below(struct json *array, const struct tensor *tensor, int dim, int64_t at)
{
    for (int64_t i = 0; i < tensor->shape.dim[dim]; i++) {
        if (dim == tensor->shape.ndim - 1) {
            append_one(array, tensor, at++);
            continue;
        }
        struct json *inner = json_array_create();
        at = append_below(inner, tensor, dim + 1, at);
        json_append(array, inner);
    }
    return at;
}

/* Appends the reply to the last batch. */
static void tell(struct told *told)
{
    const struct signature *signature = told->asked.signature;
    for (int i = 0; i < signature->output_count; i++) {
        const struct json *column = json_get(told->columns, signature->outputs[i].key);
        append_below((struct json *)(uintptr_t)column, &told->asked.reply[i], 0, 0);
    }
}

static int write_answers(struct told *told, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the answers");
    json_set_text(json, "signature_name", told->asked.signature->name);
    json_set(json, "outputs", told->columns);
    told->columns = NULL;
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

/* ---- from data ---- */

static int bind(const struct asked *asked, const struct trainer_data *data, int *fields,
                struct error *err)
{
    for (int i = 0; i < asked->model->input_count; i++) {
        const struct imported_port *port = &asked->model->inputs[i];
        int field = feed_find_field(data, port->name);
        if (field < 0 || !shape_equal(&data->fields[field].shape, &port->shape) ||
            data->fields[field].dtype != port->dtype)
            return error_set(err, ERROR_USAGE, "the data has nothing that fits the input %s",
                             port->name);
        fields[i] = field;
    }
    return 0;
}

static int ask_all(struct told *told, const struct trainer_data *data, struct error *err)
{
    struct asked *asked = &told->asked;
    const struct batch *batch;
    int *fields = ARENA_ARRAY(asked->arena, int, asked->model->input_count + 1);
    if (!fields)
        return error_set(err, ERROR_MEMORY, "no memory for the inputs");
    if (bind(asked, data, fields, err) < 0)
        return -1;
    for (;;) {
        if (loader_next(data->loader, &batch, err) < 0)
            return -1;
        if (batch->rows == 0)
            return 0;
        for (int i = 0; i < asked->model->input_count; i++)
            memcpy(asked->inputs[i].data, batch->fields[fields[i]].data,
                   tensor_bytes(&asked->inputs[i]));
        if (asked_compute(asked, batch->rows, err) < 0)
            return -1;
        tell(told);
    }
}

int as_served_data(const struct as_served_settings *settings, const struct imported *model,
                   const struct trainer_data *data, int batch, int threads, struct error *err)
{
    struct told told;
    int status = open_told(&told, settings, model, batch, threads, err);
    if (status == 0)
        status = ask_all(&told, data, err);
    if (status == 0)
        status = write_answers(&told, settings->outputs, err);
    close_told(&told);
    return status;
}

/* ---- from a request ---- */

/* Standard base64, as {"b64": "..."} has it. */
static int decode(const char *text, struct arena *arena, struct text_view *out, struct error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text), used = 0;
    char *bytes = arena_take(arena, length + 1);
    unsigned bits = 0;
    int held = 0;
    if (!bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the inputs");
    for (const char *at = text; *at && *at != '='; at++) {
        const char *digit = strchr(digits, *at);
        if (!digit)
            return error_set(err, ERROR_FORMAT, "\"b64\" has a '%c'", *at);
        bits = bits << 6 | (unsigned)(digit - digits);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[used++] = (char)(bits >> held & 0xff);
        }
    }
    *out = (struct text_view){bytes, used};
    return 0;
}

static int take_text(const struct json *json, struct arena *arena, struct text_view *out,
                     struct error *err)
{
    const char *text = json_as_text(json, NULL), *packed = json_get_text(json, "b64", NULL);
    if (packed)
        return decode(packed, arena, out, err);
    if (!text)
        return error_set(err, ERROR_FORMAT, "expected a text, or {\"b64\": \"...\"}");
    const char *copy = arena_copy_text(arena, text);
    *out = (struct text_view){copy, strlen(text)};
    return copy ? 0 : error_set(err, ERROR_MEMORY, "no memory for the inputs");
}

static int take_below(const struct json *json, struct tensor *tensor, int dim, int64_t *at,
                      struct arena *arena, struct error *err)
{
    if (dim < tensor->shape.ndim) {
        if (json_count(json) != tensor->shape.dim[dim])
            return error_set(err, ERROR_FORMAT, "dimension %d has %d elements, expected %" PRId64,
                             dim, json_count(json), tensor->shape.dim[dim]);
        for (int i = 0; i < json_count(json); i++)
            if (take_below(json_at(json, i), tensor, dim + 1, at, arena, err) < 0)
                return -1;
        return 0;
    }
    int64_t place = (*at)++;
    if (tensor->dtype == DTYPE_STRING)
        return take_text(json, arena, (struct text_view *)tensor->data + place, err);
    double number = json_as_number(json, NAN);
    if (isnan(number))
        return error_set(err, ERROR_FORMAT, "expected a number");
    if (tensor->dtype == DTYPE_F32)
        ((float *)tensor->data)[place] = (float)number;
    else if (tensor->dtype == DTYPE_I64)
        ((int64_t *)tensor->data)[place] = (int64_t)number;
    else
        return error_set(err, ERROR_FORMAT, "inputs of %s cannot be given here",
                         dtype_name(tensor->dtype));
    return 0;
}

static int take_request(struct asked *asked, const struct json *inputs, struct tensor *out,
                        int64_t *rows, struct error *err)
{
    *rows = -1;
    for (int i = 0; i < asked->signature->input_count; i++) {
        const struct signature_tensor *input = &asked->signature->inputs[i];
        const struct json *column = json_get(inputs, input->key);
        int64_t at = 0;
        if (!column || json_count(column) < 1 || json_count(column) > MOST_ROWS ||
            (*rows >= 0 && json_count(column) != *rows))
            return error_set(err, ERROR_FORMAT, "\"inputs\" needs rows for %s, as many as others",
                             input->key);
        *rows = json_count(column);
        if (tensor_create(asked->arena, input->dtype, shape_with_batch(input->shape, *rows),
                          &out[i], err) < 0 ||
            take_below(column, &out[i], 0, &at, asked->arena, err) < 0)
            return error_wrap(err, "input %s", input->key);
    }
    return 0;
}

/* Rows [first, first + rows) of a tensor. */
static struct tensor rows_of(const struct tensor *tensor, int64_t first, int64_t rows)
{
    struct tensor part = *tensor;
    size_t row = tensor->shape.dim[0] ? tensor_bytes(tensor) / (size_t)tensor->shape.dim[0] : 0;
    part.shape.dim[0] = rows;
    part.data = (char *)tensor->data + (size_t)first * row;
    return part;
}

static int ask_rows(struct told *told, const struct tensor *request, int64_t rows,
                    struct error *err)
{
    struct asked *asked = &told->asked;
    int count = asked->signature->input_count;
    struct tensor *parts = ARENA_ARRAY(asked->arena, struct tensor, count + 1);
    if (!parts)
        return error_set(err, ERROR_MEMORY, "no memory for the inputs");
    for (int64_t first = 0; first < rows; first += asked->batch) {
        int64_t some = rows - first < asked->batch ? rows - first : asked->batch;
        for (int i = 0; i < count; i++)
            parts[i] = rows_of(&request[i], first, some);
        if (asked_answer(asked, parts, some, err) < 0)
            return -1;
        tell(told);
    }
    return 0;
}

static int ask_file(struct told *told, const char *path, struct error *err)
{
    struct asked *asked = &told->asked;
    char *text;
    size_t bytes;
    struct json *json;
    int64_t rows = 0;
    if (file_read(path, MOST_REQUEST_BYTES, &text, &bytes, err) < 0)
        return -1;
    int status = json_parse(text, bytes, &json, err);
    memory_free(text);
    if (status < 0)
        return error_wrap(err, "%s", path);
    struct tensor *request =
        ARENA_ARRAY(asked->arena, struct tensor, asked->signature->input_count + 1);
    status = request ? take_request(asked, json_get(json, "inputs"), request, &rows, err)
                     : error_set(err, ERROR_MEMORY, "no memory for the inputs");
    json_release(json);
    if (status == 0)
        status = ask_rows(told, request, rows, err);
    return status < 0 ? error_wrap(err, "%s", path) : 0;
}

int as_served_answer(const struct as_served_settings *settings, const struct imported *model,
                     int batch, int threads, struct error *err)
{
    struct told told;
    int status = open_told(&told, settings, model, batch, threads, err);
    if (status == 0)
        status = ask_file(&told, settings->inputs, err);
    if (status == 0)
        status = write_answers(&told, settings->outputs, err);
    close_told(&told);
    return status;
}
