#include "wire/proto.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/strbuf.h"

enum { VARINT_MAX_BYTES = 10, MAX_NUMBER = (1 << 29) - 1 };

void proto_open(struct proto_reader *reader, const void *message, size_t bytes)
{
    static const uint8_t nothing[1];
    const uint8_t *start = bytes > 0 ? message : nothing;
    *reader = (struct proto_reader){.at = start, .end = start + bytes, .outermost = start};
}

size_t proto_offset(const struct proto_reader *reader)
{
    return (size_t)(reader->at - reader->outermost);
}

/* Bits beyond the 64th are dropped, as protobuf's readers do. */
bool proto_take_varint(struct proto_reader *reader, uint64_t *out)
{
    const uint8_t *at = reader->at;
    uint64_t value = 0;
    for (int i = 0; i < VARINT_MAX_BYTES && at < reader->end; i++) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            reader->at = at;
            *out = value;
            return true;
        }
    }
    return false;
}

bool proto_take_fixed32(struct proto_reader *reader, uint32_t *out)
{
    const uint8_t *at = reader->at;
    if (reader->end - at < 4)
        return false;
    *out = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    reader->at += 4;
    return true;
}

bool proto_take_fixed64(struct proto_reader *reader, uint64_t *out)
{
    if (reader->end - reader->at < 8)
        return false;
    uint32_t low = 0, high = 0;
    proto_take_fixed32(reader, &low);
    proto_take_fixed32(reader, &high);
    *out = (uint64_t)high << 32 | low;
    return true;
}

static int take_tag(struct proto_reader *reader, struct proto_field *out, struct error *err)
{
    size_t offset = proto_offset(reader);
    uint64_t tag;
    if (!proto_take_varint(reader, &tag))
        return error_set(err, ERROR_FORMAT, "offset %zu: a field's tag that does not end", offset);
    if (tag >> 3 < 1 || tag >> 3 > MAX_NUMBER)
        return error_set(err, ERROR_FORMAT,
                         "offset %zu: %" PRIu64 " is no field number; is this protobuf data?",
                         offset, tag >> 3);
    out->number = (uint32_t)(tag >> 3);
    unsigned wire = tag & 7;
    if (wire != PROTO_VARINT && wire != PROTO_FIXED64 && wire != PROTO_BYTES &&
        wire != PROTO_FIXED32)
        return error_set(err, ERROR_FORMAT,
                         "offset %zu: field %" PRIu32 " has wire type %u, which is not read here",
                         offset, out->number, wire);
    out->wire = (enum proto_wire)wire;
    return 0;
}

static int take_bytes(struct proto_reader *reader, struct proto_field *out, struct error *err)
{
    size_t offset = proto_offset(reader);
    uint64_t count;
    if (!proto_take_varint(reader, &count))
        return error_set(err, ERROR_FORMAT, "offset %zu: a length that does not end", offset);
    size_t left = (size_t)(reader->end - reader->at);
    if (count > left)
        return error_set(err, ERROR_FORMAT,
                         "offset %zu: field %" PRIu32 " claims %" PRIu64
                         " bytes, but the message around it has %zu left",
                         offset, out->number, count, left);
    out->bytes = reader->at;
    out->count = (size_t)count;
    reader->at += count;
    return 0;
}

static bool take_number(struct proto_reader *reader, struct proto_field *out)
{
    uint32_t narrow = 0;
    switch (out->wire) {
    case PROTO_VARINT:
        return proto_take_varint(reader, &out->value);
    case PROTO_FIXED64:
        return proto_take_fixed64(reader, &out->value);
    default:
        if (!proto_take_fixed32(reader, &narrow))
            return false;
        out->value = narrow;
        return true;
    }
}

int proto_next(struct proto_reader *reader, struct proto_field *out, struct error *err)
{
    if (reader->at == reader->end)
        return 0;
    struct proto_field field = {0};
    if (take_tag(reader, &field, err) < 0)
        return -1;
    size_t offset = proto_offset(reader);
    if (field.wire == PROTO_BYTES) {
        if (take_bytes(reader, &field, err) < 0)
            return -1;
    } else if (!take_number(reader, &field)) {
        return error_set(err, ERROR_FORMAT,
                         "offset %zu: the number of field %" PRIu32 " is cut off", offset,
                         field.number);
    }
    *out = field;
    return 1;
}

int proto_expect(const struct proto_reader *reader, const struct proto_field *field,
                 enum proto_wire wire, struct error *err)
{
    static const char *const names[] = {"a varint", "64 bits", "bytes", "", "", "32 bits"};
    if (field->wire == wire)
        return 0;
    return error_set(err, ERROR_FORMAT, "before offset %zu: field %" PRIu32 " is %s, not %s",
                     proto_offset(reader), field->number, names[field->wire], names[wire]);
}

int proto_enter(const struct proto_reader *outer, const struct proto_field *field,
                struct proto_reader *out, struct error *err)
{
    if (proto_expect(outer, field, PROTO_BYTES, err) < 0)
        return -1;
    if (outer->depth >= PROTO_MAX_DEPTH)
        return error_set(err, ERROR_FORMAT, "offset %zu: messages nested deeper than %d",
                         (size_t)(field->bytes - outer->outermost), PROTO_MAX_DEPTH);
    *out = (struct proto_reader){.at = field->bytes,
                                 .end = field->bytes + field->count,
                                 .outermost = outer->outermost,
                                 .depth = outer->depth + 1};
    return 0;
}

float proto_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double proto_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int64_t proto_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static size_t encode_varint(uint64_t value, uint8_t out[VARINT_MAX_BYTES])
{
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        out[count++] = (uint8_t)(value | 0x80);
    out[count++] = (uint8_t)value;
    return count;
}

void proto_put_varint(struct strbuf *out, uint64_t value)
{
    uint8_t bytes[VARINT_MAX_BYTES];
    strbuf_add_bytes(out, bytes, encode_varint(value, bytes));
}

void proto_put_fixed32(struct strbuf *out, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    strbuf_add_bytes(out, bytes, sizeof bytes);
}

void proto_put_fixed64(struct strbuf *out, uint64_t value)
{
    proto_put_fixed32(out, (uint32_t)value);
    proto_put_fixed32(out, (uint32_t)(value >> 32));
}

void proto_put_float(struct strbuf *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    proto_put_fixed32(out, bits);
}

static void put_tag(struct strbuf *out, uint32_t number, enum proto_wire wire)
{
    proto_put_varint(out, (uint64_t)number << 3 | (unsigned)wire);
}

void proto_add_varint(struct strbuf *out, uint32_t number, uint64_t value)
{
    put_tag(out, number, PROTO_VARINT);
    proto_put_varint(out, value);
}

void proto_add_fixed32(struct strbuf *out, uint32_t number, uint32_t value)
{
    put_tag(out, number, PROTO_FIXED32);
    proto_put_fixed32(out, value);
}

void proto_add_fixed64(struct strbuf *out, uint32_t number, uint64_t value)
{
    put_tag(out, number, PROTO_FIXED64);
    proto_put_fixed64(out, value);
}

void proto_add_float(struct strbuf *out, uint32_t number, float value)
{
    put_tag(out, number, PROTO_FIXED32);
    proto_put_float(out, value);
}

void proto_add_bytes(struct strbuf *out, uint32_t number, const void *bytes, size_t count)
{
    put_tag(out, number, PROTO_BYTES);
    proto_put_varint(out, count);
    strbuf_add_bytes(out, bytes, count);
}

void proto_add_text(struct strbuf *out, uint32_t number, const char *text)
{
    proto_add_bytes(out, number, text, strlen(text));
}

/* One byte is left for the length; proto_end makes room when it needs more. */
size_t proto_begin(struct strbuf *out, uint32_t number)
{
    put_tag(out, number, PROTO_BYTES);
    strbuf_add_char(out, 0);
    return out->length;
}

void proto_end(struct strbuf *out, size_t start)
{
    uint8_t length[VARINT_MAX_BYTES], room[VARINT_MAX_BYTES] = {0};
    if (out->failed)
        return;
    size_t content = out->length - start;
    size_t bytes = encode_varint(content, length);
    strbuf_add_bytes(out, room, bytes - 1);
    if (out->failed)
        return;
    if (bytes > 1)
        memmove(out->text + start + bytes - 1, out->text + start, content);
    memcpy(out->text + start - 1, length, bytes);
}
