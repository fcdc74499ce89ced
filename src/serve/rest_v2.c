#include "serve/rest_v2.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "serve/json_scan.h"
#include "serve/rest_predict.h"

struct reading {
    const struct signature *signature;
    struct arena *arena;
    struct error *err;
    const char *binary, *end; /* what is left behind the JSON */
    struct rest_v2_request *out;
    bool *found; /* of the inputs */
    bool outputs_named, all_binary;
};

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the request");
}

static int find(const struct signature_tensor *tensors, int count, struct text_view name)
{
    for (int i = 0; i < count; i++)
        if (text_is(name, tensors[i].key))
            return i;
    return -1;
}

/* --- parameters ------------------------------------------------------------------------------ */

/* The one number or yes-or-no of this name in an object of parameters; others have no meaning here
 * and may stand there. */
static int take_parameter(struct reading *in, struct json_scan *scan, const char *name,
                          int64_t *out)
{
    struct text_view key;
    bool first, boolean;
    int more;
    if (json_scan_enter(scan, &first, in->err) < 0)
        return -1;
    while ((more = json_scan_next_key(scan, &first, in->arena, &key, in->err)) > 0) {
        struct json_number number;
        enum json_kind kind = json_scan_peek(scan);
        if (!text_is(key, name)) {
            if (json_scan_skip(scan, in->err) < 0)
                return -1;
        } else if (kind == JSON_IS_BOOL) {
            if (json_scan_bool(scan, &boolean, in->err) < 0)
                return -1;
            *out = boolean;
        } else {
            if (json_scan_number(scan, &number, in->err) < 0)
                return -1;
            if (!number.integer || number.whole < 0)
                return error_set(in->err, ERROR_FORMAT, "parameter '%s' is no size", name);
            *out = number.whole;
        }
    }
    return more;
}

/* --- inputs ---------------------------------------------------------------------------------- */

/* What one member of "inputs" says, found without reading its data. */
struct input_text {
    struct text_view name, type;
    struct shape shape;
    bool has_shape, has_data;
    struct json_scan data;
    int64_t binary_bytes; /* -1: none */
};

static int take_shape(struct reading *in, struct json_scan *scan, struct input_text *input)
{
    bool first;
    int more;
    if (json_scan_enter(scan, &first, in->err) < 0)
        return -1;
    input->shape.ndim = 0;
    while ((more = json_scan_next(scan, &first, in->err)) > 0) {
        struct json_number number;
        if (json_scan_number(scan, &number, in->err) < 0)
            return -1;
        if (!number.integer || number.whole < 0 || number.whole > INT32_MAX ||
            input->shape.ndim == TENSOR_MAX_DIMS)
            return error_set(in->err, ERROR_FORMAT, "a shape that cannot be");
        input->shape.dim[input->shape.ndim++] = number.whole;
    }
    input->has_shape = true;
    return more;
}

static int take_input_text(struct reading *in, struct json_scan *scan, struct input_text *input)
{
    struct text_view key;
    bool first;
    int more;
    *input = (struct input_text){.binary_bytes = -1};
    if (json_scan_enter(scan, &first, in->err) < 0)
        return -1;
    while ((more = json_scan_next_key(scan, &first, in->arena, &key, in->err)) > 0) {
        int status;
        if (text_is(key, "name")) {
            status = json_scan_text(scan, in->arena, &input->name, in->err);
        } else if (text_is(key, "datatype")) {
            status = json_scan_text(scan, in->arena, &input->type, in->err);
        } else if (text_is(key, "shape")) {
            status = take_shape(in, scan, input);
        } else if (text_is(key, "parameters")) {
            status = take_parameter(in, scan, "binary_data_size", &input->binary_bytes);
        } else {
            if (text_is(key, "data")) {
                input->has_data = true;
                json_scan_peek(scan);
                input->data = *scan;
            }
            status = json_scan_skip(scan, in->err);
        }
        if (status < 0)
            return -1;
    }
    return more;
}

static int check_input(struct reading *in, const struct signature_tensor *wanted,
                       const struct input_text *input)
{
    char have[96], want[96];
    if (!text_is(input->type, rest_v2_type(wanted->dtype)))
        return error_set(in->err, ERROR_FORMAT, "input '%s' has the datatype %.*s; %s is wanted",
                         wanted->key, (int)(input->type.count < 32 ? input->type.count : 32),
                         input->type.bytes, rest_v2_type(wanted->dtype));
    int64_t rows = input->has_shape && input->shape.ndim ? input->shape.dim[0] : 0;
    struct shape shape = shape_with_batch(wanted->shape, rows);
    if (rows < 1 || rows > INFERENCE_MAX_ROWS || !shape_equal(&shape, &input->shape))
        return error_set(in->err, ERROR_FORMAT, "input '%s' has the shape %s; %s is wanted",
                         wanted->key, shape_text(&input->shape, have, sizeof have),
                         shape_text(&wanted->shape, want, sizeof want));
    return 0;
}

/* Elements of BYTES: a length of four bytes, little-endian, before each. */
static int split_texts(struct reading *in, const char *at, const char *end, struct tensor *out)
{
    int64_t count = shape_count(&out->shape);
    if (count > (end - at) / 4)
        return error_set(in->err, ERROR_FORMAT, "fewer texts than the shape says");
    struct text_view *texts = ARENA_ARRAY(in->arena, struct text_view, count);
    if (!texts)
        return no_memory(in->err);
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *size = (const unsigned char *)at;
        if (end - at < 4)
            return error_set(in->err, ERROR_FORMAT, "fewer texts than the shape says");
        size_t bytes =
            size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
        at += 4;
        if (bytes > (size_t)(end - at))
            return error_set(in->err, ERROR_FORMAT, "a text that is longer than its tensor");
        texts[i] = (struct text_view){at, bytes};
        at += bytes;
    }
    out->data = texts;
    return at == end ? 0 : error_set(in->err, ERROR_FORMAT, "more texts than the shape says");
}

static int take_binary(struct reading *in, const struct signature_tensor *wanted, int64_t bytes,
                       struct tensor *out)
{
    if (bytes > in->end - in->binary)
        return error_set(in->err, ERROR_FORMAT,
                         "input '%s': binary_data_size %" PRId64 " is more than the body has",
                         wanted->key, bytes);
    const char *start = in->binary;
    in->binary += bytes;
    if (wanted->dtype == DTYPE_STRING)
        return split_texts(in, start, in->binary, out);
    if ((int64_t)tensor_bytes(out) != bytes)
        return error_set(in->err, ERROR_FORMAT,
                         "input '%s': %" PRId64 " bytes; the shape needs %zu", wanted->key, bytes,
                         tensor_bytes(out));
    out->data = arena_take(in->arena, (size_t)bytes); /* aligned, which the body is not */
    if (!out->data)
        return no_memory(in->err);
    memcpy(out->data, start, (size_t)bytes);
    return 0;
}

/* A list of all elements, or lists in lists. */
static int take_data(struct reading *in, const struct signature_tensor *wanted,
                     struct input_text *input, struct tensor *out)
{
    struct json_scan inside = input->data;
    bool first;
    if (json_scan_peek(&inside) != JSON_IS_ARRAY || json_scan_enter(&inside, &first, in->err) < 0)
        return error_set(in->err, ERROR_FORMAT, "input '%s': data is no list", wanted->key);
    bool flat = json_scan_peek(&inside) != JSON_IS_ARRAY;
    return rest_tensor_read(&input->data, wanted, flat, in->arena, out, in->err);
}

static int take_input(struct reading *in, struct json_scan *scan)
{
    struct input_text input;
    if (take_input_text(in, scan, &input) < 0)
        return -1;
    int i = find(in->signature->inputs, in->signature->input_count, input.name);
    if (i < 0)
        return error_set(in->err, ERROR_FORMAT, "there is no input '%.*s'",
                         (int)(input.name.count < 64 ? input.name.count : 64), input.name.bytes);
    const struct signature_tensor *wanted = &in->signature->inputs[i];
    if (check_input(in, wanted, &input) < 0)
        return -1;
    struct tensor *out = &in->out->inputs[i];
    *out = (struct tensor){.dtype = wanted->dtype, .shape = input.shape};
    if (input.binary_bytes < 0 && !input.has_data)
        return error_set(in->err, ERROR_FORMAT, "input '%s' has no data", wanted->key);
    in->found[i] = true;
    return input.binary_bytes >= 0 ? take_binary(in, wanted, input.binary_bytes, out)
                                   : take_data(in, wanted, &input, out);
}

/* --- outputs --------------------------------------------------------------------------------- */

static int take_output(struct reading *in, struct json_scan *scan)
{
    struct text_view key, name = {0};
    bool first;
    int more;
    int64_t binary = 0;
    if (json_scan_enter(scan, &first, in->err) < 0)
        return -1;
    while ((more = json_scan_next_key(scan, &first, in->arena, &key, in->err)) > 0) {
        int status = text_is(key, "name")         ? json_scan_text(scan, in->arena, &name, in->err)
                     : text_is(key, "parameters") ? take_parameter(in, scan, "binary_data", &binary)
                                                  : json_scan_skip(scan, in->err);
        if (status < 0)
            return -1;
    }
    if (more < 0)
        return -1;
    int i = find(in->signature->outputs, in->signature->output_count, name);
    if (i < 0 || in->out->output_count == REST_V2_MAX_OUTPUTS)
        return error_set(in->err, ERROR_FORMAT, "there is no output '%.*s'",
                         (int)(name.count < 64 ? name.count : 64), name.bytes ? name.bytes : "");
    in->out->outputs[in->out->output_count] = i;
    in->out->binary[in->out->output_count++] = binary != 0;
    return 0;
}

static int take_list(struct reading *in, struct json_scan *scan,
                     int (*take)(struct reading *in, struct json_scan *scan))
{
    bool first;
    int more;
    if (json_scan_peek(scan) != JSON_IS_ARRAY)
        return json_scan_fail(scan, in->err, "a list is wanted");
    if (json_scan_enter(scan, &first, in->err) < 0)
        return -1;
    while ((more = json_scan_next(scan, &first, in->err)) > 0)
        if (take(in, scan) < 0)
            return -1;
    return more;
}

static int take_member(struct reading *in, struct json_scan *scan, struct text_view key)
{
    if (text_is(key, "id"))
        return json_scan_text(scan, in->arena, &in->out->id, in->err);
    if (text_is(key, "inputs"))
        return take_list(in, scan, take_input);
    if (text_is(key, "outputs")) {
        in->outputs_named = true;
        return take_list(in, scan, take_output);
    }
    if (!text_is(key, "parameters"))
        return json_scan_skip(scan, in->err);
    int64_t binary = 0;
    int status = take_parameter(in, scan, "binary_data_output", &binary);
    in->all_binary = binary != 0;
    return status;
}

/* Nobody said which outputs: all. */
static void choose_outputs(struct reading *in)
{
    struct rest_v2_request *out = in->out;
    if (!in->outputs_named || out->output_count == 0)
        for (out->output_count = 0; out->output_count < in->signature->output_count &&
                                    out->output_count < REST_V2_MAX_OUTPUTS;
             out->output_count++)
            out->outputs[out->output_count] = out->output_count;
    for (int i = 0; i < out->output_count && !in->outputs_named; i++)
        out->binary[i] = in->all_binary;
}

static int check_complete(struct reading *in)
{
    for (int i = 0; i < in->signature->input_count; i++)
        if (!in->found[i])
            return error_set(in->err, ERROR_FORMAT, "input '%s' is missing",
                             in->signature->inputs[i].key);
    in->out->rows = in->signature->input_count ? in->out->inputs[0].shape.dim[0] : 0;
    return 0;
}

int rest_v2_read(const char *body, size_t bytes, size_t json_bytes,
                 const struct signature *signature, struct arena *arena,
                 struct rest_v2_request *out, struct error *err)
{
    struct reading in = {.signature = signature, .arena = arena, .err = err, .out = out};
    struct json_scan scan;
    struct text_view key;
    bool first;
    int more;
    *out = (struct rest_v2_request){0};
    if (json_bytes > bytes)
        return error_set(err, ERROR_FORMAT,
                         "Inference-Header-Content-Length is more than the body has");
    in.binary = body + json_bytes;
    in.end = body + bytes;
    out->inputs = ARENA_ARRAY(arena, struct tensor, signature->input_count + 1);
    in.found = ARENA_ARRAY(arena, bool, signature->input_count + 1);
    if (!out->inputs || !in.found)
        return no_memory(err);
    json_scan_open(&scan, body, json_bytes);
    if (json_scan_peek(&scan) != JSON_IS_OBJECT)
        return error_set(err, ERROR_FORMAT, "the body is not a JSON object");
    if (json_scan_enter(&scan, &first, err) < 0)
        return -1;
    while ((more = json_scan_next_key(&scan, &first, arena, &key, err)) > 0)
        if (take_member(&in, &scan, key) < 0)
            return -1;
    if (more < 0 || json_scan_finish(&scan, err) < 0)
        return -1;
    choose_outputs(&in);
    return check_complete(&in);
}

/* --- the answer ------------------------------------------------------------------------------ */

static size_t binary_bytes(const struct tensor *tensor)
{
    if (tensor->dtype != DTYPE_STRING)
        return tensor_bytes(tensor);
    const struct text_view *texts = tensor->data;
    size_t bytes = 0;
    for (int64_t i = 0; i < shape_count(&tensor->shape); i++)
        bytes += 4 + texts[i].count;
    return bytes;
}

static void add_binary(struct strbuf *out, const struct tensor *tensor)
{
    if (tensor->dtype != DTYPE_STRING) {
        strbuf_add_bytes(out, tensor->data, tensor_bytes(tensor));
        return;
    }
    const struct text_view *texts = tensor->data;
    for (int64_t i = 0; i < shape_count(&tensor->shape); i++) {
        size_t count = texts[i].count;
        unsigned char size[4] = {(unsigned char)count, (unsigned char)(count >> 8),
                                 (unsigned char)(count >> 16), (unsigned char)(count >> 24)};
        strbuf_add_bytes(out, size, 4);
        strbuf_add_bytes(out, texts[i].bytes, count);
    }
}

static void write_output(struct strbuf *out, const struct signature_tensor *about,
                         const struct tensor *tensor, bool binary)
{
    strbuf_add(out, "{\"name\": ");
    rest_write_text(out, about->key, strlen(about->key));
    strbuf_addf(out, ", \"datatype\": \"%s\", \"shape\": [", rest_v2_type(tensor->dtype));
    for (int i = 0; i < tensor->shape.ndim; i++)
        strbuf_addf(out, "%s%" PRId64, i ? ", " : "", tensor->shape.dim[i]);
    if (binary) {
        strbuf_addf(out, "], \"parameters\": {\"binary_data_size\": %zu}}", binary_bytes(tensor));
        return;
    }
    strbuf_add(out, "], \"data\": ");
    rest_write_flat(out, tensor);
    strbuf_add(out, "}");
}

size_t rest_v2_write(const char *model, int64_t version, const struct signature *signature,
                     const struct rest_v2_request *request, const struct tensor *outputs,
                     struct strbuf *out)
{
    strbuf_add(out, "{\"model_name\": ");
    rest_write_text(out, model, strlen(model));
    strbuf_addf(out, ", \"model_version\": \"%" PRId64 "\"", version);
    if (request->id.count) {
        strbuf_add(out, ", \"id\": ");
        rest_write_text(out, request->id.bytes, request->id.count);
    }
    strbuf_add(out, ", \"outputs\": [");
    for (int i = 0; i < request->output_count; i++) {
        strbuf_add(out, i ? ", " : "");
        int output = request->outputs[i];
        write_output(out, &signature->outputs[output], &outputs[output], request->binary[i]);
    }
    strbuf_add(out, "]}");
    size_t json_bytes = out->length;
    for (int i = 0; i < request->output_count; i++)
        if (request->binary[i])
            add_binary(out, &outputs[request->outputs[i]]);
    return json_bytes;
}
