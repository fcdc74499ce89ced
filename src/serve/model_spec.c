#include "serve/model_spec.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

enum { SPEC_NAME = 1, SPEC_VERSION = 2, SPEC_SIGNATURE = 3, SPEC_LABEL = 4 };

int field_text(const struct proto_reader *reader, const struct proto_field *field,
               struct arena *arena, const char **out, struct error *err)
{
    if (proto_expect(reader, field, PROTO_BYTES, err) < 0)
        return -1;
    if (field->count > 0 && memchr(field->bytes, '\0', field->count))
        return error_set(err, ERROR_FORMAT, "before offset %zu: a name with a NUL in it",
                         proto_offset(reader));
    char *text = arena_take(arena, field->count + 1);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the request");
    if (field->count > 0)
        memcpy(text, field->bytes, field->count);
    *out = text;
    return 0;
}

/* google.protobuf.Int64Value */
static int read_version(const struct proto_reader *outer, const struct proto_field *field,
                        struct model_spec *spec, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    spec->has_version = true;
    spec->label = NULL; /* one or the other: what comes last */
    spec->version = 0;
    while ((more = proto_next(&reader, &inner, err)) > 0)
        if (inner.number == 1) {
            if (proto_expect(&reader, &inner, PROTO_VARINT, err) < 0)
                return -1;
            spec->version = (int64_t)inner.value;
        }
    return more;
}

static int read_label(const struct proto_reader *reader, const struct proto_field *field,
                      struct arena *arena, struct model_spec *spec, struct error *err)
{
    spec->has_version = false;
    return field_text(reader, field, arena, &spec->label, err);
}

int model_spec_read(const struct proto_reader *outer, const struct proto_field *field,
                    struct arena *arena, struct model_spec *spec, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    spec->present = true;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        int status = 0;
        if (inner.number == SPEC_NAME)
            status = field_text(&reader, &inner, arena, &spec->name, err);
        else if (inner.number == SPEC_VERSION)
            status = read_version(&reader, &inner, spec, err);
        else if (inner.number == SPEC_SIGNATURE)
            status = field_text(&reader, &inner, arena, &spec->signature, err);
        else if (inner.number == SPEC_LABEL)
            status = read_label(&reader, &inner, arena, spec, err);
        if (status < 0)
            return -1;
    }
    if (!spec->name)
        spec->name = "";
    if (!spec->signature)
        spec->signature = "";
    return more;
}

void model_spec_write(uint32_t number, const char *name, const char *signature, int64_t version,
                      struct strbuf *out)
{
    size_t start = proto_begin(out, number);
    proto_add_text(out, SPEC_NAME, name);
    size_t wrapper = proto_begin(out, SPEC_VERSION);
    if (version != 0)
        proto_add_varint(out, 1, (uint64_t)version);
    proto_end(out, wrapper);
    if (signature)
        proto_add_text(out, SPEC_SIGNATURE, signature);
    proto_end(out, start);
}

int message_entry_read(const struct proto_reader *outer, const struct proto_field *field,
                       struct message_entry *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    *out = (struct message_entry){.key = {"", 0}, .value = reader};
    out->value.end = out->value.at; /* an entry without a value has an empty one */
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        if (inner.number == 1) {
            if (proto_expect(&reader, &inner, PROTO_BYTES, err) < 0)
                return -1;
            out->key = (struct text_view){(const char *)inner.bytes, inner.count};
        } else if (inner.number == 2 && proto_enter(&reader, &inner, &out->value, err) < 0) {
            return -1;
        }
    }
    return more;
}

int message_count(struct proto_reader reader, uint32_t number, int most, struct error *err)
{
    struct proto_field field;
    int more, count = 0;
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == number && ++count > most)
            return error_set(err, ERROR_FORMAT, "field %u is there more than %d times",
                             (unsigned)number, most);
    return more < 0 ? -1 : count;
}

/* Ends at the first difference: most comparisons are with another name. */
bool text_view_is(const struct text_view *view, const char *text)
{
    for (size_t i = 0; i < view->count; i++)
        if (!text[i] || text[i] != view->bytes[i])
            return false;
    return !text[view->count];
}
