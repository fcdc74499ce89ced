#include "serve/tensor_message.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/value_list.h"

enum { /* numbers of TensorProto's fields */
       FIELD_DTYPE = 1,
       FIELD_SHAPE = 2,
       FIELD_CONTENT = 4,
       FIELD_FLOAT = 5,
       FIELD_INT = 7,
       FIELD_STRING = 8,
       FIELD_INT64 = 10,
};

/* One row per type that we compute with: its number and list in TensorFlow's messages. */
static const struct kind {
    enum dtype dtype;
    int type; /* tensorflow.DataType */
    const char *name;
    uint32_t field; /* the list of its values */
} kinds[] = {
    {DTYPE_F32, 1, "DT_FLOAT", FIELD_FLOAT},      {DTYPE_U8, 4, "DT_UINT8", FIELD_INT},
    {DTYPE_I32, 3, "DT_INT32", FIELD_INT},        {DTYPE_I64, 9, "DT_INT64", FIELD_INT64},
    {DTYPE_STRING, 7, "DT_STRING", FIELD_STRING},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind_of(enum dtype dtype)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].dtype == dtype)
            return &kinds[i];
    return &kinds[0];
}

int tensor_message_type(enum dtype dtype)
{
    return kind_of(dtype)->type;
}

const char *tensor_message_type_name(enum dtype dtype)
{
    return kind_of(dtype)->name;
}

static const struct kind *find_kind(uint64_t type, struct error *err)
{
    static const char *const others[] = {
        [0] = "DT_INVALID",     [2] = "DT_DOUBLE", [5] = "DT_INT16",     [6] = "DT_INT8",
        [8] = "DT_COMPLEX64",   [10] = "DT_BOOL",  [14] = "DT_BFLOAT16", [17] = "DT_UINT16",
        [18] = "DT_COMPLEX128", [19] = "DT_HALF",  [22] = "DT_UINT32",   [23] = "DT_UINT64",
    };
    for (int i = 0; i < KINDS; i++)
        if ((uint64_t)kinds[i].type == type)
            return &kinds[i];
    const char *name = type < sizeof others / sizeof *others ? others[type] : NULL;
    error_set(err, ERROR_FORMAT,
              "its dtype is %s (%" PRIu64
              "); DT_FLOAT, DT_UINT8, DT_INT32, DT_INT64 and DT_STRING are taken",
              name ? name : "another", type);
    return NULL;
}

/* ---- reading the shape ---------------------------------------------------------------------- */

static int read_dimension(struct proto_reader *reader, int64_t *out, struct error *err)
{
    struct proto_field field;
    int more;
    *out = 0;
    while ((more = proto_next(reader, &field, err)) > 0) {
        if (field.number != 1)
            continue;
        if (proto_expect(reader, &field, PROTO_VARINT, err) < 0)
            return -1;
        *out = (int64_t)field.value;
    }
    return more;
}

int tensor_message_read_shape(struct proto_reader *reader, struct shape *out, struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    int more;
    while ((more = proto_next(reader, &field, err)) > 0) {
        if (field.number == 3 && field.wire == PROTO_VARINT && field.value)
            return error_set(err, ERROR_FORMAT, "its number of dimensions is left open");
        if (field.number != 2)
            continue;
        if (out->ndim == TENSOR_MAX_DIMS)
            return error_set(err, ERROR_FORMAT, "it has more than %d dimensions", TENSOR_MAX_DIMS);
        if (proto_enter(reader, &field, &inner, err) < 0 ||
            read_dimension(&inner, &out->dim[out->ndim], err) < 0)
            return -1;
        out->ndim++;
    }
    return more;
}

int shape_values(const struct shape *shape, int64_t limit, int64_t *out, struct error *err)
{
    int64_t values = 1;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] < 0)
            return error_set(err, ERROR_FORMAT, "its dimension %d is %" PRId64, i, shape->dim[i]);
        if (shape->dim[i] > 0 && values > limit / shape->dim[i])
            return error_set(err, ERROR_FORMAT,
                             "its shape has more than the %" PRId64 " values that are taken",
                             limit);
        values *= shape->dim[i];
    }
    *out = values;
    return 0;
}

/* ---- reading the values --------------------------------------------------------------------- */

struct head {
    const struct kind *kind;
    struct shape shape;
    struct proto_field content; /* count 0: none */
};

static int read_head(struct proto_reader reader, struct head *out, struct error *err)
{
    struct proto_field field;
    struct proto_reader inner;
    uint64_t type = 0;
    int more;
    *out = (struct head){0};
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == FIELD_DTYPE) {
            if (proto_expect(&reader, &field, PROTO_VARINT, err) < 0)
                return -1;
            type = field.value;
        } else if (field.number == FIELD_SHAPE) {
            if (proto_enter(&reader, &field, &inner, err) < 0 ||
                tensor_message_read_shape(&inner, &out->shape, err) < 0)
                return -1;
        } else if (field.number == FIELD_CONTENT) {
            if (proto_expect(&reader, &field, PROTO_BYTES, err) < 0)
                return -1;
            out->content = field;
        }
    }
    if (more < 0)
        return -1;
    out->kind = find_kind(type, err);
    return out->kind ? 0 : -1;
}

/* A list that is too short goes on with its last value; an empty one with zeros or empty texts. */
static void repeat_last(struct value_list *list)
{
    size_t size = dtype_bytes(list->dtype);
    if (list->filled == 0 && list->dtype != DTYPE_STRING)
        return; /* the arena's zeros */
    if (list->filled == 0 && list->wanted > 0)
        value_list_add_text(list, "", 0);
    for (; list->filled < list->wanted; list->filled++)
        memcpy(list->data + (size_t)list->filled * size,
               list->data + (size_t)(list->filled - 1) * size, size);
}

/* More values than the shape has are passed over, as TensorFlow does. */
static int read_list(struct proto_reader reader, const struct kind *kind, struct value_list *list,
                     struct error *err)
{
    struct proto_field field;
    bool over = false;
    int more;
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == kind->field && !value_list_add(list, &reader, &field, &over))
            return error_set(err, ERROR_FORMAT, "before offset %zu: no list of %s values",
                             proto_offset(&reader), kind->name);
    if (more == 0)
        repeat_last(list);
    return more;
}

/* Texts in tensor_content: all lengths, then all bytes. */
static int read_texts(const struct proto_reader *message, const struct proto_field *content,
                      struct value_list *values, struct error *err)
{
    struct proto_reader lengths;
    uint64_t length, total = 0;
    if (proto_enter(message, content, &lengths, err) < 0)
        return -1;
    struct proto_reader bytes = lengths;
    for (int64_t i = 0; i < values->wanted; i++)
        if (!proto_take_varint(&bytes, &length))
            return error_set(err, ERROR_FORMAT, "its tensor_content ends before its lengths do");
    size_t left = (size_t)(bytes.end - bytes.at);
    while (values->filled < values->wanted && proto_take_varint(&lengths, &length)) {
        if (length > left - total)
            return error_set(err, ERROR_FORMAT, "its tensor_content is shorter than its texts");
        value_list_add_text(values, bytes.at + total, (size_t)length);
        total += length;
    }
    if (total == left)
        return 0;
    return error_set(err, ERROR_FORMAT, "its tensor_content is longer than its texts");
}

/* Numbers in tensor_content, where they are when their place suits their type. */
static int read_content(const struct head *head, struct value_list *values, struct error *err)
{
    size_t size = dtype_bytes(head->kind->dtype);
    size_t bytes = (size_t)values->wanted * size;
    if (head->content.count != bytes)
        return error_set(err, ERROR_FORMAT,
                         "its tensor_content has %zu bytes, but its shape and dtype need %zu",
                         head->content.count, bytes);
    if ((uintptr_t)head->content.bytes % size == 0)
        values->data = (char *)(uintptr_t)head->content.bytes;
    else
        memcpy(values->data, head->content.bytes, bytes);
    return 0;
}

static bool lies_well(const struct head *head)
{
    return head->content.count > 0 && head->kind->dtype != DTYPE_STRING &&
           (uintptr_t)head->content.bytes % dtype_bytes(head->kind->dtype) == 0;
}

int tensor_message_read(const struct proto_reader *message, size_t limit, struct arena *arena,
                        struct tensor *out, struct error *err)
{
    struct head head;
    struct value_list values = {0};
    if (read_head(*message, &head, err) < 0)
        return -1;
    size_t size = dtype_bytes(head.kind->dtype);
    if (shape_values(&head.shape, (int64_t)(limit / size), &values.wanted, err) < 0)
        return -1;
    values.dtype = head.kind->dtype;
    if (!lies_well(&head)) {
        values.data = arena_take(arena, (size_t)values.wanted * size);
        if (!values.data)
            return error_set(err, ERROR_MEMORY, "no memory for %" PRId64 " values", values.wanted);
    }
    int status = head.content.count == 0 ? read_list(*message, head.kind, &values, err)
                 : head.kind->dtype == DTYPE_STRING
                     ? read_texts(message, &head.content, &values, err)
                     : read_content(&head, &values, err);
    if (status < 0)
        return -1;
    *out = (struct tensor){.dtype = head.kind->dtype, .shape = head.shape, .data = values.data};
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

void tensor_message_write_shape(uint32_t number, const struct shape *shape, struct strbuf *out)
{
    size_t start = proto_begin(out, number);
    for (int i = 0; i < shape->ndim; i++) {
        size_t dimension = proto_begin(out, 2);
        if (shape->dim[i] != 0)
            proto_add_varint(out, 1, (uint64_t)shape->dim[i]);
        proto_end(out, dimension);
    }
    proto_end(out, start);
}

void tensor_message_write(const struct tensor *tensor, bool as_content, struct strbuf *out)
{
    const struct kind *kind = kind_of(tensor->dtype);
    proto_add_varint(out, FIELD_DTYPE, (uint64_t)kind->type);
    tensor_message_write_shape(FIELD_SHAPE, &tensor->shape, out);
    if (as_content && tensor->dtype != DTYPE_STRING)
        proto_add_bytes(out, FIELD_CONTENT, tensor->data, tensor_bytes(tensor));
    else
        value_list_write(kind->field, tensor, out);
}
