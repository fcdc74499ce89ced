/* Folders and archives of pictures to shards, and what a second run does. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/convert.h"
#include "data/dataset.h"
#include "data/gather.h"
#include "data/pictures.h"
#include "data/scene.h"
#include "data/work.h"
#include "support/test.h"
#include "wire/example.h"

enum { CLASSES = 3, PER_CLASS = 7, SIDE = 40 };

/* A small JPEG or PNG of class `label`. */
static uint8_t *draw(int label, int index, bool png, size_t *bytes)
{
    uint8_t pixels[SIDE * SIDE * 3], *encoded;
    struct picture picture = {SIDE + index, SIDE - index, pixels};
    struct error err = {0};
    scene_draw(label, 1, (uint64_t)(100 * label + index), picture.width, picture.height, pixels);
    if (png)
        ASSERT_OK(picture_encode_png(&picture, &encoded, bytes, &err), err);
    else
        ASSERT_OK(picture_encode_jpeg(&picture, 90, &encoded, bytes, &err), err);
    return encoded;
}

static void write_picture(const char *path, int label, int index, bool png)
{
    size_t bytes;
    struct error err = {0};
    uint8_t *encoded = draw(label, index, png, &bytes);
    ASSERT_OK(file_write_atomic(path, encoded, bytes, &err), err);
    memory_free(encoded);
}

/* train/nN/PICTURE.jpg and val/nN/PICTURE.jpg; one of class 1's training pictures is a PNG. */
static const char *make_folders(const char *name)
{
    struct error err = {0};
    const char *root = test_path("%s", name);
    for (int label = 0; label < CLASSES; label++) {
        ASSERT_OK(directory_make(test_path("%s/train/n%d", name, label), &err), err);
        ASSERT_OK(directory_make(test_path("%s/val/n%d", name, label), &err), err);
        for (int i = 0; i < PER_CLASS; i++) {
            bool png = label == 1 && i == 2;
            write_picture(
                test_path("%s/train/n%d/%d_%d.%s", name, label, label, i, png ? "PNG" : "jpg"),
                label, i, png);
        }
        write_picture(test_path("%s/val/n%d/v%d.JPEG", name, label, label), label, 9, false);
        test_file("ignored.txt", "x", 1);
    }
    return root;
}

static struct convert_settings settings_for(const char *source, const char *target)
{
    return (struct convert_settings){
        .source = source, .target = target, .shards = {4, 1}, .quality = 85, .seed = 1};
}

static int convert(const struct convert_settings *settings, int threads,
                   struct convert_report *report, struct error *err)
{
    struct work work = {.threads = threads};
    *err = (struct error){0};
    return convert_run(settings, &work, report, err);
}

static char *read_shard(const char *target, const char *name, size_t *bytes)
{
    char *data, path[4096];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/%s", target, name);
    ASSERT_OK(file_read(path, 1 << 24, &data, bytes, &err), err);
    return data;
}

static void expect_same_shards(const char *a, const char *b)
{
    static const char *const names[] = {"train-00000-of-00004", "train-00001-of-00004",
                                        "train-00002-of-00004", "train-00003-of-00004",
                                        "validation-00000-of-00001"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t first_bytes, second_bytes;
        char *first = read_shard(a, names[i], &first_bytes);
        char *second = read_shard(b, names[i], &second_bytes);
        ASSERT_INT(first_bytes, ==, second_bytes);
        ASSERT_BYTES(first, second, first_bytes);
        memory_free(first);
        memory_free(second);
    }
}

static int count_files(const char *directory)
{
    int count = 0;
    DIR *open = opendir(directory);
    for (struct dirent *entry; open && (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    if (open)
        closedir(open);
    return count;
}

TEST(convert, writes_every_picture_once_with_its_label)
{
    const char *source = make_folders("once"), *target = test_path("once-shards");
    struct convert_settings settings = settings_for(source, target);
    struct convert_report report;
    struct error err;
    ASSERT_OK(convert(&settings, 2, &report, &err), err);
    ASSERT_INT(report.pictures[SPLIT_TRAIN], ==, CLASSES * PER_CLASS);
    ASSERT_INT(report.pictures[SPLIT_EVALUATE], ==, CLASSES);
    ASSERT_INT(report.classes, ==, CLASSES);
    ASSERT_INT(report.encoded_anew, ==, 1);
    int seen[CLASSES + 1] = {0}, in_first[CLASSES + 1] = {0};
    for (int shard = 0; shard < 4; shard++) {
        char name[64];
        snprintf(name, sizeof name, "train-%05d-of-00004", shard);
        size_t bytes;
        char *data = read_shard(target, name, &bytes);
        uint64_t offset = 0;
        struct tfrecord record;
        while (tfrecord_next(name, (uint8_t *)data, bytes, &offset, &record, &err) == 1) {
            static const char *const keys[] = {"image/class/label", "image/class/synset",
                                               "image/width", "image/encoded"};
            struct feature features[4];
            int64_t label, width;
            const uint8_t *text;
            size_t count;
            ASSERT_OK(example_find(record.data, record.bytes, keys, 4, features, &err), err);
            ASSERT_TRUE(feature_int64(&features[0], 0, &label));
            ASSERT_TRUE(feature_bytes(&features[1], 0, &text, &count));
            ASSERT_TRUE(feature_int64(&features[2], 0, &width));
            ASSERT_INT(label, >=, 1);
            ASSERT_INT(label, <=, CLASSES);
            ASSERT_INT(text[1], ==, '0' + label - 1);
            ASSERT_TRUE(feature_bytes(&features[3], 0, &text, &count));
            ASSERT_INT(text[0], ==, 0xff);
            ASSERT_INT(text[1], ==, 0xd8);
            size_t original_bytes;
            int index = (int)width - SIDE;
            uint8_t *original = draw((int)label - 1, index, false, &original_bytes);
            if (label != 2 || index != 2) { /* the bytes of JPEGs are kept */
                ASSERT_INT(count, ==, original_bytes);
                ASSERT_BYTES(text, original, count);
            }
            memory_free(original);
            seen[label]++;
            in_first[label] += shard == 0;
        }
        memory_free(data);
    }
    for (int label = 1; label <= CLASSES; label++)
        ASSERT_INT(seen[label], ==, PER_CLASS);
    ASSERT_TRUE((in_first[1] > 0) + (in_first[2] > 0) + (in_first[3] > 0) >= 2);
}

TEST(convert, is_the_same_for_any_number_of_threads_and_resizes)
{
    const char *source = make_folders("threads");
    struct convert_settings one = settings_for(source, test_path("threads-1"));
    struct convert_settings three = settings_for(source, test_path("threads-3"));
    struct convert_report report;
    struct error err;
    one.resize = three.resize = 20;
    ASSERT_OK(convert(&one, 1, &report, &err), err);
    ASSERT_INT(report.encoded_anew, ==, CLASSES * (PER_CLASS + 1));
    ASSERT_OK(convert(&three, 3, &report, &err), err);
    expect_same_shards(one.target, three.target);
}

TEST(convert, goes_on_where_it_was_and_never_writes_a_shard_twice)
{
    const char *source = make_folders("resume"), *target = test_path("resume-shards");
    struct convert_settings settings = settings_for(source, target);
    struct convert_settings whole = settings_for(source, test_path("resume-whole"));
    struct convert_report report;
    struct error err;
    struct stat before, after;
    ASSERT_OK(convert(&whole, 1, &report, &err), err);
    ASSERT_OK(convert(&settings, 1, &report, &err), err);
    ASSERT_INT(stat(test_path("resume-shards/train-00000-of-00004"), &before), ==, 0);
    ASSERT_INT(unlink(test_path("resume-shards/train-00002-of-00004")), ==, 0);
    ASSERT_OK(convert(&settings, 2, &report, &err), err);
    ASSERT_INT(report.kept[SPLIT_TRAIN], ==, 3);
    ASSERT_INT(report.kept[SPLIT_EVALUATE], ==, 1);
    ASSERT_INT(stat(test_path("resume-shards/train-00000-of-00004"), &after), ==, 0);
    ASSERT_INT(before.st_ino, ==, after.st_ino);
    expect_same_shards(whole.target, target);
    ASSERT_OK(convert(&settings, 2, &report, &err), err);
    ASSERT_INT(report.bytes, ==, 0);
    ASSERT_INT(report.kept[SPLIT_TRAIN], ==, 4);
}

/* Killed without warning as soon as so many shards are there. */
static void kill_after(const struct convert_settings *settings, int shards)
{
    pid_t child = fork();
    if (child == 0) {
        struct convert_report report;
        struct error err;
        _exit(convert(settings, 1, &report, &err) < 0);
    }
    bool ended = false;
    while (!ended && count_files(settings->target) < shards + 1) {
        ended = waitpid(child, NULL, WNOHANG) == child;
        usleep(50);
    }
    if (ended)
        return;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(convert, survives_a_kill_at_any_shard)
{
    const char *source = make_folders("kill");
    struct convert_settings whole = settings_for(source, test_path("kill-whole"));
    struct convert_report report;
    struct error err;
    ASSERT_OK(convert(&whole, 1, &report, &err), err);
    for (int shards = 0; shards <= 5; shards++) {
        struct convert_settings settings = settings_for(source, test_path("kill-%d", shards));
        kill_after(&settings, shards);
        ASSERT_OK(convert(&settings, 2, &report, &err), err);
        expect_same_shards(whole.target, settings.target);
        ASSERT_INT(count_files(settings.target), ==, 6); /* nothing half-written is left */
    }
}

TEST(convert, refuses_other_settings_and_foreign_shards)
{
    const char *source = make_folders("refuse"), *target = test_path("refuse-shards");
    struct convert_settings settings = settings_for(source, target);
    struct convert_report report;
    struct error err;
    ASSERT_OK(convert(&settings, 1, &report, &err), err);
    settings.quality = 50;
    ASSERT_FAILS(convert(&settings, 1, &report, &err), err, ERROR_USAGE, "quality was 85, now 50");
    settings = settings_for(source, target);
    write_picture(test_path("refuse/train/n0/new.jpg"), 0, 3, false);
    ASSERT_FAILS(convert(&settings, 1, &report, &err), err, ERROR_USAGE,
                 "train pictures was 21, now 22");
    ASSERT_INT(unlink(test_path("refuse-shards/convert.json")), ==, 0);
    ASSERT_FAILS(convert(&settings, 1, &report, &err), err, ERROR_USAGE, "train-00000-of-00004");
    settings.target = test_path("refuse-many");
    settings.shards[SPLIT_TRAIN] = 1000;
    ASSERT_FAILS(convert(&settings, 1, &report, &err), err, ERROR_USAGE, "1000 shards");
}

TEST(convert, names_the_file_that_is_no_picture)
{
    const char *source = make_folders("bad");
    struct convert_settings settings = settings_for(source, test_path("bad-shards"));
    struct convert_report report;
    struct error err = {0};
    ASSERT_OK(file_write_atomic(test_path("bad/train/n1/text.jpg"), "hello", 5, &err), err);
    ASSERT_FAILS(convert(&settings, 2, &report, &err), err, ERROR_FORMAT, "bad/train/n1/text.jpg");
}

TEST(convert, decodes_everything_when_told_to_check)
{
    const char *source = make_folders("check");
    struct convert_settings settings = settings_for(source, test_path("check-shards"));
    struct convert_report report;
    struct error err = {0};
    size_t bytes;
    uint8_t *encoded = draw(0, 1, false, &bytes);
    ASSERT_OK(file_write_atomic(test_path("check/train/n1/cut.jpg"), encoded, bytes - 200, &err),
              err);
    memory_free(encoded);
    settings.check = true;
    ASSERT_FAILS(convert(&settings, 2, &report, &err), err, ERROR_FORMAT, "check/train/n1/cut.jpg");
    settings.check = false;
    ASSERT_OK(convert(&settings, 2, &report, &err), err);
}

/* --- archives ------------------------------------------------------------------------------- */

static void add_member(struct strbuf *archive, const char *name, const void *data, size_t bytes)
{
    char header[512] = "";
    unsigned sum = 0;
    snprintf(header, 100, "%s", name);
    snprintf(header + 124, 12, "%011zo", bytes);
    header[156] = '0';
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    strbuf_add_bytes(archive, header, sizeof header);
    strbuf_add_bytes(archive, data, bytes);
    while (archive->length % 512)
        strbuf_add_char(archive, '\0');
}

static void add_picture(struct strbuf *archive, const char *name, int label, int index)
{
    size_t bytes;
    uint8_t *encoded = draw(label, index, false, &bytes);
    add_member(archive, name, encoded, bytes);
    memory_free(encoded);
}

static void write_archives(const char *directory)
{
    struct strbuf outer, inner, validation;
    struct error err = {0};
    strbuf_init(&outer);
    strbuf_init(&inner);
    strbuf_init(&validation);
    for (int label = 0; label < CLASSES; label++) {
        char name[32];
        strbuf_clear(&inner);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "n%d_%d.JPEG", label, i);
            add_picture(&inner, name, label, i);
        }
        snprintf(name, sizeof name, "n%d.tar", label);
        add_member(&outer, name, inner.text, inner.length);
        snprintf(name, sizeof name, "ILSVRC2012_val_%d.JPEG", CLASSES - label); /* not sorted */
        add_picture(&validation, name, label, 5);
    }
    ASSERT_OK(directory_make(directory, &err), err);
    ASSERT_OK(file_write_atomic(test_path("tars/ILSVRC2012_img_train.tar"), outer.text,
                                outer.length, &err),
              err);
    /* What lies beside them is not for us. */
    ASSERT_OK(file_write_atomic(test_path("tars/ILSVRC2012_img_train_t3.tar"), outer.text,
                                outer.length, &err),
              err);
    ASSERT_OK(file_write_atomic(test_path("tars/backup.tar"), "no archive", 10, &err), err);
    ASSERT_OK(file_write_atomic(test_path("tars/ILSVRC2012_img_val.tar"), validation.text,
                                validation.length, &err),
              err);
    strbuf_release(&outer);
    strbuf_release(&inner);
    strbuf_release(&validation);
}

TEST(convert, reads_archives_in_archives)
{
    const char *directory = test_path("tars");
    struct gathering *gathering;
    struct error err = {0};
    write_archives(directory);
    ASSERT_FAILS(gather_any(&(struct gather_settings){.path = directory}, &gathering, &err), err,
                 ERROR_USAGE, "--validation-labels");
    static const char *const labels[] = {"n2", "n1", "n0"};
    struct gather_settings settings = {
        .path = directory, .validation_labels = labels, .validation_count = 3};
    ASSERT_OK(gather_any(&settings, &gathering, &err), err);
    ASSERT_INT(gathering->class_count, ==, CLASSES);
    ASSERT_INT(gathering->splits[SPLIT_TRAIN].count, ==, 2 * CLASSES);
    uint8_t *buffer = NULL;
    size_t capacity = 0;
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < gathering->splits[split].count; i++) {
            const struct gathered_picture *picture = &gathering->splits[split].pictures[i];
            size_t bytes;
            uint8_t *expected = draw(picture->label, split ? 5 : (int)i % 2, false, &bytes);
            ASSERT_OK(gathered_read(gathering, picture, &buffer, &capacity, &err), err);
            ASSERT_INT(picture->bytes, ==, bytes);
            ASSERT_BYTES(buffer, expected, bytes);
            memory_free(expected);
        }
    memory_free(buffer);
    gathering_destroy(gathering);
    settings.path = test_path("tars/ILSVRC2012_img_train.tar");
    ASSERT_OK(gather_any(&settings, &gathering, &err), err);
    ASSERT_INT(gathering->splits[SPLIT_EVALUATE].count, ==, 0);
    gathering_destroy(gathering);
}

/* --- images:DIR ----------------------------------------------------------------------------- */

static int open_images(const char *path, int classes, enum dataset_split split,
                       struct dataset **out, struct error *err)
{
    struct dataset_request request = {.path = path, .split = split, .classes = classes};
    request.field_count = 1;
    request.fields[0] = (struct dataset_field){"image", DTYPE_F32, SHAPE(SHAPE_BATCH, 16, 16, 3)};
    extern const struct dataset_kind dataset_images;
    *err = (struct error){0};
    return dataset_images.open(&request, out, err);
}

TEST(images, have_labels_by_the_order_of_their_folders)
{
    extern const struct dataset_kind dataset_images;
    const char *root = make_folders("images");
    struct dataset *dataset;
    struct error err;
    ASSERT_FAILS(open_images(root, 2, SPLIT_TRAIN, &dataset, &err), err, ERROR_USAGE,
                 "has 3 classes, but the model tells only 2 apart; give --classes 3");
    ASSERT_OK(open_images(root, 3, SPLIT_TRAIN, &dataset, &err), err);
    ASSERT_INT(dataset_images.count(dataset), ==, CLASSES * PER_CLASS);
    float pixels[16 * 16 * 3];
    int32_t label;
    struct tensor batch[] = {{DTYPE_F32, SHAPE(1, 16, 16, 3), pixels},
                             {DTYPE_I32, SHAPE(1), &label}};
    for (int64_t i = 0; i < CLASSES * PER_CLASS; i++) {
        ASSERT_OK(dataset_images.read(dataset, i, 7, batch, 0, &err), err);
        ASSERT_INT(label, ==, i / PER_CLASS);
    }
    dataset_images.close(dataset);
    ASSERT_OK(open_images(root, 3, SPLIT_EVALUATE, &dataset, &err), err);
    ASSERT_INT(dataset_images.count(dataset), ==, CLASSES);
    dataset_images.close(dataset);
    /* a directory without a split serves for either */
    ASSERT_OK(open_images(test_path("images/val"), 3, SPLIT_EVALUATE, &dataset, &err), err);
    ASSERT_INT(dataset_images.count(dataset), ==, CLASSES);
    dataset_images.close(dataset);
    ASSERT_FAILS(open_images(test_path("images/val/n0"), 3, SPLIT_TRAIN, &dataset, &err), err,
                 ERROR_FORMAT, "no pictures");
}

TEST(images, that_cannot_be_decoded_are_named)
{
    extern const struct dataset_kind dataset_images;
    const char *root = make_folders("damaged");
    struct dataset *dataset;
    struct error err = {0};
    float pixels[16 * 16 * 3];
    int32_t label;
    struct tensor batch[] = {{DTYPE_F32, SHAPE(1, 16, 16, 3), pixels},
                             {DTYPE_I32, SHAPE(1), &label}};
    ASSERT_OK(file_write_atomic(test_path("damaged/train/n0/0_0.jpg"), "hello", 5, &err), err);
    ASSERT_OK(open_images(root, 3, SPLIT_TRAIN, &dataset, &err), err);
    ASSERT_FAILS(dataset_images.read(dataset, 0, 7, batch, 0, &err), err, ERROR_FORMAT,
                 "damaged/train/n0/0_0.jpg");
    dataset_images.close(dataset);
}
