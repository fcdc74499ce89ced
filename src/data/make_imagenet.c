/* Drawn pictures as JPEGs in TFRecord shards, like ImageNet's in keys, sizes and bytes. */
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/destination.h"
#include "data/make.h"
#include "data/picture_record.h"
#include "data/pictures.h"
#include "data/scene.h"
#include "data/work.h"
#include "tensor/random.h"
#include "wire/tfrecord.h"

enum {
    DEFAULT_TRAIN = 10000,
    DEFAULT_EVALUATE = 1000,
    DEFAULT_CLASSES = 10,
    DEFAULT_SIDE = 500,
    PICTURES_PER_SHARD = 1250,
    MAX_SHARDS = 1024,
    QUALITY = 85,
};

struct making {
    const struct make_settings *settings;
    struct destination *destination;
    const atomic_int *stop;
    int64_t counts[2]; /* training, validation */
    int shards[2];
    int classes, side;
    uint64_t key;
    atomic_uint_least64_t bytes; /* of finished shards */
};

/* What a thread draws one shard with. */
struct shard {
    struct making *making;
    int split;
    struct tfrecord_writer *writer;
    uint8_t *pixels;
    struct strbuf message;
};

static void shard_name(const struct making *making, int split, int index, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s-%05d-of-%05d", split ? "validation" : "train", index,
             making->shards[split]);
}

/* Most photographs are 4:3, lying or standing. */
static void choose_size(const struct making *making, struct random *random, int *width, int *height)
{
    static const int shorter[] = {75, 75, 75, 67, 80, 100}; /* percent of the longer side */
    int side = making->side * shorter[random_below(random, 6)] / 100;
    bool standing = random_below(random, 4) == 0;
    side = side > 0 ? side : 1;
    *width = standing ? side : making->side;
    *height = standing ? making->side : side;
}

static int add_picture(struct shard *shard, int64_t index, struct work_counts *counts,
                       struct error *err)
{
    const struct making *making = shard->making;
    struct random random = {
        .key = random_key(random_key(making->key, (uint64_t)shard->split), (uint64_t)index)};
    struct picture picture = {.pixels = shard->pixels};
    char synset[16], text[32], filename[48];
    int label = (int)random_below(&random, making->classes);
    choose_size(making, &random, &picture.width, &picture.height);
    scene_draw(label, random_key_text(making->key, "classes"), random_next(&random), picture.width,
               picture.height, picture.pixels);
    uint8_t *encoded;
    struct picture_record record = {.width = picture.width,
                                    .height = picture.height,
                                    .label = label,
                                    .synset = synset,
                                    .text = text,
                                    .filename = filename};
    if (picture_encode_jpeg(&picture, QUALITY, &encoded, &record.encoded_bytes, err) < 0)
        return -1;
    snprintf(synset, sizeof synset, "n%08d", label + 1);
    snprintf(text, sizeof text, "drawn class %d", label + 1);
    snprintf(filename, sizeof filename, "%s_%lld.JPEG", synset, (long long)index);
    record.encoded = encoded;
    picture_record_write(&record, &shard->message);
    memory_free(encoded);
    if (shard->message.failed)
        return error_set(err, ERROR_MEMORY, "no memory for a record");
    work_count(counts, 1, shard->message.length);
    return tfrecord_writer_add(shard->writer, shard->message.text, shard->message.length, err);
}

static int fill_shard(struct shard *shard, int index, struct work_counts *counts, struct error *err)
{
    const struct making *making = shard->making;
    int64_t count = making->counts[shard->split], shards = making->shards[shard->split];
    for (int64_t i = count * index / shards; i < count * (index + 1) / shards; i++) {
        if (making->stop && atomic_load(making->stop))
            return error_set(err, ERROR_CANCELLED, "stopped");
        if (add_picture(shard, i, counts, err) < 0)
            return -1;
    }
    return tfrecord_writer_finish(shard->writer, err);
}

static int write_shard(void *context, int64_t job, struct work_counts *counts, struct error *err)
{
    struct making *making = context;
    struct shard shard = {.making = making, .split = job >= making->shards[0]};
    int index = (int)job - (shard.split ? making->shards[0] : 0);
    char name[64], path[PATH_MAX];
    shard_name(making, shard.split, index, name, sizeof name);
    destination_place(making->destination, name, path);
    strbuf_init(&shard.message);
    shard.pixels = memory_allocate((size_t)making->side * (size_t)making->side * 3);
    int status = shard.pixels ? tfrecord_writer_create(path, TFRECORD_PLAIN, &shard.writer, err)
                              : error_set(err, ERROR_MEMORY, "no memory to draw on");
    if (status == 0)
        status = fill_shard(&shard, index, counts, err);
    tfrecord_writer_destroy(shard.writer);
    if (status == 0)
        atomic_fetch_add(&making->bytes, make_file_bytes(making->destination, name));
    if (status == 0)
        status = destination_deliver(making->destination, name, err);
    strbuf_release(&shard.message);
    memory_free(shard.pixels);
    return status;
}

static int check_settings(struct making *making, struct error *err)
{
    for (int split = 0; split < 2; split++) {
        int64_t shards = making->settings->shards[split];
        if (shards == 0)
            shards = (making->counts[split] + PICTURES_PER_SHARD - 1) / PICTURES_PER_SHARD;
        shards = making->settings->shards[split] || shards < MAX_SHARDS ? shards : MAX_SHARDS;
        if (shards > making->counts[split])
            return error_set(err, ERROR_USAGE, "%lld shards are too many for %lld pictures",
                             (long long)shards, (long long)making->counts[split]);
        making->shards[split] = (int)shards;
    }
    for (int split = 0; split < 2; split++)
        for (int i = 0; i < making->shards[split]; i++) {
            char name[64];
            shard_name(making, split, i, name, sizeof name);
            if (make_check_absent(making->destination, name, making->settings, err) < 0)
                return -1;
        }
    return 0;
}

static int make_imagenet(const struct make_settings *settings, const struct work *work,
                         struct make_report *out, struct error *err)
{
    struct making making = {
        .settings = settings,
        .stop = work->stop,
        .counts = {settings->examples ? settings->examples : DEFAULT_TRAIN,
                   settings->eval_examples ? settings->eval_examples : DEFAULT_EVALUATE},
        .classes = settings->classes ? settings->classes : DEFAULT_CLASSES,
        .side = settings->image_size ? settings->image_size : DEFAULT_SIDE,
        .key = random_key_text(settings->seed, "imagenet"),
    };
    struct make_report report = {
        .examples = making.counts[0], .eval_examples = making.counts[1], .classes = making.classes};
    if (making.side > SCENE_MAX_SIDE)
        return error_set(err, ERROR_USAGE, "pictures have at most %d pixels on a side",
                         SCENE_MAX_SIDE);
    if (destination_open(settings->directory, work->stop, &making.destination, err) < 0)
        return -1;
    int status = check_settings(&making, err);
    if (status == 0)
        status = work_run(work, making.shards[0] + making.shards[1],
                          making.counts[0] + making.counts[1], write_shard, &making, err);
    report.files = making.shards[0] + making.shards[1];
    report.bytes = atomic_load(&making.bytes);
    destination_close(making.destination);
    *out = report;
    return status;
}

const struct maker maker_imagenet = {
    .name = "imagenet",
    .summary = "drawn pictures as JPEGs in TFRecord shards; what is drawn tells the class",
    .make = make_imagenet,
};
