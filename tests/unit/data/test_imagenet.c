#include <math.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/dataset.h"
#include "support/test.h"
#include "wire/example.h"
#include "wire/tfrecord.h"

enum { SIZE = 32, FILE_LIMIT = 1 << 24 };

static struct dataset_request request_for(const char *path, enum dataset_split split, int classes)
{
    return (struct dataset_request){
        .path = path,
        .split = split,
        .classes = classes,
        .field_count = 1,
        .fields = {{"image", DTYPE_F32, SHAPE(SHAPE_BATCH, SIZE, SIZE, 3)}}};
}

static const struct dataset_kind *imagenet(void)
{
    const struct dataset_kind *kind;
    const char *path;
    struct error err = {0};
    ASSERT_OK(dataset_find("imagenet:x", &kind, &path, &err), err);
    return kind;
}

static struct dataset *open_set(const char *path, enum dataset_split split, int classes)
{
    struct dataset_request request = request_for(path, split, classes);
    struct dataset *dataset;
    struct error err = {0};
    ASSERT_OK(imagenet()->open(&request, &dataset, &err), err);
    return dataset;
}

struct row {
    float image[SIZE * SIZE * 3];
    int32_t label;
};

static int read_row(struct dataset *dataset, int64_t index, uint64_t random, struct row *row,
                    struct error *err)
{
    struct tensor batch[] = {{DTYPE_F32, SHAPE(1, SIZE, SIZE, 3), row->image},
                             {DTYPE_I32, SHAPE(1), &row->label}};
    return imagenet()->read(dataset, index, random, batch, 0, err);
}

/* Links, so that no index is written beside the shared files. */
static const char *linked_set(void)
{
    static const char *const names[] = {"train-00000-of-00002", "train-00001-of-00002",
                                        "validation-00000-of-00001"};
    const char *directory = test_path("linked");
    struct error err = {0};
    if (access(directory, F_OK) == 0)
        return directory;
    char target[4096];
    ASSERT_TRUE(realpath(test_data("tf-made/imagenet-tfrecord"), target) != NULL);
    ASSERT_OK(directory_make(directory, &err), err);
    for (int i = 0; i < 3; i++) {
        struct strbuf to;
        strbuf_init(&to);
        strbuf_addf(&to, "%s/%s", target, names[i]);
        ASSERT_TRUE(symlink(to.text, test_path("linked/%s", names[i])) == 0);
        strbuf_release(&to);
    }
    return directory;
}

static void compare_labels(const char *manifest, enum dataset_split split, int expected,
                           int classes)
{
    const char *at = strstr(manifest, split == SPLIT_TRAIN ? "train-00000" : "validation-00000");
    struct dataset *dataset = open_set(linked_set(), split, classes);
    ASSERT_INT(imagenet()->count(dataset), ==, expected);
    for (int i = 0; i < expected; i++) {
        struct row row;
        struct error err = {0};
        ASSERT_OK(read_row(dataset, i, (uint64_t)i, &row, &err), err);
        at = strstr(at, "\"label\": ") + 9;
        ASSERT_INT(row.label, ==, strtol(at, NULL, 10) - (classes == 1001 ? 0 : 1));
        for (int p = 0; p < SIZE * SIZE * 3; p++)
            ASSERT_TRUE(row.image[p] >= -124 && row.image[p] <= 152);
    }
    imagenet()->close(dataset);
}

TEST(imagenet, labels_are_those_of_the_manifest)
{
    char *manifest;
    size_t count;
    struct error err = {0};
    const char *path = test_data("tf-made/imagenet-tfrecord/manifest.json");
    ASSERT_OK(file_read(path, FILE_LIMIT, &manifest, &count, &err), err);
    compare_labels(manifest, SPLIT_TRAIN, 120, 1001);
    compare_labels(manifest, SPLIT_TRAIN, 120, 1000);
    compare_labels(manifest, SPLIT_EVALUATE, 30, 1001);
    memory_free(manifest);
}

TEST(imagenet, a_label_that_does_not_fit_is_refused_with_its_place)
{
    struct dataset *dataset = open_set(linked_set(), SPLIT_TRAIN, 10);
    struct row row;
    struct error err;
    ASSERT_FAILS(read_row(dataset, 61, 0, &row, &err), err, ERROR_USAGE,
                 "train-00001-of-00002: record 1 at offset ");
    ASSERT_CONTAINS(err.message, "does not fit: a network of 10 classes takes 1 to 10");
    imagenet()->close(dataset);
}

TEST(imagenet, the_key_alone_decides_what_is_cut_out)
{
    struct dataset *dataset = open_set(linked_set(), SPLIT_TRAIN, 1001);
    static struct row one, same, other;
    struct error err = {0};
    ASSERT_OK(read_row(dataset, 3, 5, &one, &err), err);
    ASSERT_OK(read_row(dataset, 3, 5, &same, &err), err);
    ASSERT_OK(read_row(dataset, 3, 6, &other, &err), err);
    ASSERT_BYTES(one.image, same.image, sizeof one.image);
    ASSERT_TRUE(memcmp(one.image, other.image, sizeof one.image) != 0);
    imagenet()->close(dataset);
}

static void write_one(const char *directory, bool with_label, bool with_picture)
{
    struct error err = {0};
    struct strbuf message;
    struct tfrecord_writer *writer;
    int64_t label = 1;
    ASSERT_OK(directory_make(test_path("%s", directory), &err), err);
    ASSERT_OK(tfrecord_writer_create(test_path("%s/train-00000-of-00001", directory),
                                     TFRECORD_PLAIN, &writer, &err),
              err);
    strbuf_init(&message);
    example_begin(&message);
    if (with_label)
        example_add_int64(&message, "image/class/label", &label, 1);
    if (with_picture)
        example_add_bytes(&message, "image/encoded", "no picture", 10);
    example_end(&message);
    ASSERT_OK(tfrecord_writer_add(writer, message.text, message.length, &err), err);
    ASSERT_OK(tfrecord_writer_add(writer, "no example", 10, &err), err);
    ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
    tfrecord_writer_destroy(writer);
    strbuf_release(&message);
}

static void expect_refused(const char *directory, int64_t index, const char *part)
{
    struct dataset *dataset = open_set(test_path("%s", directory), SPLIT_TRAIN, 1001);
    struct row row;
    struct error err;
    ASSERT_FAILS(read_row(dataset, index, 0, &row, &err), err, ERROR_FORMAT, part);
    ASSERT_CONTAINS(err.message, "train-00000-of-00001: record ");
    ASSERT_CONTAINS(err.message, " at offset ");
    imagenet()->close(dataset);
}

TEST(imagenet, records_without_label_or_picture_are_named)
{
    write_one("no label", false, true);
    expect_refused("no label", 0, "has no integer image/class/label");
    write_one("no picture", true, false);
    expect_refused("no picture", 0, "has no image/encoded");
    write_one("bad picture", true, true);
    expect_refused("bad picture", 0, "record 0");
    expect_refused("bad picture", 1, "tf.Example: offset 0");
}

TEST(imagenet, says_what_it_cannot_give)
{
    struct dataset_request request = request_for(test_path("bad picture"), SPLIT_TRAIN, 10);
    struct dataset *dataset;
    struct error err;
    write_one("bad picture", true, true);
    request.fields[0].shape.dim[3] = 1;
    ASSERT_FAILS(imagenet()->open(&request, &dataset, &err), err, ERROR_USAGE, "square colour");
    request.fields[0].name = "I1";
    ASSERT_FAILS(imagenet()->open(&request, &dataset, &err), err, ERROR_USAGE, "no such input");
    request.path = NULL;
    ASSERT_FAILS(imagenet()->open(&request, &dataset, &err), err, ERROR_USAGE, "imagenet:DIR");
}

TEST(imagenet, allocates_nothing_once_it_runs)
{
    struct dataset *dataset = open_set(linked_set(), SPLIT_EVALUATE, 1001);
    struct row row;
    struct error err = {0};
    for (int i = 0; i < 30; i++)
        ASSERT_OK(read_row(dataset, i, 0, &row, &err), err);
    uint64_t before = memory_allocation_count();
    for (int i = 0; i < 30; i++)
        ASSERT_OK(read_row(dataset, i, 0, &row, &err), err);
    ASSERT_INT(memory_allocation_count(), ==, before);
    imagenet()->close(dataset);
}
