/* TFRecord shards: every record, also those behind a damaged one. */
#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/shard_names.h"
#include "data/shard_stream.h"
#include "data/storage.h"
#include "data/survey_internal.h"
#include "wire/example.h"
#include "wire/tfrecord.h"

enum {
    FRAME_BYTES = TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES,
    RECORD_LIMIT = 256 << 20, /* bytes of a record that is held in memory to be looked at */
};

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

/* A shard that is being read. */
struct reading {
    struct surveyor *surveyor;
    enum dataset_split split;
    const char *name;
    struct shard_stream *stream;
    uint64_t counted; /* bytes of the file, for the progress */
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

/* Whether a record of this length at `at`, where the stream's stretch begins, ends within the
 * shard; if it is not too long for a picture, it is in memory then, and *bytes and *left are what
 * is known from there on. */
static int frame_is_whole(const struct reading *reading, uint64_t at, uint64_t length,
                          const uint8_t **bytes, uint64_t *left, bool *whole, struct error *err)
{
    uint64_t end;
    size_t count;
    if (length <= RECORD_LIMIT) {
        if (shard_stream_view(reading->stream, at, (size_t)length + FRAME_BYTES, bytes, &count,
                              err) < 0)
            return -1;
        *left = count;
    } else {
        if (shard_stream_end(reading->stream, &end, err) < 0)
            return -1;
        *left = end - at;
    }
    *whole = *left >= FRAME_BYTES && length <= *left - FRAME_BYTES;
    return 0;
}

/* Behind a damaged record: where the next header is whose sum fits and whose record lies in the
 * file. When the damaged one's own length is right, that is the record behind it. */
static int find_next(const struct reading *reading, uint64_t damaged, uint64_t *out,
                     struct error *err)
{
    for (uint64_t at = damaged;; at++) {
        const uint8_t *bytes;
        size_t count;
        uint64_t length, left;
        bool whole;
        if (shard_stream_view(reading->stream, at, FRAME_BYTES, &bytes, &count, err) < 0)
            return -1;
        if (count < FRAME_BYTES) {
            *out = at + count;
            return 0;
        }
        if (tfrecord_length(reading->name, at, bytes, &length, NULL) < 0)
            continue;
        if (frame_is_whole(reading, at, length, &bytes, &left, &whole, err) < 0)
            return -1;
        if (whole) {
            *out = at > damaged ? at : at + length + FRAME_BYTES;
            return 0;
        }
    }
}

/* The record at `at`: 1, or 0 at the end, or -1 with what is wrong with it in `damage`; that it
 * cannot be read is in `err`. */
static int look_at_record(const struct reading *reading, uint64_t at, struct tfrecord *record,
                          struct error *damage, struct error *err)
{
    const uint8_t *bytes;
    size_t count;
    uint64_t length, left;
    bool whole = false;
    if (shard_stream_view(reading->stream, at, TFRECORD_HEADER_BYTES, &bytes, &count, err) < 0)
        return -1;
    left = count;
    if (count >= TFRECORD_HEADER_BYTES &&
        tfrecord_length(reading->name, at, bytes, &length, NULL) == 0 &&
        frame_is_whole(reading, at, length, &bytes, &left, &whole, err) < 0)
        return -1;
    if (whole && length > RECORD_LIMIT)
        return error_set(damage, ERROR_FORMAT,
                         "%s: the record at offset %" PRIu64 " has %" PRIu64
                         " bytes; a picture has at most %d",
                         reading->name, at, length, RECORD_LIMIT);
    return tfrecord_first(reading->name, at, bytes, left, record, damage);
}

static void count_progress(struct reading *reading, uint64_t plain_bytes,
                           struct work_counts *counts)
{
    uint64_t taken = shard_stream_taken(reading->stream);
    work_count(counts, (int64_t)(taken - reading->counted), plain_bytes);
    reading->counted = taken;
}

static int visit_records(struct reading *reading, struct work_counts *counts, struct error *err)
{
    for (uint64_t at = 0, next;; at = next) {
        struct tfrecord record;
        struct error damage = {0};
        int found = look_at_record(reading, at, &record, &damage, err);
        if (found == 0)
            return 0;
        if (found < 0 && !damage.code)
            return -1;
        if (found > 0) {
            next = at + record.bytes + FRAME_BYTES;
            visit_record(reading, &record);
        } else {
            surveyor_add_problem(reading->surveyor, reading->name, (int64_t)at, damage.message);
            if (find_next(reading, at, &next, err) < 0)
                return -1;
        }
        count_progress(reading, next - at, counts);
    }
}

static int visit_stream(struct reading *reading, struct work_counts *counts, struct error *err)
{
    int status = visit_records(reading, counts, err);
    const char *damage = shard_stream_damage(reading->stream);
    if (damage)
        surveyor_add_problem(reading->surveyor, reading->name,
                             (int64_t)shard_stream_taken(reading->stream), damage);
    shard_stream_close(reading->stream);
    return status;
}

/* A shard that cannot be read is a problem like any other; only a stop ends the survey. */
static int visit_shard(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    const struct records *records = context;
    const struct shard *shard = &records->shards[job];
    char name[PATH_MAX];
    struct reading reading = {.surveyor = records->surveyor, .split = shard->split, .name = name};
    struct error failure = {0};
    storage_describe(records->storage, shard->file, name, sizeof name);
    int status = shard_stream_open(records->storage, shard->file, name, &reading.stream, &failure);
    if (status == 0)
        status = visit_stream(&reading, counts, &failure);
    if (status < 0 && failure.code == ERROR_CANCELLED)
        return error_set(err, failure.code, "%s", failure.message);
    if (status < 0)
        surveyor_add_problem(records->surveyor, name, -1, failure.message);
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
    if (storage_open(surveyor->path, surveyor->work->stop, &records.storage, err) < 0)
        return -1;
    int status = find_shards(&records, &bytes, err);
    if (status == 0)
        status = work_run(surveyor->work, records.shard_count, bytes, visit_shard, &records, err);
    memory_free(records.shards);
    storage_close(records.storage);
    return status;
}
