/* The table of a bundle: under the empty key
 *     message BundleHeaderProto { int32 num_shards = 1; Endianness endianness = 2;
 *                                 VersionDef version = 3; }
 *     message VersionDef        { int32 producer = 1, min_consumer = 2; }
 * and under each tensor's name
 *     message BundleEntryProto  { DataType dtype = 1; TensorShapeProto shape = 2;
 *                                 int32 shard_id = 3; int64 offset = 4, size = 5;
 *                                 fixed32 crc32c = 6; repeated TensorSliceProto slices = 7; }
 *     message TensorShapeProto  { repeated Dim dim = 2; }     message Dim { int64 size = 1; }
 * Numbers that are 0 are left out, as protobuf does. A tensor in slices has its own entry without
 * a place; those of its slices follow under binary keys that begin with a zero byte. */
#include "store/bundle_index.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "wire/proto.h"
#include "wire/table.h"

enum { NUM_SHARDS = 1, ENDIANNESS = 2, VERSION = 3, PRODUCER = 1, MIN_CONSUMER = 2 };
enum { DTYPE = 1, SHAPE_FIELD = 2, SHARD_ID = 3, OFFSET = 4, SIZE = 5, CRC = 6, SLICES = 7 };
enum { DIM = 2, DIM_SIZE = 1 };
enum {
    FORMAT_VERSION = 1,
    MAX_SHARDS = 256,          /* each is an open file */
    MAX_NAMES_BYTES = 1 << 28, /* keys that share much unfold to more than the file's size */
};

/* TensorFlow's DataType, of which `ours` of our dtypes are a part. */
static const struct {
    const char *name;
    enum bundle_form form;
    int ours; /* or -1 */
} data_types[] = {
    [1] = {"float32", BUNDLE_NUMBERS, DTYPE_F32},
    [2] = {"float64", BUNDLE_NUMBERS, -1},
    [3] = {"int32", BUNDLE_NUMBERS, DTYPE_I32},
    [4] = {"uint8", BUNDLE_NUMBERS, DTYPE_U8},
    [5] = {"int16", BUNDLE_NUMBERS, -1},
    [6] = {"int8", BUNDLE_NUMBERS, -1},
    [7] = {"string", BUNDLE_STRINGS, DTYPE_STRING},
    [8] = {"complex64", BUNDLE_NUMBERS, -1},
    [9] = {"int64", BUNDLE_NUMBERS, DTYPE_I64},
    [10] = {"bool", BUNDLE_NUMBERS, -1},
    [14] = {"bfloat16", BUNDLE_NUMBERS, -1},
    [17] = {"uint16", BUNDLE_NUMBERS, -1},
    [18] = {"complex128", BUNDLE_NUMBERS, -1},
    [19] = {"float16", BUNDLE_NUMBERS, -1},
    [21] = {"variant", BUNDLE_UNCHECKED, -1},
    [22] = {"uint32", BUNDLE_NUMBERS, -1},
    [23] = {"uint64", BUNDLE_NUMBERS, -1},
};
enum { DATA_TYPES = sizeof data_types / sizeof *data_types };

static int check_path(int length, struct error *err)
{
    return length < PATH_MAX
               ? 0
               : error_set(err, ERROR_IO, "a path of %d bytes is too long for a bundle", length);
}

int bundle_index_path(const char *prefix, char path[PATH_MAX], struct error *err)
{
    return check_path(snprintf(path, PATH_MAX, "%s.index", prefix), err);
}

int bundle_data_path(const char *prefix, int shard, int shards, char path[PATH_MAX],
                     struct error *err)
{
    return check_path(snprintf(path, PATH_MAX, "%s.data-%05d-of-%05d", prefix, shard, shards), err);
}

/* ---- writing ---- */

static uint64_t data_type_of(enum dtype dtype)
{
    uint64_t number = 1;
    while (number < DATA_TYPES &&
           (!data_types[number].name || data_types[number].ours != (int)dtype))
        number++;
    return number;
}

static void add_unless_zero(struct strbuf *out, uint32_t number, uint64_t value)
{
    if (value != 0)
        proto_add_varint(out, number, value);
}

static void put_header(struct strbuf *out)
{
    proto_add_varint(out, NUM_SHARDS, 1);
    size_t version = proto_begin(out, VERSION);
    proto_add_varint(out, PRODUCER, FORMAT_VERSION);
    proto_end(out, version);
}

static void put_entry(struct strbuf *out, const struct bundle_entry *entry)
{
    proto_add_varint(out, DTYPE, data_type_of(entry->dtype));
    size_t shape = proto_begin(out, SHAPE_FIELD);
    for (int i = 0; i < entry->shape.ndim; i++) {
        size_t dim = proto_begin(out, DIM);
        add_unless_zero(out, DIM_SIZE, (uint64_t)entry->shape.dim[i]);
        proto_end(out, dim);
    }
    proto_end(out, shape);
    add_unless_zero(out, OFFSET, entry->offset);
    add_unless_zero(out, SIZE, entry->bytes);
    if (entry->crc != 0)
        proto_add_fixed32(out, CRC, entry->crc);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct bundle_entry *)a)->name, ((const struct bundle_entry *)b)->name);
}

static int add_records(struct table_writer *table, const struct bundle_entry *entries, int count,
                       struct strbuf *value, struct error *err)
{
    put_header(value);
    if (table_writer_add(table, "", 0, value->text, value->length, err) < 0)
        return -1;
    for (int i = 0; i < count && !value->failed; i++) {
        if (i > 0 && strcmp(entries[i - 1].name, entries[i].name) == 0)
            return error_set(err, ERROR_FORMAT, "the tensor '%s' was written twice",
                             entries[i].name);
        strbuf_clear(value);
        put_entry(value, &entries[i]);
        if (table_writer_add(table, entries[i].name, strlen(entries[i].name), value->text,
                             value->length, err) < 0)
            return -1;
    }
    return value->failed ? error_set(err, ERROR_MEMORY, "no memory for a bundle's index") : 0;
}

int bundle_index_write(struct bundle_entry *entries, int count, struct strbuf *out,
                       struct error *err)
{
    struct table_writer table;
    struct strbuf value;
    table_writer_init(&table, out);
    strbuf_init(&value);
    if (count > 0)
        qsort(entries, (size_t)count, sizeof *entries, by_name);
    int status = add_records(&table, entries, count, &value, err);
    if (status == 0)
        status = table_writer_finish(&table, err);
    strbuf_release(&value);
    table_writer_release(&table);
    return status;
}

/* ---- reading ---- */

/* An entry as it is stored. */
struct stored {
    uint64_t data_type, shard, offset, size, slices;
    uint32_t crc;
    struct shape shape;
    int dims; /* may be more than fit into the shape */
};

static int read_dim(const struct proto_reader *shape, const struct proto_field *dim,
                    struct stored *out, struct error *err)
{
    struct proto_reader message;
    struct proto_field field;
    int more;
    uint64_t size = 0;
    if (proto_enter(shape, dim, &message, err) < 0)
        return -1;
    while ((more = proto_next(&message, &field, err)) > 0) {
        if (field.number == DIM_SIZE && proto_expect(&message, &field, PROTO_VARINT, err) < 0)
            return -1;
        if (field.number == DIM_SIZE)
            size = field.value;
    }
    if (more == 0 && size > INT64_MAX)
        return error_set(err, ERROR_FORMAT, "dimension %d is negative", out->dims);
    if (out->dims < TENSOR_MAX_DIMS)
        out->shape.dim[out->shape.ndim++] = (int64_t)size;
    out->dims++;
    return more;
}

static int read_shape(const struct proto_reader *entry, const struct proto_field *shape,
                      struct stored *out, struct error *err)
{
    struct proto_reader message;
    struct proto_field field;
    int more;
    if (proto_enter(entry, shape, &message, err) < 0)
        return -1;
    while ((more = proto_next(&message, &field, err)) > 0)
        if (field.number == DIM && read_dim(&message, &field, out, err) < 0)
            return -1;
    return more;
}

/* Field `field` of an entry. */
static int read_field(const struct proto_reader *message, const struct proto_field *field,
                      struct stored *out, struct error *err)
{
    uint64_t *number = field->number == DTYPE      ? &out->data_type
                       : field->number == SHARD_ID ? &out->shard
                       : field->number == OFFSET   ? &out->offset
                       : field->number == SIZE     ? &out->size
                                                   : NULL;
    if (number && proto_expect(message, field, PROTO_VARINT, err) < 0)
        return -1;
    if (number)
        *number = field->value;
    if (field->number == SHAPE_FIELD)
        return read_shape(message, field, out, err);
    if (field->number == SLICES)
        out->slices++;
    if (field->number != CRC)
        return 0;
    out->crc = (uint32_t)field->value;
    return proto_expect(message, field, PROTO_FIXED32, err);
}

static int read_stored(const uint8_t *bytes, size_t count, struct stored *out, struct error *err)
{
    struct proto_reader message;
    struct proto_field field;
    int more;
    *out = (struct stored){0};
    proto_open(&message, bytes, count);
    while ((more = proto_next(&message, &field, err)) > 0)
        if (read_field(&message, &field, out, err) < 0)
            return -1;
    return more;
}

struct reading {
    struct arena *arena;
    struct bundle_index index;
    size_t names_bytes;
    bool has_header;
    int expected; /* entries */
};

/* Why an entry is no tensor of ours, or NULL. */
static const char *reason_against(const struct stored *stored, struct arena *arena)
{
    bool known = stored->data_type < DATA_TYPES && data_types[stored->data_type].name;
    const char *reason = NULL;
    if (stored->slices > 0)
        return "it is kept in slices, as a partitioned variable";
    if (!known)
        reason =
            arena_format(arena, "its dtype is TensorFlow's number %" PRIu64, stored->data_type);
    else if (data_types[stored->data_type].ours < 0)
        reason = arena_format(arena, "its dtype is %s", data_types[stored->data_type].name);
    else if (stored->dims > TENSOR_MAX_DIMS)
        reason = arena_format(arena, "it has %d dimensions, and %d are the most", stored->dims,
                              TENSOR_MAX_DIMS);
    else
        return NULL;
    return reason ? reason : "it is of an unknown kind"; /* memory is short */
}

static void classify(const struct stored *stored, struct arena *arena, struct bundle_entry *out)
{
    bool known = stored->data_type < DATA_TYPES && data_types[stored->data_type].name;
    out->form = stored->slices > 0 ? BUNDLE_UNCHECKED
                : known            ? data_types[stored->data_type].form
                                   : BUNDLE_NUMBERS;
    out->unreadable = reason_against(stored, arena);
    if (!out->unreadable) {
        out->dtype = (enum dtype)data_types[stored->data_type].ours;
        out->shape = stored->shape;
    }
}

static int check_size(const struct bundle_entry *entry, struct error *err)
{
    size_t bytes = entry->form == BUNDLE_NUMBERS ? dtype_bytes(entry->dtype) : 1;
    bool overflow = false;
    char text[160];
    for (int i = 0; i < entry->shape.ndim; i++)
        overflow |= __builtin_mul_overflow(bytes, (size_t)entry->shape.dim[i], &bytes);
    /* Each string has at least one byte, for its length. */
    bool fits = entry->form == BUNDLE_NUMBERS ? bytes == entry->bytes : bytes <= entry->bytes;
    if (overflow || !fits)
        return error_set(err, ERROR_FORMAT, "%s of shape %s cannot have %" PRIu64 " bytes",
                         dtype_name(entry->dtype), shape_text(&entry->shape, text, sizeof text),
                         entry->bytes);
    return 0;
}

static int make_entry(const struct reading *reading, const struct stored *stored,
                      struct bundle_entry *out, struct error *err)
{
    classify(stored, reading->arena, out);
    if (stored->slices > 0)
        return 0;
    if (stored->shard >= (uint64_t)reading->index.shards)
        return error_set(err, ERROR_FORMAT, "is in data file %" PRIu64 " of %d", stored->shard,
                         reading->index.shards);
    if (stored->offset > INT64_MAX || stored->size > INT64_MAX - stored->offset)
        return error_set(err, ERROR_FORMAT,
                         "cannot lie at offset %" PRIu64 " with %" PRIu64 " bytes", stored->offset,
                         stored->size);
    out->shard = (int)stored->shard;
    out->offset = stored->offset;
    out->bytes = stored->size;
    out->crc = stored->crc;
    return out->unreadable ? 0 : check_size(out, err);
}

static int read_version(const struct proto_reader *header, const struct proto_field *version,
                        struct error *err)
{
    struct proto_reader message;
    struct proto_field field;
    int more;
    if (proto_enter(header, version, &message, err) < 0)
        return -1;
    while ((more = proto_next(&message, &field, err)) > 0)
        if (field.number == MIN_CONSUMER && field.value > FORMAT_VERSION)
            return error_set(err, ERROR_FORMAT,
                             "needs a reader of version %" PRIu64 " of the format; this one is %d",
                             field.value, FORMAT_VERSION);
    return more;
}

static int read_header(struct reading *reading, const uint8_t *bytes, size_t count,
                       struct error *err)
{
    struct proto_reader message;
    struct proto_field field;
    uint64_t shards = 0;
    int more;
    proto_open(&message, bytes, count);
    while ((more = proto_next(&message, &field, err)) > 0) {
        if (field.number == NUM_SHARDS)
            shards = field.value;
        if (field.number == ENDIANNESS && field.value != 0)
            return error_set(err, ERROR_FORMAT, "was written by a big-endian machine");
        if (field.number == VERSION && read_version(&message, &field, err) < 0)
            return -1;
    }
    if (more == 0 && (shards < 1 || shards > MAX_SHARDS))
        return error_set(err, ERROR_FORMAT, "has %" PRIu64 " data files; from 1 to %d can be read",
                         shards, MAX_SHARDS);
    reading->index.shards = (int)shards;
    reading->has_header = true;
    return more;
}

static bool is_slice(const uint8_t *key, size_t key_bytes)
{
    return key_bytes > 0 && key[0] == 0;
}

/* The first walk: how much there is. */
static int count_record(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                        size_t value_bytes, struct error *err)
{
    struct reading *reading = context;
    if (!reading->has_header) {
        if (key_bytes > 0)
            return error_set(err, ERROR_FORMAT, "is a table, but not of a tensor bundle");
        return read_header(reading, value, value_bytes, err);
    }
    if (is_slice(key, key_bytes))
        return 0;
    reading->names_bytes += key_bytes;
    if (reading->names_bytes > MAX_NAMES_BYTES)
        return error_set(err, ERROR_FORMAT, "has names of more than %d bytes", MAX_NAMES_BYTES);
    reading->expected++;
    return 0;
}

static int keep_record(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                       size_t value_bytes, struct error *err)
{
    struct reading *reading = context;
    struct bundle_entry entry = {0};
    struct stored stored;
    if (key_bytes == 0 || is_slice(key, key_bytes))
        return 0;
    if (memchr(key, 0, key_bytes))
        return error_set(err, ERROR_FORMAT, "has a name with a zero byte in it");
    char *name = arena_take(reading->arena, key_bytes + 1);
    if (!name)
        return error_set(err, ERROR_MEMORY, "no memory for its names");
    memcpy(name, key, key_bytes);
    entry.name = name;
    if (read_stored(value, value_bytes, &stored, err) < 0 ||
        make_entry(reading, &stored, &entry, err) < 0)
        return error_wrap(err, "'%.200s'", name);
    reading->index.entries[reading->index.count++] = entry;
    return 0;
}

int bundle_index_read(const char *name, const void *bytes, size_t count, struct arena *arena,
                      struct bundle_index *out, struct error *err)
{
    struct reading reading = {.arena = arena};
    if (table_walk(name, bytes, count, count_record, &reading, err) < 0)
        return -1;
    if (!reading.has_header)
        return error_set(err, ERROR_FORMAT, "%s: is an empty table", name);
    reading.index.entries = ARENA_ARRAY(arena, struct bundle_entry, reading.expected + 1);
    if (!reading.index.entries)
        return error_set(err, ERROR_MEMORY, "%s: no memory for %d entries", name, reading.expected);
    if (table_walk(name, bytes, count, keep_record, &reading, err) < 0)
        return -1;
    *out = reading.index;
    return 0;
}
