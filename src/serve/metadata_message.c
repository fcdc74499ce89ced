/* The client's half of GetModelMetadata. */
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/model_message.h"
#include "serve/tensor_message.h"

void metadata_request_write(const char *model, int64_t version, struct strbuf *out)
{
    size_t spec = proto_begin(out, 1);
    proto_add_text(out, 1, model);
    if (version > 0) {
        size_t wrapper = proto_begin(out, 2);
        proto_add_varint(out, 1, (uint64_t)version);
        proto_end(out, wrapper);
    }
    proto_end(out, spec);
    proto_add_text(out, 2, "signature_def");
}

/* The value of the entry `key` of a map, field `number` of the message; 1 when it is there. NULL:
 * the first entry, whose key goes to *found. */
static int find_entry(struct proto_reader reader, uint32_t number, const char *key,
                      struct text_view *found, struct proto_reader *out, struct error *err)
{
    struct proto_field field;
    struct message_entry entry;
    int more;
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number != number)
            continue;
        if (message_entry_read(&reader, &field, &entry, err) < 0)
            return -1;
        if (key && !text_view_is(&entry.key, key))
            continue;
        *out = entry.value;
        if (found)
            *found = entry.key;
        return 1;
    }
    return more;
}

/* The message in field `number`; an absent one is empty. */
static int enter(struct proto_reader reader, uint32_t number, struct proto_reader *out,
                 struct error *err)
{
    struct proto_field field;
    int more;
    *out = reader;
    out->at = out->end;
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == number && proto_enter(&reader, &field, out, err) < 0)
            return -1;
    return more;
}

static int read_shape(struct proto_reader info, struct shape *out, struct error *err)
{
    struct proto_reader reader;
    if (enter(info, 3, &reader, err) < 0)
        return -1;
    return tensor_message_read_shape(&reader, out, err);
}

static int read_output(struct proto_reader definition, const char *output, int *classes,
                       struct error *err)
{
    struct proto_reader info;
    struct shape shape = {0};
    int there = find_entry(definition, 2, output, NULL, &info, err);
    if (there <= 0)
        return there;
    if (read_shape(info, &shape, err) < 0)
        return -1;
    int64_t last = shape.ndim > 1 ? shape.dim[shape.ndim - 1] : 0;
    *classes = last > 0 && last <= INT_MAX ? (int)last : 0;
    return 0;
}

int metadata_reply_read(const void *message, size_t bytes, const char *signature,
                        const char *output, struct arena *arena, struct metadata_form *out,
                        struct error *err)
{
    struct proto_reader reader, any, map, definition, info;
    struct text_view name;
    proto_open(&reader, message, bytes);
    int there = find_entry(reader, 2, "signature_def", NULL, &any, err);
    if (there > 0)
        there = enter(any, 2, &map, err) < 0
                    ? -1
                    : find_entry(map, 1, signature, NULL, &definition, err);
    if (there > 0)
        there = find_entry(definition, 1, NULL, &name, &info, err);
    if (there < 0)
        return -1;
    if (there == 0)
        return error_set(err, ERROR_FORMAT, "there is no signature '%s' with inputs", signature);
    *out = (struct metadata_form){0};
    char *copy = arena_take(arena, name.count + 1);
    if (!copy)
        return error_set(err, ERROR_MEMORY, "no memory for the metadata");
    memcpy(copy, name.bytes, name.count);
    out->input = copy;
    if (read_shape(info, &out->shape, err) < 0)
        return -1;
    return read_output(definition, output, &out->classes, err);
}
