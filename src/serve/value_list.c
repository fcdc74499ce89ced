#include "serve/value_list.h"

#include "base/strbuf.h"

static bool add_number(struct value_list *list, uint64_t value)
{
    if (list->filled == list->wanted)
        return false;
    switch (list->dtype) {
    case DTYPE_U8:
        ((uint8_t *)list->data)[list->filled++] = (uint8_t)value;
        break;
    case DTYPE_I64:
        ((int64_t *)list->data)[list->filled++] = (int64_t)value;
        break;
    default: /* 32 bits, as a float or as an integer */
        ((uint32_t *)list->data)[list->filled++] = (uint32_t)value;
    }
    return true;
}

bool value_list_add_text(struct value_list *list, const void *bytes, size_t count)
{
    if (list->filled == list->wanted)
        return false;
    ((struct text_view *)list->data)[list->filled++] = (struct text_view){bytes, count};
    return true;
}

/* In memory as on the wire: lowest byte first. */
static bool add_floats(struct value_list *list, const struct proto_field *field, bool *over)
{
    size_t count = field->count / sizeof(float), room = (size_t)(list->wanted - list->filled);
    size_t taken = count < room ? count : room;
    if (taken > 0)
        memcpy(list->data + (size_t)list->filled * sizeof(float), field->bytes,
               taken * sizeof(float));
    list->filled += (int64_t)taken;
    *over |= count > room;
    return field->count % sizeof(float) == 0;
}

static bool add_varints(struct value_list *list, struct proto_reader *packed, bool *over)
{
    uint64_t value;
    while (proto_take_varint(packed, &value))
        if (!add_number(list, value)) {
            *over = true;
            return true;
        }
    return packed->at == packed->end;
}

bool value_list_add(struct value_list *list, const struct proto_reader *reader,
                    const struct proto_field *field, bool *over)
{
    struct proto_reader packed;
    if (list->dtype == DTYPE_STRING) {
        if (field->wire != PROTO_BYTES)
            return false;
        *over |= !value_list_add_text(list, field->bytes, field->count);
        return true;
    }
    if (field->wire == PROTO_BYTES)
        return list->dtype == DTYPE_F32 ? add_floats(list, field, over)
                                        : proto_enter(reader, field, &packed, NULL) == 0 &&
                                              add_varints(list, &packed, over);
    if (field->wire != (list->dtype == DTYPE_F32 ? PROTO_FIXED32 : PROTO_VARINT))
        return false;
    *over |= !add_number(list, field->value);
    return true;
}

static uint64_t integer_at(const struct tensor *tensor, int64_t index)
{
    switch (tensor->dtype) {
    case DTYPE_U8:
        return ((const uint8_t *)tensor->data)[index];
    case DTYPE_I32:
        return (uint64_t)(int64_t)((const int32_t *)tensor->data)[index];
    default:
        return (uint64_t)((const int64_t *)tensor->data)[index];
    }
}

void value_list_write(uint32_t number, const struct tensor *tensor, struct strbuf *out)
{
    int64_t count = shape_count(&tensor->shape);
    if (tensor->dtype == DTYPE_STRING) {
        const struct text_view *texts = tensor->data;
        for (int64_t i = 0; i < count; i++)
            proto_add_bytes(out, number, texts[i].bytes, texts[i].count);
    } else if (tensor->dtype == DTYPE_F32) {
        if (count > 0)
            proto_add_bytes(out, number, tensor->data, (size_t)count * sizeof(float));
    } else if (count > 0) {
        size_t list = proto_begin(out, number);
        for (int64_t i = 0; i < count; i++)
            proto_put_varint(out, integer_at(tensor, i));
        proto_end(out, list);
    }
}
