#include "data/convert.h"

#include <inttypes.h>
#include <limits.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/annotations.h"
#include "data/destination.h"
#include "data/fingerprint.h"
#include "data/gather.h"
#include "data/picture_record.h"
#include "data/pictures.h"
#include "data/work.h"
#include "tensor/random.h"

enum {
    /* ImageNet comes out at the usual 1024 and 128 shards. */
    PICTURES_PER_TRAIN_SHARD = 1250,
    PICTURES_PER_VALIDATION_SHARD = 390,
    MAX_DEFAULT_TRAIN_SHARDS = 1024,
    MAX_DEFAULT_VALIDATION_SHARDS = 128,
    MAX_SHARDS = 99999, /* five digits */
};

struct conversion {
    const struct convert_settings *settings;
    struct arena *arena;
    struct gathering *gathering;
    struct class_names *names;
    struct boxes *boxes;
    struct pictures *pictures;
    struct destination *destination;
    int shards[2]; /* by split; 0 for a split without pictures */
    atomic_int kept[2];
    atomic_int_least64_t encoded_anew, bad;
};

/* What one thread needs to write one shard. */
struct shard {
    struct conversion *conversion;
    enum dataset_split split;
    struct tfrecord_writer *writer;
    uint8_t *encoded; /* the file as it was read */
    size_t capacity;
    struct strbuf message;
};

/* --- the sources ---------------------------------------------------------------------------- */

static int read_annotations(struct conversion *conversion, struct gather_settings *gather,
                            struct error *err)
{
    const struct convert_settings *settings = conversion->settings;
    int64_t count = 0;
    if (settings->labels && annotations_read_words(settings->labels, conversion->arena,
                                                   &gather->classes, &count, err) < 0)
        return -1;
    gather->class_count = (int)count;
    if (settings->validation_labels &&
        annotations_read_words(settings->validation_labels, conversion->arena,
                               &gather->validation_labels, &gather->validation_count, err) < 0)
        return -1;
    if (settings->names &&
        class_names_read(settings->names, conversion->arena, &conversion->names, err) < 0)
        return -1;
    if (settings->boxes &&
        boxes_read(settings->boxes, conversion->arena, &conversion->boxes, err) < 0)
        return -1;
    return 0;
}

static int choose_shards(struct conversion *conversion, struct error *err)
{
    static const int usual[2] = {PICTURES_PER_TRAIN_SHARD, PICTURES_PER_VALIDATION_SHARD};
    static const int most[2] = {MAX_DEFAULT_TRAIN_SHARDS, MAX_DEFAULT_VALIDATION_SHARDS};
    for (int split = 0; split < 2; split++) {
        int64_t count = conversion->gathering->splits[split].count;
        int64_t shards = conversion->settings->shards[split];
        if (count > 0 && shards == 0) {
            shards = (count + usual[split] - 1) / usual[split];
            shards = shards < most[split] ? shards : most[split];
        }
        if (count > 0 && (shards > count || shards > MAX_SHARDS))
            return error_set(err, ERROR_USAGE,
                             "%" PRId64 " shards are too many for %" PRId64 " %s pictures", shards,
                             count, split == SPLIT_TRAIN ? "training" : "validation");
        conversion->shards[split] = count > 0 ? (int)shards : 0;
    }
    return 0;
}

/* --- the manifest --------------------------------------------------------------------------- */

/* A number that changes with what is converted: names, sizes, labels, texts and boxes. */
static uint64_t fingerprint(const struct conversion *conversion)
{
    const struct gathering *gathering = conversion->gathering;
    uint64_t key = 1;
    for (int i = 0; i < gathering->class_count; i++) {
        key = random_key_text(key, gathering->classes[i]);
        key = random_key_text(key, class_names_find(conversion->names, gathering->classes[i]));
    }
    for (int split = 0; split < 2; split++) {
        key = random_key(key, (uint64_t)gathering->splits[split].count);
        for (int64_t i = 0; i < gathering->splits[split].count; i++) {
            const struct gathered_picture *picture = &gathering->splits[split].pictures[i];
            const struct box *box;
            key = random_key_text(random_key(key, picture->bytes), picture->name);
            key = random_key(key, (uint64_t)picture->label);
            for (int n = boxes_find(conversion->boxes, picture->name, &box); n > 0; n--, box++) {
                const float corners[] = {box->xmin, box->ymin, box->xmax, box->ymax};
                key = random_key(key, fingerprint64((const char *)corners, sizeof corners));
            }
        }
    }
    return key;
}

static struct json *make_manifest(const struct conversion *conversion)
{
    static const char *const packings[] = {"none", "gzip", "zlib"};
    const struct convert_settings *settings = conversion->settings;
    char key[20];
    snprintf(key, sizeof key, "%016" PRIx64, fingerprint(conversion));
    struct json *json = json_object_create();
    if (!json)
        return NULL;
    json_set_integer(json, "train pictures", conversion->gathering->splits[SPLIT_TRAIN].count);
    json_set_integer(json, "validation pictures",
                     conversion->gathering->splits[SPLIT_EVALUATE].count);
    json_set_integer(json, "classes", conversion->gathering->class_count);
    json_set_integer(json, "train shards", conversion->shards[SPLIT_TRAIN]);
    json_set_integer(json, "validation shards", conversion->shards[SPLIT_EVALUATE]);
    json_set_integer(json, "resize", settings->resize);
    json_set_integer(json, "quality", settings->quality);
    json_set_text(json, "packing", packings[settings->packing]);
    json_set_integer(json, "shuffle seed", (int64_t)settings->seed);
    json_set_text(json, "fingerprint of the pictures", key);
    return json;
}

static void member_text(const struct json *object, const char *key, char *text, size_t bytes)
{
    const char *found = json_get_text(object, key, NULL);
    if (found)
        snprintf(text, bytes, "%s", found);
    else
        snprintf(text, bytes, "%" PRId64, json_get_integer(object, key, -1));
}

static int compare_manifests(const char *target, const struct json *before, const struct json *now,
                             struct error *err)
{
    const char *key;
    void *state = NULL;
    while (json_next(now, &state, &key)) {
        char was[64], is[64];
        member_text(before, key, was, sizeof was);
        member_text(now, key, is, sizeof is);
        if (strcmp(was, is) != 0)
            return error_set(err, ERROR_USAGE,
                             "%s was begun with other settings: %s was %s, now %s; repeat those, "
                             "or choose another directory",
                             target, key, was, is);
    }
    return 0;
}

static void shard_name(const struct conversion *conversion, enum dataset_split split, int shard,
                       char *name, size_t bytes)
{
    snprintf(name, bytes, "%s-%05d-of-%05d", split == SPLIT_TRAIN ? "train" : "validation", shard,
             conversion->shards[split]);
}

static int check_against_earlier(const struct conversion *conversion, const struct json *now,
                                 struct error *err)
{
    char *text;
    size_t bytes;
    struct json *before = NULL;
    if (destination_read(conversion->destination, CONVERT_MANIFEST, &text, &bytes, err) < 0)
        return -1;
    int status = json_parse(text, bytes, &before, err);
    memory_free(text);
    if (status < 0)
        return error_wrap(err, "%s/" CONVERT_MANIFEST, conversion->settings->target);
    status = compare_manifests(conversion->settings->target, before, now, err);
    json_release(before);
    return status;
}

static int write_manifest(const struct conversion *conversion, const struct json *json,
                          struct error *err)
{
    for (int split = 0; split < 2; split++) {
        char name[64];
        shard_name(conversion, split, 0, name, sizeof name);
        if (conversion->shards[split] && destination_has(conversion->destination, name))
            return error_set(err, ERROR_USAGE,
                             "%s has a %s that is not of `data convert`; choose another directory",
                             conversion->settings->target, name);
    }
    char *text = json_text(json, true);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the manifest");
    int status =
        destination_write(conversion->destination, CONVERT_MANIFEST, text, strlen(text), err);
    memory_free(text);
    return status;
}

static int settle_manifest(const struct conversion *conversion, struct error *err)
{
    struct json *json = make_manifest(conversion);
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the manifest");
    int status = destination_has(conversion->destination, CONVERT_MANIFEST)
                     ? check_against_earlier(conversion, json, err)
                     : write_manifest(conversion, json, err);
    json_release(json);
    return status;
}

/* --- one picture, one shard ----------------------------------------------------------------- */

/* Decoded, made smaller if wanted, and encoded as RGB. *out is the caller's. */
static int encode_anew(const struct shard *shard, size_t bytes, struct picture_record *record,
                       uint8_t **out, struct error *err)
{
    const struct convert_settings *settings = shard->conversion->settings;
    struct picture picture = {0}, smaller = {0};
    int status = -1;
    if (pictures_decode(shard->conversion->pictures, shard->encoded, bytes, &picture, err) < 0)
        return -1;
    int side = picture.width < picture.height ? picture.width : picture.height;
    if (settings->resize && side > settings->resize) {
        int width = (int)(((int64_t)picture.width * settings->resize + side / 2) / side);
        int height = (int)(((int64_t)picture.height * settings->resize + side / 2) / side);
        if (picture_resize(&picture, width, height, &smaller, err) < 0)
            goto out;
    }
    const struct picture *result = smaller.pixels ? &smaller : &picture;
    if (picture_encode_jpeg(result, settings->quality, out, &record->encoded_bytes, err) < 0)
        goto out;
    record->encoded = *out;
    record->width = result->width;
    record->height = result->height;
    atomic_fetch_add(&shard->conversion->encoded_anew, 1);
    status = 0;
out:
    memory_free(smaller.pixels);
    memory_free(picture.pixels);
    return status;
}

static int prepare_picture(const struct shard *shard, size_t bytes, struct picture_record *record,
                           uint8_t **owned, struct error *err)
{
    struct picture_info info;
    if (pictures_probe(shard->conversion->pictures, shard->encoded, bytes, &info, err) < 0)
        return -1;
    int side = info.width < info.height ? info.width : info.height;
    int resize = shard->conversion->settings->resize;
    if (info.format != PICTURE_JPEG || info.channels == 4 || (resize && side > resize))
        return encode_anew(shard, bytes, record, owned, err);
    if (shard->conversion->settings->check) {
        struct picture picture;
        if (pictures_decode(shard->conversion->pictures, shard->encoded, bytes, &picture, err) < 0)
            return -1;
        memory_free(picture.pixels);
    }
    record->encoded = shard->encoded;
    record->encoded_bytes = bytes;
    record->width = info.width;
    record->height = info.height;
    return 0;
}

/* 0: it may be left out. Which ones are named when there are too many depends on the threads, what is
 * written does not. */
static int leave_out(struct conversion *conversion, struct error *failure, struct error *err)
{
    int64_t limit = conversion->settings->skip_bad;
    if (limit && failure->code == ERROR_FORMAT && atomic_fetch_add(&conversion->bad, 1) < limit) {
        log_line(LOG_WARNING, "left out: %s", failure->message);
        return 0;
    }
    if (limit && failure->code == ERROR_FORMAT)
        error_wrap(failure, "more than %" PRId64 " bad pictures", limit);
    return error_set(err, failure->code, "%s", failure->message);
}

static int add_picture(struct shard *shard, const struct gathered_picture *picture,
                       struct work_counts *counts, struct error *err)
{
    struct conversion *conversion = shard->conversion;
    const struct gathering *gathering = conversion->gathering;
    const char *class_name = gathering->classes[picture->label];
    struct picture_record record = {.label = picture->label,
                                    .synset = class_name,
                                    .text = class_names_find(conversion->names, class_name),
                                    .filename = picture->name};
    uint8_t *owned = NULL;
    struct error failure = {0};
    if (gathered_read(gathering, picture, &shard->encoded, &shard->capacity, err) < 0)
        return -1;
    if (prepare_picture(shard, picture->bytes, &record, &owned, &failure) < 0) {
        char where[PATH_MAX];
        error_wrap(&failure, "%s", gathered_describe(gathering, picture, where, sizeof where));
        work_count(counts, 1, 0);
        return leave_out(conversion, &failure, err);
    }
    record.box_count = boxes_find(conversion->boxes, picture->name, &record.boxes);
    picture_record_write(&record, &shard->message);
    memory_free(owned);
    if (shard->message.failed)
        return error_set(err, ERROR_MEMORY, "no memory for a record");
    if (tfrecord_writer_add(shard->writer, shard->message.text, shard->message.length, err) < 0)
        return -1;
    work_count(counts, 1, shard->message.length + TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES);
    return 0;
}

/* Records [first, last) of the shuffled split. */
static int add_pictures(struct shard *shard, int64_t first, int64_t last,
                        struct work_counts *counts, const atomic_int *stop, struct error *err)
{
    const struct gathered_split *split = &shard->conversion->gathering->splits[shard->split];
    uint64_t key = random_key_text(shard->conversion->settings->seed,
                                   shard->split == SPLIT_TRAIN ? "train" : "validation");
    for (int64_t i = first; i < last; i++) {
        if (stop && atomic_load(stop))
            return error_set(err, ERROR_CANCELLED, "stopped");
        int64_t place = random_permute(key, split->count, i);
        if (add_picture(shard, &split->pictures[place], counts, err) < 0)
            return -1;
    }
    return 0;
}

struct conversion_run {
    struct conversion *conversion;
    const atomic_int *stop;
};

static int write_shard(struct conversion_run *run, enum dataset_split split, int index,
                       struct work_counts *counts, struct error *err)
{
    struct conversion *conversion = run->conversion;
    int64_t count = conversion->gathering->splits[split].count, shards = conversion->shards[split];
    int64_t first = count * index / shards, last = count * (index + 1) / shards;
    char name[64], path[PATH_MAX];
    shard_name(conversion, split, index, name, sizeof name);
    if (destination_has(conversion->destination, name)) {
        atomic_fetch_add(&conversion->kept[split], 1);
        work_count(counts, last - first, 0);
        return 0;
    }
    struct shard shard = {.conversion = conversion, .split = split};
    strbuf_init(&shard.message);
    destination_place(conversion->destination, name, path);
    int status = tfrecord_writer_create(path, conversion->settings->packing, &shard.writer, err);
    if (status == 0)
        status = add_pictures(&shard, first, last, counts, run->stop, err);
    if (status == 0)
        status = tfrecord_writer_finish(shard.writer, err);
    tfrecord_writer_destroy(shard.writer);
    if (status == 0)
        status = destination_deliver(conversion->destination, name, err);
    strbuf_release(&shard.message);
    memory_free(shard.encoded);
    return status;
}

static int run_job(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    struct conversion_run *run = context;
    int train = run->conversion->shards[SPLIT_TRAIN];
    return job < train ? write_shard(run, SPLIT_TRAIN, (int)job, counts, err)
                       : write_shard(run, SPLIT_EVALUATE, (int)job - train, counts, err);
}

/* --- all of it ------------------------------------------------------------------------------ */

static int prepare(struct conversion *conversion, const atomic_int *stop, struct error *err)
{
    struct gather_settings gather = {.path = conversion->settings->source, .stop = stop};
    if (!(conversion->arena = arena_create()))
        return error_set(err, ERROR_MEMORY, "no memory to start with");
    if (read_annotations(conversion, &gather, err) < 0 ||
        gather_any(&gather, &conversion->gathering, err) < 0 ||
        choose_shards(conversion, err) < 0 || pictures_create(&conversion->pictures, err) < 0 ||
        destination_open(conversion->settings->target, stop, &conversion->destination, err) < 0)
        return -1;
    return settle_manifest(conversion, err);
}

/* Adds the bytes of the jobs to what the caller sees. */
struct byte_watch {
    const struct work *work;
    uint64_t bytes;
};

static void observe(void *context, const struct work_state *state)
{
    struct byte_watch *watch = context;
    watch->bytes = state->bytes;
    if (watch->work->observe)
        watch->work->observe(watch->work->context, state);
}

int convert_run(const struct convert_settings *settings, const struct work *work,
                struct convert_report *out, struct error *err)
{
    struct conversion conversion = {.settings = settings};
    struct conversion_run run = {&conversion, work->stop};
    struct byte_watch watch = {.work = work};
    struct work watched = {work->threads, work->stop, observe, &watch};
    struct convert_report report = {0};
    int status = prepare(&conversion, work->stop, err);
    if (status == 0) {
        const struct gathered_split *splits = conversion.gathering->splits;
        status = work_run(&watched, conversion.shards[0] + conversion.shards[1],
                          splits[0].count + splits[1].count, run_job, &run, err);
        if (status == 0) {
            destination_sweep(conversion.destination, CONVERT_MANIFEST);
            destination_sweep(conversion.destination, "train-");
            destination_sweep(conversion.destination, "validation-");
        }
        for (int i = 0; i < 2; i++) {
            report.pictures[i] = splits[i].count;
            report.shards[i] = conversion.shards[i];
            report.kept[i] = atomic_load(&conversion.kept[i]);
        }
        report.classes = conversion.gathering->class_count;
        report.encoded_anew = atomic_load(&conversion.encoded_anew);
        report.left_out = atomic_load(&conversion.bad);
        report.bytes = watch.bytes;
    }
    *out = report;
    destination_close(conversion.destination);
    pictures_destroy(conversion.pictures);
    gathering_destroy(conversion.gathering);
    arena_destroy(conversion.arena);
    return status;
}
