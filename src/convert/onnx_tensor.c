/* TensorProto: eight ways to write numbers, of which a file uses one per tensor. */
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/onnx_file.h"
#include "wire/proto.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is read as it lies");

/* Numbers of the fields, from onnx.proto. */
enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_FLOATS = 4,
    TENSOR_INT32S = 5,
    TENSOR_INT64S = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLES = 10,
    TENSOR_UINT64S = 11,
    TENSOR_LOCATION = 14,
};

enum { MOST_ELEMENTS = INT32_MAX };

char *onnx_take_text(const struct proto_field *field, struct arena *arena)
{
    char *text = arena_take(arena, field->count + 1);
    if (text && field->count)
        memcpy(text, field->bytes, field->count);
    return text;
}

int onnx_take_integers(const struct proto_reader *reader, const struct proto_field *field,
                       int64_t *out, int64_t *count, int64_t limit, struct error *err)
{
    struct proto_reader packed;
    uint64_t value = field->value;
    if (field->wire != PROTO_BYTES) {
        if (proto_expect(reader, field, PROTO_VARINT, err) < 0)
            return -1;
        if (*count < limit && out)
            out[*count] = (int64_t)value;
        ++*count;
        return 0;
    }
    proto_open(&packed, field->bytes, field->count);
    while (proto_take_varint(&packed, &value)) {
        if (*count < limit && out)
            out[*count] = (int64_t)value;
        ++*count;
    }
    return packed.at == packed.end
               ? 0
               : error_set(err, ERROR_FORMAT, "a list of integers that is cut off");
}

int onnx_take_floats(const struct proto_reader *reader, const struct proto_field *field, float *out,
                     int64_t *count, int64_t limit, struct error *err)
{
    struct proto_reader packed;
    uint32_t bits = (uint32_t)field->value;
    if (field->wire != PROTO_BYTES) {
        if (proto_expect(reader, field, PROTO_FIXED32, err) < 0)
            return -1;
        if (*count < limit && out)
            out[*count] = proto_float(bits);
        ++*count;
        return 0;
    }
    proto_open(&packed, field->bytes, field->count);
    while (proto_take_fixed32(&packed, &bits)) {
        if (*count < limit && out)
            out[*count] = proto_float(bits);
        ++*count;
    }
    return packed.at == packed.end
               ? 0
               : error_set(err, ERROR_FORMAT, "a list of numbers that is cut off");
}

static int take_doubles(const struct proto_field *field, float *out, int64_t *count, int64_t limit,
                        struct error *err)
{
    struct proto_reader packed;
    uint64_t bits;
    if (field->wire == PROTO_FIXED64) {
        if (*count < limit)
            out[*count] = (float)proto_double(field->value);
        ++*count;
        return 0;
    }
    proto_open(&packed, field->bytes, field->count);
    while (proto_take_fixed64(&packed, &bits)) {
        if (*count < limit)
            out[*count] = (float)proto_double(bits);
        ++*count;
    }
    return packed.at == packed.end
               ? 0
               : error_set(err, ERROR_FORMAT, "a list of numbers that is cut off");
}

/* --- Types --- */

static bool is_floating(enum onnx_type type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 ||
           type == ONNX_BFLOAT16;
}

/* Of one element in raw_data; 0: a type that is not read. */
static size_t raw_bytes(enum onnx_type type)
{
    switch (type) {
    case ONNX_UINT8:
    case ONNX_INT8:
    case ONNX_BOOL:
        return 1;
    case ONNX_UINT16:
    case ONNX_INT16:
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
        return 2;
    case ONNX_FLOAT:
    case ONNX_INT32:
    case ONNX_UINT32:
        return 4;
    case ONNX_INT64:
    case ONNX_UINT64:
    case ONNX_DOUBLE:
        return 8;
    }
    return 0;
}

/* IEEE half precision: 1 sign, 5 exponent, 10 fraction bits. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 1023;
    if (exponent == 31)
        return proto_float(sign | 0x7f800000 | fraction << 13);
    if (exponent)
        return proto_float(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f; /* subnormal */
    return sign ? -small : small;
}

static float narrow_float(enum onnx_type type, uint16_t bits)
{
    return type == ONNX_FLOAT16 ? half_to_float(bits) : proto_float((uint32_t)bits << 16);
}

static uint64_t take_bytes(const uint8_t *at, size_t count)
{
    uint64_t value = 0;
    memcpy(&value, at, count);
    return value;
}

static float raw_float(enum onnx_type type, const uint8_t *at)
{
    if (type == ONNX_FLOAT)
        return proto_float((uint32_t)take_bytes(at, 4));
    if (type == ONNX_DOUBLE)
        return (float)proto_double(take_bytes(at, 8));
    return narrow_float(type, (uint16_t)take_bytes(at, 2));
}

static int64_t raw_integer(enum onnx_type type, const uint8_t *at)
{
    uint64_t value = take_bytes(at, raw_bytes(type));
    switch (type) {
    case ONNX_INT8:
        return (int8_t)value;
    case ONNX_INT16:
        return (int16_t)value;
    case ONNX_INT32:
        return (int32_t)value;
    default:
        return (int64_t)value;
    }
}

/* --- Reading --- */

struct raw {
    const uint8_t *bytes;
    size_t count;
    bool given;
};

/* Everything but the numbers. */
static int read_header(struct proto_reader reader, struct arena *arena, struct onnx_tensor *tensor,
                       struct raw *raw, struct error *err)
{
    struct proto_field field;
    int64_t dims = 0;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        if (field.number == TENSOR_DIMS &&
            onnx_take_integers(&reader, &field, tensor->dim, &dims, ONNX_MAX_DIMS, err) < 0)
            return -1;
        if (field.number == TENSOR_TYPE)
            tensor->type = (enum onnx_type)field.value;
        if (field.number == TENSOR_NAME && field.wire == PROTO_BYTES) {
            tensor->name = onnx_take_text(&field, arena);
            if (!tensor->name)
                return error_set(err, ERROR_MEMORY, "no memory for a name");
        }
        if (field.number == TENSOR_RAW && field.wire == PROTO_BYTES)
            *raw = (struct raw){field.bytes, field.count, true};
        if (field.number == TENSOR_LOCATION && field.value == 1)
            return error_set(err, ERROR_FORMAT,
                             "%s: its numbers are in another file; save the model as one file "
                             "(onnx.save with save_as_external_data=False)",
                             tensor->name);
        if (field.number == TENSOR_SEGMENT)
            return error_set(err, ERROR_FORMAT, "%s comes in segments", tensor->name);
    }
    if (dims > ONNX_MAX_DIMS)
        return error_set(err, ERROR_FORMAT, "%s has %" PRId64 " dimensions; at most %d",
                         tensor->name, dims, ONNX_MAX_DIMS);
    tensor->ndim = (int)dims;
    return got;
}

static int count_elements(struct onnx_tensor *tensor, struct error *err)
{
    tensor->count = 1;
    for (int i = 0; i < tensor->ndim; i++) {
        if (tensor->dim[i] < 0 || (tensor->count && tensor->dim[i] > MOST_ELEMENTS / tensor->count))
            return error_set(err, ERROR_FORMAT, "%s: dimension %d is %" PRId64, tensor->name, i,
                             tensor->dim[i]);
        tensor->count *= tensor->dim[i];
    }
    return 0;
}

static int take_raw(struct arena *arena, const struct raw *raw, struct onnx_tensor *tensor,
                    struct error *err)
{
    size_t each = raw_bytes(tensor->type);
    if (raw->count != (size_t)tensor->count * each)
        return error_set(err, ERROR_FORMAT, "%s: %" PRId64 " elements in %zu bytes", tensor->name,
                         tensor->count, raw->count);
    bool aligned = (uintptr_t)raw->bytes % _Alignof(float) == 0;
    if (tensor->type == ONNX_FLOAT && aligned && raw->count) {
        tensor->floats = (const float *)(const void *)raw->bytes;
        return 0;
    }
    if (is_floating(tensor->type)) {
        float *floats = ARENA_ARRAY(arena, float, tensor->count + 1);
        for (int64_t i = 0; floats && i < tensor->count; i++)
            floats[i] = raw_float(tensor->type, raw->bytes + (size_t)i * each);
        tensor->floats = floats;
    } else {
        int64_t *integers = ARENA_ARRAY(arena, int64_t, tensor->count + 1);
        for (int64_t i = 0; integers && i < tensor->count; i++)
            integers[i] = raw_integer(tensor->type, raw->bytes + (size_t)i * each);
        tensor->integers = integers;
    }
    return tensor->floats || tensor->integers
               ? 0
               : error_set(err, ERROR_MEMORY, "no memory for %s", tensor->name);
}

/* Half precision stands among the int32s, as the bits it has. */
static void bits_to_floats(const struct onnx_tensor *tensor, const int64_t *bits, float *out)
{
    for (int64_t i = 0; i < tensor->count; i++)
        out[i] = narrow_float(tensor->type, (uint16_t)bits[i]);
}

static int take_listed(struct proto_reader reader, struct arena *arena, struct onnx_tensor *tensor,
                       struct error *err)
{
    /* A list cannot have more elements than the message has bytes: what does not fit is refused
     * before memory is taken for it. */
    if (tensor->count > reader.end - reader.at)
        return error_set(err, ERROR_FORMAT, "%s: %" PRId64 " elements, but no room for them",
                         tensor->name, tensor->count);
    bool floating = is_floating(tensor->type);
    bool narrow = tensor->type == ONNX_FLOAT16 || tensor->type == ONNX_BFLOAT16;
    float *floats = floating ? ARENA_ARRAY(arena, float, tensor->count + 1) : NULL;
    int64_t *integers = floating && !narrow ? NULL : ARENA_ARRAY(arena, int64_t, tensor->count + 1);
    if ((floating && !floats) || ((!floating || narrow) && !integers))
        return error_set(err, ERROR_MEMORY, "no memory for %s", tensor->name);
    struct proto_field field;
    int64_t count = 0;
    int got;
    while ((got = proto_next(&reader, &field, err)) > 0) {
        int status = 0;
        bool listed = field.number == TENSOR_INT32S || field.number == TENSOR_INT64S ||
                      field.number == TENSOR_UINT64S;
        if (field.number == TENSOR_FLOATS && floats && !narrow)
            status = onnx_take_floats(&reader, &field, floats, &count, tensor->count, err);
        else if (field.number == TENSOR_DOUBLES && floats && !narrow)
            status = take_doubles(&field, floats, &count, tensor->count, err);
        else if (listed && integers)
            status = onnx_take_integers(&reader, &field, integers, &count, tensor->count, err);
        if (status < 0)
            return -1;
    }
    if (got < 0)
        return -1;
    if (count != tensor->count)
        return error_set(err, ERROR_FORMAT, "%s: %" PRId64 " numbers for %" PRId64 " elements",
                         tensor->name, count, tensor->count);
    if (narrow)
        bits_to_floats(tensor, integers, floats);
    tensor->floats = floats;
    tensor->integers = floating ? NULL : integers;
    return 0;
}

static int read_tensor(struct proto_reader reader, struct arena *arena, struct onnx_tensor *out,
                       struct error *err)
{
    struct onnx_tensor tensor = {.name = ""};
    struct raw raw = {0};
    if (read_header(reader, arena, &tensor, &raw, err) < 0 || count_elements(&tensor, err) < 0)
        return -1;
    if (!raw_bytes(tensor.type))
        return error_set(err, ERROR_FORMAT, "%s has elements of type %d, which is not read",
                         tensor.name, (int)tensor.type);
    int status =
        raw.given ? take_raw(arena, &raw, &tensor, err) : take_listed(reader, arena, &tensor, err);
    if (status == 0)
        *out = tensor;
    return status;
}

int onnx_take_tensor(const struct proto_reader *outer, const struct proto_field *field,
                     struct arena *arena, struct onnx_tensor *out, struct error *err)
{
    struct proto_reader reader;
    if (proto_enter(outer, field, &reader, err) < 0 || read_tensor(reader, arena, out, err) < 0)
        return error_wrap(err, "tensor");
    return 0;
}

int onnx_parse_tensor(const void *bytes, size_t count, struct arena *arena, struct onnx_tensor *out,
                      struct error *err)
{
    struct proto_reader reader;
    proto_open(&reader, bytes, count);
    return read_tensor(reader, arena, out, err);
}
