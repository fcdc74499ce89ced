/* message Example  { Features features = 1; }
 * message Features { map<string, Feature> feature = 1; }     an entry: key = 1, value = 2
 * message Feature  { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
 * Each list: repeated value = 1, numbers packed or not. */
#include "wire/example.h"

#include "base/error.h"
#include "base/strbuf.h"
#include "wire/proto.h"

enum { FEATURES = 1, ENTRY = 1, KEY = 1, VALUE = 2, LIST_VALUE = 1 };

struct entry {
    const char *name;
    size_t name_bytes;
    struct feature feature;
};

typedef int entry_fn(void *context, const struct entry *entry);

/* The wire type of one unpacked value. */
static enum proto_wire wire_of(enum feature_kind kind)
{
    return kind == FEATURE_BYTES   ? PROTO_BYTES
           : kind == FEATURE_FLOAT ? PROTO_FIXED32
                                   : PROTO_VARINT;
}

static int check_packed(const struct proto_reader *list, const struct proto_field *field,
                        enum feature_kind kind, struct error *err)
{
    struct proto_reader values;
    uint64_t value;
    uint32_t bits;
    if (proto_enter(list, field, &values, err) < 0)
        return -1;
    while (kind == FEATURE_FLOAT ? proto_take_fixed32(&values, &bits)
                                 : proto_take_varint(&values, &value))
        continue;
    if (values.at != values.end)
        return error_set(err, ERROR_FORMAT, "offset %zu: a list of numbers that ends inside one",
                         proto_offset(&values));
    return 0;
}

/* Once here, so that the functions that take values out cannot fail. */
static int check_list(struct proto_reader list, enum feature_kind kind, struct error *err)
{
    struct proto_field field;
    int more;
    while ((more = proto_next(&list, &field, err)) > 0) {
        if (field.number != LIST_VALUE)
            continue;
        bool packed = kind != FEATURE_BYTES && field.wire == PROTO_BYTES;
        if (packed ? check_packed(&list, &field, kind, err) < 0
                   : proto_expect(&list, &field, wire_of(kind), err) < 0)
            return -1;
    }
    return more;
}

static int read_feature(struct proto_reader message, struct feature *out, struct error *err)
{
    struct proto_field field;
    int more;
    *out = (struct feature){.kind = FEATURE_NONE};
    while ((more = proto_next(&message, &field, err)) > 0) {
        struct proto_reader list;
        if (field.number < FEATURE_BYTES || field.number > FEATURE_INT64)
            continue;
        enum feature_kind kind = (enum feature_kind)field.number;
        if (proto_enter(&message, &field, &list, err) < 0 || check_list(list, kind, err) < 0)
            return -1;
        *out = (struct feature){kind, field.bytes, field.count};
    }
    return more;
}

static int read_entry(struct proto_reader message, struct entry *out, struct error *err)
{
    struct proto_field field;
    int more;
    *out = (struct entry){.name = ""};
    while ((more = proto_next(&message, &field, err)) > 0) {
        struct proto_reader inner;
        if (field.number != KEY && field.number != VALUE)
            continue;
        if (proto_enter(&message, &field, &inner, err) < 0)
            return -1;
        if (field.number == KEY) {
            out->name = (const char *)field.bytes;
            out->name_bytes = field.count;
        } else if (read_feature(inner, &out->feature, err) < 0) {
            return -1;
        }
    }
    return more;
}

static int walk_features(struct proto_reader features, entry_fn *each, void *context, bool *stopped,
                         struct error *err)
{
    struct proto_field field;
    int more = 0;
    while (!*stopped && (more = proto_next(&features, &field, err)) > 0) {
        struct proto_reader message;
        struct entry entry;
        if (field.number != ENTRY)
            continue;
        if (proto_enter(&features, &field, &message, err) < 0 ||
            read_entry(message, &entry, err) < 0)
            return -1;
        *stopped = each(context, &entry) != 0;
    }
    return more < 0 ? -1 : 0;
}

static int walk(const void *bytes, size_t count, entry_fn *each, void *context, struct error *err)
{
    struct proto_reader example;
    struct proto_field field;
    bool stopped = false;
    int more = 0;
    proto_open(&example, bytes, count);
    while (!stopped && (more = proto_next(&example, &field, err)) > 0) {
        struct proto_reader features;
        if (field.number != FEATURES)
            continue;
        if (proto_enter(&example, &field, &features, err) < 0 ||
            walk_features(features, each, context, &stopped, err) < 0) {
            more = -1;
            break;
        }
    }
    return more < 0 ? error_wrap(err, "tf.Example") : 0;
}

struct wanted {
    const char *const *names;
    int count;
    struct feature *out;
};

static int keep_wanted(void *context, const struct entry *entry)
{
    const struct wanted *wanted = context;
    for (int i = 0; i < wanted->count; i++)
        if (strlen(wanted->names[i]) == entry->name_bytes &&
            memcmp(wanted->names[i], entry->name, entry->name_bytes) == 0)
            wanted->out[i] = entry->feature;
    return 0;
}

int example_find(const void *message, size_t bytes, const char *const *names, int count,
                 struct feature *out, struct error *err)
{
    struct wanted wanted = {names, count, out};
    for (int i = 0; i < count; i++)
        out[i] = (struct feature){.kind = FEATURE_NONE};
    return walk(message, bytes, keep_wanted, &wanted, err);
}

struct visitor {
    int (*each)(void *context, const char *name, size_t name_bytes, const struct feature *feature);
    void *context;
};

static int pass_on(void *context, const struct entry *entry)
{
    const struct visitor *visitor = context;
    return visitor->each(visitor->context, entry->name, entry->name_bytes, &entry->feature);
}

int example_walk(const void *message, size_t bytes,
                 int (*each)(void *context, const char *name, size_t name_bytes,
                             const struct feature *feature),
                 void *context, struct error *err)
{
    struct visitor visitor = {each, context};
    return walk(message, bytes, pass_on, &visitor, err);
}

/* Where the values of a list are taken from: fields, and inside a packed one numbers. */
struct values {
    struct proto_reader list, packed;
    bool in_packed;
    enum feature_kind kind;
};

static void values_open(struct values *values, const struct feature *feature)
{
    *values = (struct values){.kind = feature->kind};
    proto_open(&values->list, feature->list, feature->list_bytes);
}

/* Numbers come in `field->value`. The list was checked when it was found. */
static bool values_next(struct values *values, struct proto_field *field)
{
    for (;;) {
        if (values->in_packed && values->kind == FEATURE_FLOAT) {
            uint32_t bits;
            if (proto_take_fixed32(&values->packed, &bits)) {
                field->value = bits;
                return true;
            }
        } else if (values->in_packed && proto_take_varint(&values->packed, &field->value)) {
            return true;
        }
        values->in_packed = false;
        if (proto_next(&values->list, field, NULL) <= 0)
            return false;
        if (field->number != LIST_VALUE)
            continue;
        if (values->kind == FEATURE_BYTES || field->wire != PROTO_BYTES)
            return true;
        proto_open(&values->packed, field->bytes, field->count);
        values->in_packed = true;
    }
}

int64_t feature_count(const struct feature *feature)
{
    struct values values;
    struct proto_field field;
    int64_t count = 0;
    values_open(&values, feature);
    while (feature->kind != FEATURE_NONE && values_next(&values, &field))
        count++;
    return count;
}

static bool feature_value(const struct feature *feature, enum feature_kind kind, int64_t index,
                          struct proto_field *out)
{
    struct values values;
    if (feature->kind != kind || index < 0)
        return false;
    values_open(&values, feature);
    while (values_next(&values, out))
        if (index-- == 0)
            return true;
    return false;
}

bool feature_bytes(const struct feature *feature, int64_t index, const uint8_t **out, size_t *count)
{
    struct proto_field field;
    if (!feature_value(feature, FEATURE_BYTES, index, &field))
        return false;
    *out = field.bytes;
    *count = field.count;
    return true;
}

bool feature_int64(const struct feature *feature, int64_t index, int64_t *out)
{
    struct proto_field field;
    if (!feature_value(feature, FEATURE_INT64, index, &field))
        return false;
    *out = (int64_t)field.value;
    return true;
}

bool feature_float(const struct feature *feature, int64_t index, float *out)
{
    struct proto_field field;
    if (!feature_value(feature, FEATURE_FLOAT, index, &field))
        return false;
    *out = proto_float((uint32_t)field.value);
    return true;
}

enum { EXAMPLE_CONTENT = 2 }; /* where proto_begin leaves an empty buffer: tag and length */

void example_begin(struct strbuf *out)
{
    strbuf_clear(out);
    proto_begin(out, FEATURES);
}

void example_end(struct strbuf *out)
{
    proto_end(out, EXAMPLE_CONTENT);
}

struct open_feature {
    size_t entry, value, list; /* what proto_begin returned */
};

static struct open_feature begin_feature(struct strbuf *out, const char *name,
                                         enum feature_kind kind)
{
    struct open_feature open;
    open.entry = proto_begin(out, ENTRY);
    proto_add_text(out, KEY, name);
    open.value = proto_begin(out, VALUE);
    open.list = proto_begin(out, (uint32_t)kind);
    return open;
}

static void end_feature(struct strbuf *out, const struct open_feature *open)
{
    proto_end(out, open->list);
    proto_end(out, open->value);
    proto_end(out, open->entry);
}

void example_add_bytes(struct strbuf *out, const char *name, const void *bytes, size_t count)
{
    struct open_feature open = begin_feature(out, name, FEATURE_BYTES);
    proto_add_bytes(out, LIST_VALUE, bytes, count);
    end_feature(out, &open);
}

void example_add_int64(struct strbuf *out, const char *name, const int64_t *values, int count)
{
    struct open_feature open = begin_feature(out, name, FEATURE_INT64);
    size_t packed = count > 0 ? proto_begin(out, LIST_VALUE) : 0;
    for (int i = 0; i < count; i++)
        proto_put_varint(out, (uint64_t)values[i]);
    if (count > 0)
        proto_end(out, packed);
    end_feature(out, &open);
}

void example_add_float(struct strbuf *out, const char *name, const float *values, int count)
{
    struct open_feature open = begin_feature(out, name, FEATURE_FLOAT);
    size_t packed = count > 0 ? proto_begin(out, LIST_VALUE) : 0;
    for (int i = 0; i < count; i++)
        proto_put_float(out, values[i]);
    if (count > 0)
        proto_end(out, packed);
    end_feature(out, &open);
}
