#include "serve/infer_message.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "serve/tensor_message.h"
#include "serve/value_list.h"

enum { /* ModelInferRequest */
       REQUEST_MODEL = 1,
       REQUEST_VERSION = 2,
       REQUEST_ID = 3,
       REQUEST_PARAMETERS = 4,
       REQUEST_INPUTS = 5,
       REQUEST_OUTPUTS = 6,
       REQUEST_RAW = 7,
};
enum { TENSOR_NAME = 1, TENSOR_DATATYPE = 2, TENSOR_SHAPE = 3, TENSOR_CONTENTS = 5 };

/* The list of InferTensorContents that a type's values stand in. */
static const struct kind {
    enum dtype dtype;
    const char *name;
    uint32_t field;
} kinds[] = {
    {DTYPE_F32, "FP32", 6},  {DTYPE_U8, "UINT8", 4},     {DTYPE_I32, "INT32", 2},
    {DTYPE_I64, "INT64", 3}, {DTYPE_STRING, "BYTES", 8},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind_of(enum dtype dtype)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].dtype == dtype)
            return &kinds[i];
    return &kinds[0];
}

const char *infer_datatype(enum dtype dtype)
{
    return kind_of(dtype)->name;
}

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the request");
}

/* ---- the request ---------------------------------------------------------------------------- */

/* A number is a version, anything else a label; "" is the newest version. */
static void take_version(const char *text, struct model_spec *spec)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    spec->has_version = *text && !*end && !errno && number >= 0;
    spec->version = spec->has_version ? number : 0;
    spec->label = *text && !spec->has_version ? text : NULL;
}

static int take_dimension(struct infer_tensor *tensor, uint64_t value, struct error *err)
{
    if (tensor->shape.ndim == TENSOR_MAX_DIMS)
        return error_set(err, ERROR_FORMAT, "it has more than %d dimensions", TENSOR_MAX_DIMS);
    tensor->shape.dim[tensor->shape.ndim++] = (int64_t)value;
    return 0;
}

static int read_shape(const struct proto_reader *reader, const struct proto_field *field,
                      struct infer_tensor *tensor, struct error *err)
{
    struct proto_reader list;
    uint64_t value;
    if (field->wire == PROTO_VARINT)
        return take_dimension(tensor, field->value, err);
    if (proto_enter(reader, field, &list, err) < 0)
        return -1;
    while (proto_take_varint(&list, &value))
        if (take_dimension(tensor, value, err) < 0)
            return -1;
    if (list.at == list.end)
        return 0;
    return error_set(err, ERROR_FORMAT, "offset %zu: a shape that is cut off", proto_offset(&list));
}

static int read_input(const struct proto_reader *outer, const struct proto_field *field,
                      struct arena *arena, struct infer_tensor *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    *out = (struct infer_tensor){.name = "", .datatype = ""};
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        int status = 0;
        if (inner.number == TENSOR_NAME)
            status = field_text(&reader, &inner, arena, &out->name, err);
        else if (inner.number == TENSOR_DATATYPE)
            status = field_text(&reader, &inner, arena, &out->datatype, err);
        else if (inner.number == TENSOR_SHAPE)
            status = read_shape(&reader, &inner, out, err);
        else if (inner.number == TENSOR_CONTENTS) {
            out->has_contents = true;
            status = proto_enter(&reader, &inner, &out->contents, err);
        }
        if (status < 0)
            return -1;
    }
    return more;
}

static int read_output(const struct proto_reader *outer, const struct proto_field *field,
                       struct arena *arena, const char **out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    *out = "";
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0)
        if (inner.number == TENSOR_NAME && field_text(&reader, &inner, arena, out, err) < 0)
            return -1;
    return more;
}

/* Of the parameters only the signature's name means something here. */
static int read_parameter(const struct proto_reader *outer, const struct proto_field *field,
                          struct arena *arena, struct model_spec *spec, struct error *err)
{
    struct message_entry entry;
    struct proto_field inner;
    int more;
    if (message_entry_read(outer, field, &entry, err) < 0)
        return -1;
    if (!text_view_is(&entry.key, "signature_name"))
        return 0;
    while ((more = proto_next(&entry.value, &inner, err)) > 0)
        if (inner.number == 3 && field_text(&entry.value, &inner, arena, &spec->signature, err) < 0)
            return -1;
    return more;
}

static int make_room(const struct proto_reader *reader, struct arena *arena,
                     struct infer_request *out, struct error *err)
{
    int inputs = message_count(*reader, REQUEST_INPUTS, INFER_MAX_TENSORS, err);
    int outputs = inputs < 0 ? -1 : message_count(*reader, REQUEST_OUTPUTS, INFER_MAX_TENSORS, err);
    int raw = outputs < 0 ? -1 : message_count(*reader, REQUEST_RAW, INFER_MAX_TENSORS, err);
    if (raw < 0)
        return -1;
    out->inputs = ARENA_ARRAY(arena, struct infer_tensor, inputs);
    out->outputs = ARENA_ARRAY(arena, const char *, outputs);
    out->raw = ARENA_ARRAY(arena, struct text_view, raw);
    return out->inputs && out->outputs && out->raw ? 0 : no_memory(err);
}

static int read_field(const struct proto_reader *reader, const struct proto_field *field,
                      struct arena *arena, struct infer_request *out, struct error *err)
{
    const char *version;
    switch (field->number) {
    case REQUEST_MODEL:
        return field_text(reader, field, arena, &out->spec.name, err);
    case REQUEST_VERSION:
        if (field_text(reader, field, arena, &version, err) < 0)
            return -1;
        take_version(version, &out->spec);
        return 0;
    case REQUEST_ID:
        return field_text(reader, field, arena, &out->id, err);
    case REQUEST_PARAMETERS:
        return read_parameter(reader, field, arena, &out->spec, err);
    case REQUEST_INPUTS:
        return read_input(reader, field, arena, &out->inputs[out->input_count++], err);
    case REQUEST_OUTPUTS:
        return read_output(reader, field, arena, &out->outputs[out->output_count++], err);
    case REQUEST_RAW:
        if (proto_expect(reader, field, PROTO_BYTES, err) < 0)
            return -1;
        out->raw[out->raw_count++] = (struct text_view){(const char *)field->bytes, field->count};
        return 0;
    default:
        return 0;
    }
}

int infer_request_read(const void *message, size_t bytes, struct arena *arena,
                       struct infer_request *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    *out = (struct infer_request){.spec = {.present = true, .name = "", .signature = ""}, .id = ""};
    proto_open(&reader, message, bytes);
    if (make_room(&reader, arena, out, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (read_field(&reader, &field, arena, out, err) < 0)
            return -1;
    return more;
}

int infer_name_read(const void *message, size_t bytes, struct arena *arena, struct model_spec *out,
                    struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    const char *version = "";
    int more;
    *out = (struct model_spec){.present = true, .name = "", .signature = ""};
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == 1 && field_text(&reader, &field, arena, &out->name, err) < 0)
            return -1;
        if (field.number == 2 && field_text(&reader, &field, arena, &version, err) < 0)
            return -1;
    }
    take_version(version, out);
    return more;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static int wrong_count(const struct value_list *list, struct error *err)
{
    return error_set(err, ERROR_FORMAT,
                     "its %s contents are not the %" PRId64 " values that its shape has",
                     infer_datatype(list->dtype), list->wanted);
}

static int read_contents(const struct infer_tensor *tensor, struct value_list *list,
                         struct error *err)
{
    struct proto_reader reader = tensor->contents;
    struct proto_field field;
    uint32_t number = kind_of(list->dtype)->field;
    bool over = false;
    int more;
    if (!tensor->has_contents)
        return error_set(err, ERROR_FORMAT, "it has no contents");
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == number && (!value_list_add(list, &reader, &field, &over) || over))
            return wrong_count(list, err);
    if (more < 0)
        return -1;
    return list->filled == list->wanted ? 0 : wrong_count(list, err);
}

/* Each text with its length in front: 4 bytes, lowest first. */
static int read_raw_texts(const struct text_view *raw, struct value_list *list, struct error *err)
{
    const char *at = raw->bytes, *end = at + raw->count;
    while (end - at >= 4) {
        const uint8_t *digits = (const uint8_t *)at;
        uint32_t count = (uint32_t)digits[0] | (uint32_t)digits[1] << 8 |
                         (uint32_t)digits[2] << 16 | (uint32_t)digits[3] << 24;
        at += 4;
        if (count > (size_t)(end - at) || !value_list_add_text(list, at, count))
            return wrong_count(list, err);
        at += count;
    }
    return at == end && list->filled == list->wanted ? 0 : wrong_count(list, err);
}

static int read_raw(const struct text_view *raw, struct value_list *list, struct error *err)
{
    size_t size = dtype_bytes(list->dtype), bytes = (size_t)list->wanted * size;
    if (list->dtype == DTYPE_STRING)
        return read_raw_texts(raw, list, err);
    if (raw->count != bytes)
        return error_set(err, ERROR_FORMAT,
                         "its raw contents have %zu bytes, but its shape and datatype need %zu",
                         raw->count, bytes);
    if (bytes > 0)
        memcpy(list->data, raw->bytes, bytes);
    return 0;
}

static int find_dtype(const char *datatype, enum dtype *out, struct error *err)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, datatype) == 0) {
            *out = kinds[i].dtype;
            return 0;
        }
    return error_set(err, ERROR_FORMAT,
                     "its datatype is '%.40s'; FP32, UINT8, INT32, INT64 and BYTES are taken",
                     datatype);
}

static int read_tensor(const struct infer_tensor *tensor, const struct text_view *raw, size_t limit,
                       struct arena *arena, struct tensor *out, struct error *err)
{
    struct value_list list = {0};
    if (find_dtype(tensor->datatype, &list.dtype, err) < 0)
        return -1;
    size_t size = dtype_bytes(list.dtype);
    if (shape_values(&tensor->shape, (int64_t)(limit / size), &list.wanted, err) < 0)
        return -1;
    list.data = arena_take(arena, (size_t)list.wanted * size);
    if (!list.data)
        return no_memory(err);
    if ((raw ? read_raw(raw, &list, err) : read_contents(tensor, &list, err)) < 0)
        return -1;
    *out = (struct tensor){.dtype = list.dtype, .shape = tensor->shape, .data = list.data};
    return 0;
}

static int find_input(const struct infer_request *request, const char *key)
{
    for (int i = 0; i < request->input_count; i++)
        if (strcmp(request->inputs[i].name, key) == 0)
            return i;
    return -1;
}

int infer_request_inputs(const struct infer_request *request, const struct signature *signature,
                         size_t limit, struct arena *arena, struct tensor **out, struct error *err)
{
    struct tensor *inputs = ARENA_ARRAY(arena, struct tensor, signature->input_count);
    if (!inputs)
        return no_memory(err);
    if (request->input_count != signature->input_count)
        return error_set(err, ERROR_FORMAT, "expected %d inputs but got %d inputs for model '%s'",
                         signature->input_count, request->input_count, request->spec.name);
    if (request->raw_count > 0 && request->raw_count != request->input_count)
        return error_set(err, ERROR_FORMAT,
                         "%d raw_input_contents for %d inputs: either all have some or none",
                         request->raw_count, request->input_count);
    for (int i = 0; i < signature->input_count; i++) {
        const char *key = signature->inputs[i].key;
        int at = find_input(request, key);
        if (at < 0)
            return error_set(err, ERROR_FORMAT, "input '%s' is missing for model '%s'", key,
                             request->spec.name);
        if (read_tensor(&request->inputs[at], request->raw_count ? &request->raw[at] : NULL, limit,
                        arena, &inputs[i], err) < 0)
            return error_wrap(err, "input '%s'", key);
        limit -= tensor_bytes(&inputs[i]);
    }
    *out = inputs;
    return 0;
}

int infer_request_outputs(const struct infer_request *request, const struct signature *signature,
                          struct arena *arena, bool **wanted, struct error *err)
{
    *wanted = NULL;
    if (request->output_count == 0)
        return 0;
    bool *chosen = ARENA_ARRAY(arena, bool, signature->output_count);
    if (!chosen)
        return no_memory(err);
    for (int i = 0; i < request->output_count; i++) {
        int at = 0;
        while (at < signature->output_count &&
               strcmp(request->outputs[i], signature->outputs[at].key) != 0)
            at++;
        if (at == signature->output_count)
            return error_set(err, ERROR_FORMAT, "unexpected inference output '%.200s' for model",
                             request->outputs[i]);
        chosen[at] = true;
    }
    *wanted = chosen;
    return 0;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void write_dimensions(uint32_t number, const struct shape *shape, struct strbuf *out)
{
    size_t list = proto_begin(out, number);
    for (int i = 0; i < shape->ndim; i++)
        proto_put_varint(out, (uint64_t)shape->dim[i]);
    proto_end(out, list);
}

static void write_raw(const struct tensor *tensor, struct strbuf *out)
{
    if (tensor->dtype != DTYPE_STRING) {
        proto_add_bytes(out, 6, tensor->data, tensor_bytes(tensor));
        return;
    }
    const struct text_view *texts = tensor->data;
    int64_t count = shape_count(&tensor->shape);
    size_t raw = proto_begin(out, 6);
    for (int64_t i = 0; i < count; i++) {
        proto_put_fixed32(out, (uint32_t)texts[i].count);
        strbuf_add_bytes(out, texts[i].bytes, texts[i].count);
    }
    proto_end(out, raw);
}

void infer_reply_write(const struct infer_request *request, const struct signature *signature,
                       int64_t version, const struct tensor *outputs, const bool *wanted,
                       struct strbuf *out)
{
    char number[24];
    bool raw = request->raw_count > 0;
    snprintf(number, sizeof number, "%" PRId64, version);
    proto_add_text(out, 1, request->spec.name);
    proto_add_text(out, 2, number);
    if (*request->id)
        proto_add_text(out, 3, request->id);
    for (int i = 0; i < signature->output_count; i++) {
        if (wanted && !wanted[i])
            continue;
        size_t tensor = proto_begin(out, 5);
        proto_add_text(out, TENSOR_NAME, signature->outputs[i].key);
        proto_add_text(out, TENSOR_DATATYPE, infer_datatype(outputs[i].dtype));
        write_dimensions(TENSOR_SHAPE, &outputs[i].shape, out);
        if (!raw) {
            size_t contents = proto_begin(out, TENSOR_CONTENTS);
            value_list_write(kind_of(outputs[i].dtype)->field, &outputs[i], out);
            proto_end(out, contents);
        }
        proto_end(out, tensor);
    }
    for (int i = 0; raw && i < signature->output_count; i++)
        if (!wanted || wanted[i])
            write_raw(&outputs[i], out);
}

static void write_tensors(uint32_t number, const struct signature_tensor *tensors, int count,
                          struct strbuf *out)
{
    for (int i = 0; i < count; i++) {
        size_t start = proto_begin(out, number);
        proto_add_text(out, TENSOR_NAME, tensors[i].key);
        proto_add_text(out, TENSOR_DATATYPE, infer_datatype(tensors[i].dtype));
        write_dimensions(TENSOR_SHAPE, &tensors[i].shape, out); /* SHAPE_BATCH is -1 there, too */
        proto_end(out, start);
    }
}

void infer_metadata_write(const char *model, int64_t version, const struct signature *signature,
                          struct strbuf *out)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, version);
    proto_add_text(out, 1, model);
    proto_add_text(out, 2, number);
    proto_add_text(out, 3, INFERENCE_PLATFORM);
    write_tensors(4, signature->inputs, signature->input_count, out);
    write_tensors(5, signature->outputs, signature->output_count, out);
}
