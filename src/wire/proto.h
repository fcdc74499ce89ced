/* Protobuf's wire format without generated code: a reader that walks the fields of a message as
 * views into it, and a writer that appends to a strbuf. What the numbers mean is the caller's. */
#ifndef WIRE_PROTO_H
#define WIRE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

enum { PROTO_MAX_DEPTH = 100 }; /* of messages in messages, as in protobuf's own readers */
enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

/* A place in a message. May be copied to walk the same fields twice. */
struct proto_reader {
    const uint8_t *at, *end;
    const uint8_t *outermost; /* where the whole message starts, for offsets in messages */
    int depth;
};

struct proto_field {
    uint32_t number;
    enum proto_wire wire;
    uint64_t value;       /* PROTO_VARINT, PROTO_FIXED32, PROTO_FIXED64 */
    const uint8_t *bytes; /* PROTO_BYTES: in the message, `count` of them */
    size_t count;
};

void proto_open(struct proto_reader *reader, const void *message, size_t bytes);
/* The next field. Returns 1, 0 at the end, -1 with the offset and what is wrong; every view lies
 * inside the message. Fields that nobody knows are skipped by not looking at them. */
int proto_next(struct proto_reader *reader, struct proto_field *out, struct error *err);
/* The message that a field of `outer` holds. Fails when it is nested too deep or the field is not
 * of length-delimited kind. */
int proto_enter(const struct proto_reader *outer, const struct proto_field *field,
                struct proto_reader *out, struct error *err);
/* For what a field must be: fails with its number, offset and both kinds. */
int proto_expect(const struct proto_reader *reader, const struct proto_field *field,
                 enum proto_wire wire, struct error *err);
size_t proto_offset(const struct proto_reader *reader); /* in the outermost message */

/* Packed lists: the numbers of a PROTO_BYTES field one by one; false at its end or when the rest
 * is no number (then `at` stands before `end`). */
bool proto_take_varint(struct proto_reader *reader, uint64_t *out);
bool proto_take_fixed32(struct proto_reader *reader, uint32_t *out);
bool proto_take_fixed64(struct proto_reader *reader, uint64_t *out);

float proto_float(uint32_t bits);
double proto_double(uint64_t bits);
int64_t proto_unzigzag(uint64_t value); /* sint32, sint64 */

/* Writing; a failed allocation stays in the strbuf. */
void proto_put_varint(struct strbuf *out, uint64_t value); /* without a field's tag: for packed */
void proto_put_fixed32(struct strbuf *out, uint32_t value);
void proto_put_fixed64(struct strbuf *out, uint64_t value);
void proto_put_float(struct strbuf *out, float value);
void proto_add_varint(struct strbuf *out, uint32_t number, uint64_t value);
void proto_add_fixed32(struct strbuf *out, uint32_t number, uint32_t value);
void proto_add_fixed64(struct strbuf *out, uint32_t number, uint64_t value);
void proto_add_float(struct strbuf *out, uint32_t number, float value);
void proto_add_bytes(struct strbuf *out, uint32_t number, const void *bytes, size_t count);
void proto_add_text(struct strbuf *out, uint32_t number, const char *text);
/* A message or packed list inside a message: what is added between the two calls. proto_end takes
 * what proto_begin returned. */
size_t proto_begin(struct strbuf *out, uint32_t number);
void proto_end(struct strbuf *out, size_t start);

#endif
