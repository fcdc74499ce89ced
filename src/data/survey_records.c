/* TFRecord shards: every record, also those behind a damaged one. */
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/shard_names.h"
#include "data/storage.h"
#include "data/survey_internal.h"
#include "wire/example.h"
#include "wire/tfrecord.h"
#include "wire/unpack.h"

enum { UNPACK_STEP = 1 << 20 };
static const size_t UNPACK_LIMIT = (size_t)4 << 30; /* a packed shard is looked at in memory */

/* One shard: which file, and of which split. */
struct shard {
    int file;
    enum dataset_split split;
};

struct records {
    struct surveyor *surveyor;
    struct storage *storage;
    struct shard *shards;
    int shard_count;
};

/* What is left of a shard to be read. */
struct reading {
    struct surveyor *surveyor;
    enum dataset_split split;
    const char *name;
    const uint8_t *bytes;
    size_t count;
};

/* --- one record ----------------------------------------------------------------------------- */

enum { LABEL, SYNSET, TEXT, ENCODED, FEATURES };
static const char *const names[FEATURES] = {"image/class/label", "image/class/synset",
                                            "image/class/text", "image/encoded"};

static void copy_name(const struct feature *features, char *out, size_t bytes)
{
    const uint8_t *text;
    size_t count;
    *out = '\0';
    if ((feature_bytes(&features[TEXT], 0, &text, &count) && count > 0) ||
        (feature_bytes(&features[SYNSET], 0, &text, &count) && count > 0))
        snprintf(out, bytes, "%.*s", (int)count, (const char *)text);
}

static void visit_record(const struct reading *reading, const struct tfrecord *record)
{
    struct feature features[FEATURES];
    struct error err = {0};
    char name[SURVEY_NAME_BYTES];
    int64_t label;
    struct survey_picture picture = {
        .split = reading->split, .file = reading->name, .offset = record->offset, .name = name};
    if (example_find(record->data, record->bytes, names, FEATURES, features, &err) < 0) {
        surveyor_add_problem(reading->surveyor, reading->name, (int64_t)record->offset,
                             err.message);
        return;
    }
    if (!feature_bytes(&features[ENCODED], 0, &picture.encoded, &picture.bytes)) {
        surveyor_add_problem(reading->surveyor, reading->name, (int64_t)record->offset,
                             "the record has no image/encoded");
        return;
    }
    copy_name(features, name, sizeof name);
    picture.label =
        feature_int64(&features[LABEL], 0, &label) && label >= 0 && label < SURVEY_MAX_LABELS
            ? (int)label
            : -1;
    surveyor_add_picture(reading->surveyor, &picture);
}

/* --- one shard ------------------------------------------------------------------------------ */

/* Behind a damaged record: where the next header is whose sum fits and whose record lies in the
 * file. When the damaged one's own length is right, that is the record behind it. */
static uint64_t find_next(const struct reading *reading, uint64_t damaged)
{
    uint64_t length, least = TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES;
    if (reading->count < least)
        return reading->count;
    for (uint64_t at = damaged; at <= reading->count - least; at++) {
        if (tfrecord_length(reading->name, at, reading->bytes + at, &length, NULL) < 0 ||
            length > reading->count - at - least)
            continue;
        if (at > damaged)
            return at;
        return at + length + least;
    }
    return reading->count;
}

static void visit_records(const struct reading *reading, bool packed, struct work_counts *counts)
{
    struct tfrecord record;
    struct error err = {0};
    uint64_t at = 0;
    for (;;) {
        uint64_t start = at;
        int found =
            tfrecord_next(reading->name, reading->bytes, reading->count, &at, &record, &err);
        if (found == 0)
            return;
        if (found < 0) {
            surveyor_add_problem(reading->surveyor, reading->name, (int64_t)start, err.message);
            at = find_next(reading, start);
        } else {
            visit_record(reading, &record);
        }
        work_count(counts, packed ? 0 : (int64_t)(at - start), at - start);
    }
}

struct unpacked {
    uint8_t *bytes;
    size_t count, capacity;
};

/* The packed file, piece by piece. */
struct packed {
    const uint8_t *bytes;
    size_t count, given;
};

static int give_packed(void *context, const uint8_t **bytes, size_t *count, struct error *err)
{
    struct packed *packed = context;
    size_t left = packed->count - packed->given;
    (void)err;
    *bytes = packed->bytes + packed->given;
    *count = left < UNPACK_STEP ? left : UNPACK_STEP;
    packed->given += *count;
    return 0;
}

static int append(struct unpacked *unpacked, const uint8_t *bytes, size_t count, struct error *err)
{
    if (unpacked->count + count > UNPACK_LIMIT)
        return error_set(err, ERROR_MEMORY, "it unpacks to more than %zu GiB; unpack it first",
                         UNPACK_LIMIT >> 30);
    if (unpacked->count + count > unpacked->capacity) {
        size_t capacity = 2 * (unpacked->count + count);
        uint8_t *larger = memory_resize(unpacked->bytes, capacity);
        if (!larger)
            return error_set(err, ERROR_MEMORY, "no memory to unpack it");
        unpacked->bytes = larger;
        unpacked->capacity = capacity;
    }
    memcpy(unpacked->bytes + unpacked->count, bytes, count);
    unpacked->count += count;
    return 0;
}

static int unpack_all(const char *name, struct packed *packed, struct unpacked *out,
                      struct error *err)
{
    struct unpacker *unpacker;
    const uint8_t *bytes;
    size_t count = 1;
    if (unpacker_create(name, give_packed, packed, &unpacker, err) < 0)
        return -1;
    int status = 0;
    while (status == 0 && count > 0) {
        status = unpacker_next(unpacker, &bytes, &count, err);
        if (status == 0 && count > 0)
            status = append(out, bytes, count, err);
    }
    unpacker_destroy(unpacker);
    return status;
}

/* As much as can be unpacked, which on damage is less than all: then a problem is noted, and the
 * records in front of it are still looked at. */
static void unpack(struct surveyor *surveyor, const char *name, const uint8_t *bytes, size_t count,
                   struct unpacked *out)
{
    struct packed packed = {bytes, count, 0};
    struct error failure = {0};
    if (unpack_all(name, &packed, out, &failure) < 0)
        surveyor_add_problem(surveyor, name, (int64_t)packed.given, failure.message);
}

static int visit_shard(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    const struct records *records = context;
    const struct shard *shard = &records->shards[job];
    const struct storage_file *files;
    char name[PATH_MAX];
    struct reading reading = {records->surveyor, shard->split, name, NULL, 0};
    struct unpacked unpacked = {0};
    (void)err;
    storage_files(records->storage, &files);
    reading.count = files[shard->file].bytes;
    storage_describe(records->storage, shard->file, name, sizeof name);
    struct error failure = {0};
    if (storage_map(records->storage, shard->file, &reading.bytes, &failure) < 0) {
        surveyor_add_problem(records->surveyor, name, -1, failure.message);
        return 0;
    }
    bool packed = tfrecord_packing_of(reading.bytes, reading.count) != TFRECORD_PLAIN;
    if (packed) {
        unpack(records->surveyor, name, reading.bytes, reading.count, &unpacked);
        reading.bytes = unpacked.bytes;
        reading.count = unpacked.count;
    }
    visit_records(&reading, packed, counts);
    memory_free(unpacked.bytes);
    work_count(counts, packed ? (int64_t)files[shard->file].bytes : 0, 0);
    return 0;
}

/* --- all shards ----------------------------------------------------------------------------- */

static bool is_shard(const char *path, enum dataset_split *split)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (!strstr(name, "-of-") || (length > 5 && strcmp(name + length - 5, ".part") == 0))
        return false;
    *split = strncmp(name, "train-", 6) == 0 ? SPLIT_TRAIN : SPLIT_EVALUATE;
    return *split == SPLIT_TRAIN || strncmp(name, "validation-", 11) == 0;
}

static bool has_split(const struct storage *storage, enum dataset_split split)
{
    const struct storage_file *files;
    int count = storage_files(storage, &files);
    enum dataset_split found;
    for (int i = 0; i < count; i++)
        if (is_shard(files[i].name, &found) && found == split)
            return true;
    return false;
}

/* Those that training would read, so that a missing one is missed here, too. */
static int find_split(struct records *records, enum dataset_split split, int64_t *bytes,
                      struct error *err)
{
    const struct storage_file *files;
    storage_files(records->storage, &files);
    int *numbers;
    int count = shard_names_find(records->storage, split == SPLIT_TRAIN ? "train" : "validation",
                                 &numbers, err);
    if (count < 0)
        return -1;
    struct survey_split *found = &records->surveyor->survey->splits[split];
    found->there = true;
    for (int i = 0; i < count; i++) {
        uint64_t file_bytes = files[numbers[i]].bytes;
        found->files++;
        found->bytes += file_bytes;
        *bytes += (int64_t)file_bytes;
        records->shards[records->shard_count++] = (struct shard){numbers[i], split};
    }
    memory_free(numbers);
    return 0;
}

static int find_shards(struct records *records, int64_t *bytes, struct error *err)
{
    const struct storage_file *files;
    int count = storage_files(records->storage, &files);
    records->shards = memory_allocate((size_t)(count + 1) * sizeof *records->shards);
    if (!records->shards)
        return error_set(err, ERROR_MEMORY, "no memory for the list of shards");
    for (int split = 0; split < 2; split++)
        if (has_split(records->storage, (enum dataset_split)split) &&
            find_split(records, (enum dataset_split)split, bytes, err) < 0)
            return -1;
    if (records->shard_count == 0)
        return error_set(err, ERROR_IO, "%s holds no shards (train-*-of-*, validation-*-of-*)",
                         records->surveyor->path);
    return 0;
}

int survey_records(struct surveyor *surveyor, struct error *err)
{
    struct records records = {.surveyor = surveyor};
    int64_t bytes = 0;
    if (storage_open(surveyor->path, &records.storage, err) < 0)
        return -1;
    int status = find_shards(&records, &bytes, err);
    if (status == 0)
        status = work_run(surveyor->work, records.shard_count, bytes, visit_shard, &records, err);
    memory_free(records.shards);
    storage_close(records.storage);
    return status;
}
