#include "data/dataset.h"
#include "data/handwriting.h"
#include "support/test.h"
#include "tensor/random.h"

struct example {
    float pixels[HANDWRITING_PIXELS];
    int32_t label;
};

static const struct dataset_kind *digits(void)
{
    const struct dataset_kind *kind;
    const char *path;
    struct error err = {0};
    ASSERT_OK(dataset_find("digits", &kind, &path, &err), err);
    return kind;
}

static struct dataset *open_digits(uint64_t seed, enum dataset_split split, int64_t examples)
{
    struct dataset_request request = {
        .seed = seed, .split = split, .examples = examples, .classes = 10};
    struct dataset *dataset;
    struct error err = {0};
    ASSERT_OK(digits()->open(&request, &dataset, &err), err);
    return dataset;
}

static struct example read_example(struct dataset *dataset, int64_t index)
{
    struct example example;
    struct tensor batch[] = {{DTYPE_F32, SHAPE(1, 28, 28, 1), example.pixels},
                             {DTYPE_I32, SHAPE(1), &example.label}};
    struct error err = {0};
    /* Another stream each time: a drawn digit has nothing to augment. */
    static uint64_t stream;
    ASSERT_OK(digits()->read(dataset, index, stream++, batch, 0, &err), err);
    return example;
}

TEST(digits, depend_on_seed_split_and_index_alone)
{
    struct dataset *a = open_digits(1, SPLIT_TRAIN, 0), *b = open_digits(1, SPLIT_TRAIN, 5),
                   *other_seed = open_digits(2, SPLIT_TRAIN, 0),
                   *other_split = open_digits(1, SPLIT_EVALUATE, 0);
    for (int i = 4; i >= 0; i--) {
        struct example one = read_example(a, i), same = read_example(b, i);
        ASSERT_INT(one.label, ==, same.label);
        ASSERT_BYTES(one.pixels, same.pixels, sizeof one.pixels);
        struct example unlike[] = {read_example(a, i + 1), read_example(other_seed, i),
                                   read_example(other_split, i)};
        for (int j = 0; j < 3; j++)
            ASSERT_TRUE(memcmp(one.pixels, unlike[j].pixels, sizeof one.pixels) != 0);
    }
    ASSERT_INT(digits()->count(a), ==, 60000);
    ASSERT_INT(digits()->count(b), ==, 5);
    ASSERT_INT(digits()->count(other_split), ==, 10000);
    digits()->close(a);
    digits()->close(b);
    digits()->close(other_seed);
    digits()->close(other_split);
}

TEST(digits, come_equally_often_with_ink_in_the_middle_and_paper_around)
{
    struct dataset *dataset = open_digits(3, SPLIT_TRAIN, 0);
    int counts[10] = {0};
    double middle = 0, rim = 0;
    for (int i = 0; i < 5000; i++) {
        struct example example = read_example(dataset, i);
        ASSERT_TRUE(example.label >= 0 && example.label < 10);
        counts[example.label]++;
        float darkest = 0;
        double ink = 0;
        for (int p = 0; p < HANDWRITING_PIXELS; p++) {
            float value = example.pixels[p];
            ASSERT_TRUE(value >= 0 && value <= 1);
            darkest = value > darkest ? value : darkest;
            ink += value / HANDWRITING_PIXELS;
            int x = p % 28, y = p / 28;
            if (x > 8 && x < 19 && y > 8 && y < 19)
                middle += value / 100 / 5000;
            if (x == 0 || y == 0 || x == 27 || y == 27)
                rim += value / 108 / 5000;
        }
        ASSERT_NUMBER(darkest, >, 0.35);
        ASSERT_NUMBER(ink, >, 0.01);
        ASSERT_NUMBER(ink, <, 0.5);
    }
    ASSERT_NUMBER(middle, >, 0.15);
    ASSERT_NUMBER(rim, <, 0.03);
    for (int digit = 0; digit < 10; digit++) {
        ASSERT_INT(counts[digit], >, 400);
        ASSERT_INT(counts[digit], <, 600);
    }
    digits()->close(dataset);
}

TEST(digits, of_one_kind_look_more_alike_than_those_of_two)
{
    double mean[10][HANDWRITING_PIXELS] = {{0}};
    enum { EACH = 400 };
    uint8_t drawn[HANDWRITING_PIXELS];
    for (int digit = 0; digit < 10; digit++)
        for (uint64_t i = 0; i < EACH; i++) {
            handwriting_draw(digit, random_key((uint64_t)digit, i), drawn);
            for (int p = 0; p < HANDWRITING_PIXELS; p++)
                mean[digit][p] += drawn[p] / (255.0 * EACH);
        }
    int right = 0;
    for (int digit = 0; digit < 10; digit++)
        for (uint64_t i = 0; i < 50; i++) {
            handwriting_draw(digit, random_key((uint64_t)digit, EACH + i), drawn);
            int nearest = 0;
            double best = 1e9;
            for (int other = 0; other < 10; other++) {
                double distance = 0;
                for (int p = 0; p < HANDWRITING_PIXELS; p++) {
                    double d = drawn[p] / 255.0 - mean[other][p];
                    distance += d * d;
                }
                if (distance < best) {
                    best = distance;
                    nearest = other;
                }
            }
            right += nearest == digit;
        }
    /* Guessing gives 50 of the 500; the nearest mean picture much more, but far from all. */
    ASSERT_INT(right, >, 300);
    ASSERT_INT(right, <, 490);
}

TEST(digits, are_not_read_from_anywhere)
{
    struct dataset_request request = {.path = "/data", .classes = 10};
    struct dataset *dataset;
    struct error err;
    ASSERT_FAILS(digits()->open(&request, &dataset, &err), err, ERROR_USAGE, "/data");
    request.path = NULL;
    request.classes = 5;
    ASSERT_FAILS(digits()->open(&request, &dataset, &err), err, ERROR_USAGE, "5 classes");
}
