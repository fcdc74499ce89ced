/* Finding kinds of data, and the ones whose numbers we can state: synthetic and MNIST. */
#include <limits.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/storage.h"
#include "support/test.h"

static const struct dataset_kind *kind_of(const char *spec)
{
    const struct dataset_kind *kind;
    const char *path;
    struct error err = {0};
    ASSERT_OK(dataset_find(spec, &kind, &path, &err), err);
    return kind;
}

TEST(dataset, is_named_by_a_kind_and_a_path)
{
    const struct dataset_kind *kind = NULL;
    const char *path;
    struct error err = {0};
    ASSERT_OK(dataset_find("mnist:/data/a:b", &kind, &path, &err), err);
    ASSERT_TEXT(kind->name, "mnist");
    ASSERT_TEXT(path, "/data/a:b");
    ASSERT_OK(dataset_find("synthetic", &kind, &path, &err), err);
    ASSERT_TRUE(path == NULL);
    ASSERT_OK(dataset_find("mnist:", &kind, &path, &err), err);
    ASSERT_TRUE(path == NULL);
}

TEST(dataset, of_an_unknown_kind_gets_the_nearest_name_offered)
{
    const struct dataset_kind *kind;
    const char *path;
    struct error err;
    ASSERT_FAILS(dataset_find("mnits:/data", &kind, &path, &err), err, ERROR_USAGE,
                 "'mnits'; did you mean 'mnist'?");
    ASSERT_FAILS(dataset_find("sinthetic", &kind, &path, &err), err, ERROR_USAGE, "'synthetic'?");
    ASSERT_FAILS(dataset_find("", &kind, &path, &err), err, ERROR_USAGE, "called ''");
    char long_word[1000];
    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    ASSERT_FAILS(dataset_find(long_word, &kind, &path, &err), err, ERROR_USAGE, "called 'xxx");
}

/* Every kind answers for its fields, so that a list of kinds can be trusted. */
TEST(dataset, kinds_are_complete)
{
    int count = 0;
    for (const struct dataset_kind *const *kind = dataset_list(); *kind; kind++, count++) {
        ASSERT_TRUE((*kind)->name && (*kind)->summary && (*kind)->open && (*kind)->count);
        ASSERT_TRUE((*kind)->fields && (*kind)->read && (*kind)->close);
        (*kind)->close(NULL);
    }
    ASSERT_INT(count, >=, 3);
}

static struct dataset_request image_request(void)
{
    return (struct dataset_request){.seed = 1,
                                    .classes = 10,
                                    .field_count = 2,
                                    .fields = {{"image", DTYPE_F32, SHAPE(SHAPE_BATCH, 28, 28, 1)},
                                               {"label", DTYPE_I32, SHAPE(SHAPE_BATCH)}}};
}

TEST(synthetic, fills_the_fields_the_model_asks_for)
{
    const struct dataset_kind *kind = kind_of("synthetic");
    struct dataset_request request = image_request();
    struct dataset *dataset;
    struct error err = {0};
    ASSERT_OK(kind->open(&request, &dataset, &err), err);
    const struct dataset_field *fields;
    ASSERT_INT(kind->fields(dataset, &fields), ==, 2);
    ASSERT_TEXT(fields[0].name, "image");
    ASSERT_INT(kind->count(dataset), ==, 10000);
    static float images[2][2][784];
    int32_t labels[2][2], seen[10] = {0};
    for (int again = 0; again < 2; again++) {
        struct tensor batch[] = {{DTYPE_F32, SHAPE(2, 28, 28, 1), images[again]},
                                 {DTYPE_I32, SHAPE(2), labels[again]}};
        for (int row = 0; row < 2; row++)
            ASSERT_OK(kind->read(dataset, 17 + row, 0, batch, row, &err), err);
    }
    ASSERT_BYTES(images[0], images[1], sizeof images[0]);
    ASSERT_BYTES(labels[0], labels[1], sizeof labels[0]);
    ASSERT_TRUE(memcmp(images[0][0], images[0][1], sizeof images[0][0]) != 0);
    for (int i = 0; i < 784; i++)
        ASSERT_TRUE(images[0][0][i] >= -2.001f && images[0][0][i] <= 2.001f);
    struct tensor batch[] = {{DTYPE_F32, SHAPE(2, 28, 28, 1), images[0]},
                             {DTYPE_I32, SHAPE(2), labels[0]}};
    for (int i = 0; i < 1000; i++) {
        ASSERT_OK(kind->read(dataset, i, 0, batch, 1, &err), err);
        ASSERT_TRUE(labels[0][1] >= 0 && labels[0][1] < 10);
        seen[labels[0][1]]++;
    }
    for (int i = 0; i < 10; i++)
        ASSERT_INT(seen[i], >, 50);
    kind->close(dataset);
}

TEST(synthetic, obeys_the_number_of_examples_and_refuses_what_it_cannot_make)
{
    const struct dataset_kind *kind = kind_of("synthetic");
    struct dataset_request request = image_request();
    struct dataset *dataset;
    struct error err = {0};
    request.examples = 77;
    ASSERT_OK(kind->open(&request, &dataset, &err), err);
    ASSERT_INT(kind->count(dataset), ==, 77);
    kind->close(dataset);
    request.classes = 0;
    ASSERT_FAILS(kind->open(&request, &dataset, &err), err, ERROR_USAGE, "classes");
    request.classes = 10;
    request.path = "/data";
    ASSERT_FAILS(kind->open(&request, &dataset, &err), err, ERROR_USAGE, "/data");
    request.path = NULL;
    request.fields[1].dtype = DTYPE_STRING;
    ASSERT_FAILS(kind->open(&request, &dataset, &err), err, ERROR_USAGE, "no text");
}

enum { IMAGES = 3, IMAGE_FILE = 16 + IMAGES * 784, LABEL_FILE = 8 + IMAGES };

/* A tiny MNIST: pixel p of image i is (i * 50 + p) mod 256. */
static void make_images(uint8_t bytes[IMAGE_FILE])
{
    static const uint8_t header[16] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 28, 0, 0, 0, 28};
    memcpy(bytes, header, sizeof header);
    for (int i = 0; i < IMAGES * 784; i++)
        bytes[16 + i] = (uint8_t)(i / 784 * 50 + i % 784);
}

static const uint8_t label_file[LABEL_FILE] = {0, 0, 8, 1, 0, 0, 0, IMAGES, 7, 0, 9};

static void write_packed(const char *name, const void *bytes, unsigned count)
{
    gzFile file = gzopen(test_path("%s", name), "wb");
    ASSERT_TRUE(file != NULL);
    ASSERT_INT(gzwrite(file, bytes, count), ==, count);
    ASSERT_INT(gzclose(file), ==, Z_OK);
}

static int open_mnist(enum dataset_split split, int classes, struct dataset **out,
                      struct error *err)
{
    struct dataset_request request = {.path = test_directory(), .split = split, .classes = classes};
    return kind_of("mnist")->open(&request, out, err);
}

static void assert_tiny_mnist(struct dataset *dataset)
{
    const struct dataset_kind *kind = kind_of("mnist");
    const struct dataset_field *fields;
    ASSERT_INT(kind->fields(dataset, &fields), ==, 2);
    struct shape image_shape = SHAPE(SHAPE_BATCH, 28, 28, 1), label_shape = SHAPE(SHAPE_BATCH);
    ASSERT_TRUE(shape_equal(&fields[0].shape, &image_shape) && fields[0].dtype == DTYPE_F32);
    ASSERT_TRUE(shape_equal(&fields[1].shape, &label_shape) && fields[1].dtype == DTYPE_I32);
    ASSERT_INT(kind->count(dataset), ==, IMAGES);
    static float images[2 * 784];
    int32_t labels[2] = {-1, -1};
    struct tensor batch[] = {{DTYPE_F32, SHAPE(2, 28, 28, 1), images},
                             {DTYPE_I32, SHAPE(2), labels}};
    struct error err = {0};
    ASSERT_OK(kind->read(dataset, 2, 0, batch, 1, &err), err);
    for (int i = 0; i < 784; i++)
        ASSERT_TRUE(images[784 + i] == (float)((100 + i) % 256) / 255.0f);
    ASSERT_INT(labels[1], ==, 9);
    ASSERT_INT(labels[0], ==, -1); /* other rows are not touched */
}

TEST(mnist, reads_plain_and_packed_files_alike)
{
    struct dataset *dataset;
    struct error err = {0};
    uint8_t images[IMAGE_FILE];
    make_images(images);
    test_file("train-images-idx3-ubyte", images, sizeof images);
    test_file("train-labels-idx1-ubyte", label_file, sizeof label_file);
    ASSERT_OK(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err);
    assert_tiny_mnist(dataset);
    kind_of("mnist")->close(dataset);
    write_packed("t10k-images-idx3-ubyte.gz", images, sizeof images);
    write_packed("t10k-labels-idx1-ubyte.gz", label_file, sizeof label_file);
    ASSERT_OK(open_mnist(SPLIT_EVALUATE, 10, &dataset, &err), err);
    assert_tiny_mnist(dataset);
    kind_of("mnist")->close(dataset);
}

TEST(mnist, says_what_is_wrong_with_its_files)
{
    struct dataset *dataset;
    struct error err;
    uint8_t images[IMAGE_FILE];
    make_images(images);
    const char *image_name = "train-images-idx3-ubyte", *label_name = "train-labels-idx1-ubyte";
    test_file(label_name, label_file, sizeof label_file);

    test_file(image_name, images, sizeof images - 1);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT,
                 "promises 2352 bytes of numbers, but 2351 follow it at offset 16");
    images[4] = 0xff;
    test_file(image_name, images, sizeof images);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT, "promises");
    images[4] = 0;
    images[2] = 9;
    test_file(image_name, images, sizeof images);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT, "00000903");
    images[2] = 8;
    test_file(image_name, images, 10);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT,
                 "inside its header");
    test_file(image_name, images, 2);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT, "too short");
    test_file(image_name, label_file, sizeof label_file);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT, "[count, 28, 28]");

    test_file(image_name, images, sizeof images);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 9, &dataset, &err), err, ERROR_FORMAT,
                 "label 9 of example 2 (offset 10)");
    static const uint8_t four_labels[] = {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
    test_file(label_name, four_labels, sizeof four_labels);
    ASSERT_FAILS(open_mnist(SPLIT_TRAIN, 10, &dataset, &err), err, ERROR_FORMAT,
                 "4 labels for 3 images");
    ASSERT_CONTAINS(err.message, label_name);
}

TEST(mnist, says_what_is_missing)
{
    struct dataset *dataset;
    struct error err;
    struct dataset_request request = {.path = "/nowhere", .classes = 10};
    ASSERT_FAILS(kind_of("mnist")->open(&request, &dataset, &err), err, ERROR_IO,
                 "/nowhere: No such file or directory");
    request.path = "tests/unit/data";
    ASSERT_FAILS(kind_of("mnist")->open(&request, &dataset, &err), err, ERROR_ABSENT,
                 "tests/unit/data holds neither train-images-idx3-ubyte nor");
    request.path = NULL;
    ASSERT_FAILS(kind_of("mnist")->open(&request, &dataset, &err), err, ERROR_USAGE, "mnist:DIR");
}

/* The file is written into the test's directory and read from there. */
static int read_idx_file(const char *name, const void *bytes, size_t count, struct error *err)
{
    struct storage *storage;
    struct idx idx;
    test_file(name, bytes, count);
    ASSERT_OK(storage_open(test_directory(), NULL, &storage, err), *err);
    int status = idx_read(storage, storage_find(storage, name), &idx, err);
    storage_close(storage);
    return status;
}

TEST(idx, refuses_gzip_data_that_is_none_cut_off_or_damaged)
{
    struct error err;
    uint8_t images[IMAGE_FILE], packed[IMAGE_FILE];
    make_images(images);
    ASSERT_FAILS(read_idx_file("plain.gz", images, sizeof images, &err), err, ERROR_FORMAT,
                 "plain.gz: not gzip data");
    write_packed("whole.gz", images, sizeof images);
    FILE *file = fopen(test_path("whole.gz"), "rb");
    size_t count = fread(packed, 1, sizeof packed, file);
    fclose(file);
    ASSERT_INT(count, >, 100);
    for (size_t length = 2; length < count; length += 31)
        ASSERT_FAILS(read_idx_file("short.gz", packed, length, &err), err, ERROR_FORMAT,
                     "short.gz: the gzip data ends too early, at offset");
    packed[count - 6] ^= 1; /* its checksum */
    ASSERT_FAILS(read_idx_file("sum.gz", packed, count, &err), err, ERROR_FORMAT,
                 "sum.gz: damaged gzip data near offset");
}

TEST(idx, refuses_dimensions_whose_product_overflows)
{
    uint8_t bytes[20 + 4] = {0, 0, 8, 4};
    memset(bytes + 4, 0xff, 16);
    struct idx idx;
    struct error err;
    ASSERT_FAILS(idx_parse("x", bytes, sizeof bytes, &idx, &err), err, ERROR_FORMAT, "more than");
}

TEST(mnist, real_files_hold_what_everybody_knows)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", test_data("mnist/t10k-images-idx3-ubyte.gz"));
    *strrchr(directory, '/') = '\0';
    const struct dataset_kind *kind = kind_of("mnist");
    struct dataset_request request = {.path = directory, .split = SPLIT_EVALUATE, .classes = 10};
    struct dataset *dataset;
    struct error err = {0};
    ASSERT_OK(kind->open(&request, &dataset, &err), err);
    ASSERT_INT(kind->count(dataset), ==, 10000);
    static float image[784];
    static const int32_t first_labels[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    int32_t label;
    struct tensor batch[] = {{DTYPE_F32, SHAPE(1, 28, 28, 1), image},
                             {DTYPE_I32, SHAPE(1), &label}};
    for (int i = 0; i < 10; i++) {
        ASSERT_OK(kind->read(dataset, i, 0, batch, 0, &err), err);
        ASSERT_INT(label, ==, first_labels[i]);
    }
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        ASSERT_OK(kind->read(dataset, i, 0, batch, 0, &err), err);
        for (int p = 0; p < 784; p++)
            sum += image[p];
    }
    ASSERT_NEAR(sum / 7840000, 0.13251, 1e-3, 0);
    kind->close(dataset);
}
