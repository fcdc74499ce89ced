/* Pictures: what is decoded of which file, what is refused and how, which part a training step
 * sees, and that every shortcut gives what the long way gives. */
#include <math.h>
#include <pthread.h>
#include <zlib.h>

#include <jpeglib.h>

#include "base/files.h"
#include "base/memory.h"
#include "data/crop.h"
#include "data/jpeg.h"
#include "data/pictures.h"
#include "data/resample.h"
#include "support/test.h"
#include "tensor/random.h"

static struct pictures *open_pictures(void)
{
    struct pictures *pictures = NULL;
    struct error err = {0};
    ASSERT_OK(pictures_create(&pictures, &err), err);
    return pictures;
}

/* Smooth colours with an edge: something for every frequency, and nothing symmetric. */
static struct picture draw(int width, int height)
{
    struct picture picture = {width, height, memory_allocate((size_t)width * (size_t)height * 3)};
    ASSERT_TRUE(picture.pixels != NULL);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *at = picture.pixels + ((size_t)y * (size_t)width + (size_t)x) * 3;
            at[0] = (uint8_t)(127 + 120 * sin(x * 0.05 + y * 0.02));
            at[1] = (uint8_t)(x * 255 / width);
            at[2] = (uint8_t)((x / 9 + y / 7) % 2 ? 220 : y * 200 / height);
        }
    return picture;
}

struct bytes {
    uint8_t *data;
    size_t count;
};

static struct bytes as_jpeg(const struct picture *picture, int quality)
{
    struct bytes bytes;
    struct error err = {0};
    ASSERT_OK(picture_encode_jpeg(picture, quality, &bytes.data, &bytes.count, &err), err);
    return bytes;
}

static struct bytes as_png(const struct picture *picture)
{
    struct bytes bytes;
    struct error err = {0};
    ASSERT_OK(picture_encode_png(picture, &bytes.data, &bytes.count, &err), err);
    return bytes;
}

static struct bytes drawn_jpeg(int width, int height)
{
    struct picture picture = draw(width, height);
    struct bytes bytes = as_jpeg(&picture, 90);
    memory_free(picture.pixels);
    return bytes;
}

static struct bytes read_whole_file(const char *path)
{
    char *data;
    struct bytes bytes;
    struct error err = {0};
    ASSERT_OK(file_read(path, 1 << 24, &data, &bytes.count, &err), err);
    bytes.data = (uint8_t *)data;
    return bytes;
}

/* ---- the odd ones ---- */

static void check_refused(struct pictures *pictures, const char *name, struct bytes bytes)
{
    static const char *const reasons[][2] = {
        {"bad_cut_in_half.jpg", "cut off"},
        {"bad_cut_in_header.jpg", "cut off"},
        {"bad_empty.jpg", "0 bytes"},
        {"bad_soi_only.jpg", "cut off"},
        {"bad_text.jpg", "neither a JPEG nor a PNG"},
        {"bad_zero_height.jpg", "Empty JPEG image"},
        {"libjpegturbo_monkey12.jpg", "precision 12"},
        {"pillow_truncated_jpeg.jpg", "cut off"},
    };
    struct picture picture;
    struct error err;
    const char *reason = "a reason that this test does not know";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(reasons[i][0], name) == 0)
            reason = reasons[i][1];
    ASSERT_FAILS(pictures_decode(pictures, bytes.data, bytes.count, &picture, &err), err,
                 ERROR_FORMAT, reason);
}

static void check_mean(const char *name, const struct picture *picture, const double expected[3])
{
    double sum[3] = {0}, count = (double)picture->width * picture->height;
    for (size_t i = 0; i < (size_t)count; i++)
        for (int c = 0; c < 3; c++)
            sum[c] += picture->pixels[3 * i + (size_t)c];
    /* The file has one decimal. */
    for (int c = 0; c < 3; c++)
        if (fabs(sum[c] / count - expected[c]) > 0.0501)
            FAIL("%s: mean of channel %d is %.3f, not %.1f", name, c, sum[c] / count, expected[c]);
}

static void check_numbers(struct pictures *pictures, struct bytes bytes)
{
    static float numbers[224 * 224 * 3];
    struct error err = {0};
    ASSERT_OK(pictures_centre(pictures, bytes.data, bytes.count, 224, &picture_numbers_imagenet,
                              numbers, &err),
              err);
    for (uint64_t key = 0; key < 3; key++)
        ASSERT_OK(pictures_sample(pictures, bytes.data, bytes.count, 224, key,
                                  &picture_numbers_imagenet, numbers, &err),
                  err);
}

TEST(pictures, of_odd_kinds_give_what_tensorflow_gives_or_say_what_is_wrong)
{
    struct bytes table = read_whole_file(test_data("odd-images/expected.tsv"));
    struct pictures *pictures = open_pictures();
    char *rest = (char *)table.data, *line = strsep(&rest, "\n");
    int files = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        char *columns[9], path[128];
        for (int i = 0; i < 9; i++)
            ASSERT_TRUE((columns[i] = strsep(&line, "\t")) != NULL);
        snprintf(path, sizeof path, "odd-images/%s", columns[0]);
        struct bytes bytes = read_whole_file(test_data(path));
        files++;
        if (strcmp(columns[8], "error") == 0) {
            check_refused(pictures, columns[0], bytes);
        } else {
            int width, height;
            double mean[3];
            struct picture picture;
            struct error err = {0};
            ASSERT_INT(sscanf(columns[7], "%dx%d", &width, &height), ==, 2);
            ASSERT_INT(sscanf(columns[8], "%lf,%lf,%lf", &mean[0], &mean[1], &mean[2]), ==, 3);
            ASSERT_OK(pictures_decode(pictures, bytes.data, bytes.count, &picture, &err), err);
            ASSERT_INT(picture.width, ==, width);
            ASSERT_INT(picture.height, ==, height);
            check_mean(columns[0], &picture, mean);
            check_numbers(pictures, bytes);
            memory_free(picture.pixels);
        }
        memory_free(bytes.data);
    }
    ASSERT_INT(files, >=, 50);
    memory_free(table.data);
    pictures_destroy(pictures);
}

TEST(pictures, are_known_by_their_first_bytes)
{
    struct pictures *pictures = open_pictures();
    struct picture picture = draw(31, 17);
    struct bytes jpeg = as_jpeg(&picture, 80), png = as_png(&picture);
    struct picture_info info;
    struct error err = {0};
    ASSERT_OK(pictures_probe(pictures, jpeg.data, jpeg.count, &info, &err), err);
    ASSERT_TRUE(info.format == PICTURE_JPEG && info.width == 31 && info.height == 17);
    ASSERT_INT(info.channels, ==, 3);
    ASSERT_OK(pictures_probe(pictures, png.data, png.count, &info, &err), err);
    ASSERT_TRUE(info.format == PICTURE_PNG && info.width == 31 && info.height == 17);
    memory_free(jpeg.data);
    memory_free(png.data);
    memory_free(picture.pixels);
    pictures_destroy(pictures);
}

/* ---- damage ---- */

TEST(pictures, cut_anywhere_are_refused_and_the_decoder_goes_on)
{
    struct pictures *pictures = open_pictures();
    struct picture drawn = draw(64, 48), picture;
    struct bytes both[2] = {as_jpeg(&drawn, 80), as_png(&drawn)};
    struct error err;
    for (int kind = 0; kind < 2; kind++) {
        /* The last 12 bytes of a PNG are its end mark, which decoding does not need. */
        size_t last = both[kind].count - (kind ? 20 : 2);
        for (size_t count = 0; count < last; count += 1 + count / 50) {
            uint8_t *exact = memory_allocate(count ? count : 1);
            memcpy(exact, both[kind].data, count);
            err = (struct error){0};
            if (pictures_decode(pictures, exact, count, &picture, &err) == 0)
                FAIL("kind %d: %zu of %zu bytes were enough", kind, count, both[kind].count);
            ASSERT_INT(err.code, ==, ERROR_FORMAT);
            memory_free(exact);
        }
        ASSERT_OK(pictures_decode(pictures, both[kind].data, both[kind].count, &picture, &err),
                  err);
        memory_free(picture.pixels);
        memory_free(both[kind].data);
    }
    memory_free(drawn.pixels);
    pictures_destroy(pictures);
}

/* The frame header: ff c0, length, precision, height, width. */
static void promise_size(struct bytes jpeg, int width, int height)
{
    for (size_t i = 0; i + 9 < jpeg.count; i++)
        if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == 0xc0) {
            uint8_t size[4] = {(uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                               (uint8_t)width};
            memcpy(jpeg.data + i + 5, size, sizeof size);
            return;
        }
    FAIL("no frame header");
}

TEST(pictures, that_promise_an_absurd_size_are_refused)
{
    struct pictures *pictures = open_pictures();
    struct picture picture, drawn = draw(16, 16);
    struct bytes jpeg = as_jpeg(&drawn, 80), png = as_png(&drawn);
    struct error err;
    promise_size(jpeg, 65000, 65000);
    ASSERT_FAILS(pictures_decode(pictures, jpeg.data, jpeg.count, &picture, &err), err,
                 ERROR_FORMAT, "65000 x 65000 pixels; the most we decode is 178 million");
    memcpy(png.data + 16, "\x00\x10\x00\x00\x00\x10\x00\x00", 8);
    uint32_t sum = (uint32_t)crc32(0, png.data + 12, 17);
    for (int i = 0; i < 4; i++)
        png.data[29 + i] = (uint8_t)(sum >> (24 - 8 * i));
    ASSERT_FAILS(pictures_decode(pictures, png.data, png.count, &picture, &err), err, ERROR_FORMAT,
                 "1048576 x 1048576 pixels");
    memory_free(jpeg.data);
    memory_free(png.data);
    memory_free(drawn.pixels);
    pictures_destroy(pictures);
}

/* One coefficient of one component in each scan, in two steps: 379 scans. */
static int many_scans(jpeg_scan_info *scans)
{
    int count = 0;
    scans[count++] = (jpeg_scan_info){3, {0, 1, 2}, 0, 0, 0, 0};
    for (int low = 1; low >= 0; low--)
        for (int component = 0; component < 3; component++)
            for (int k = 1; k < 64; k++)
                scans[count++] = (jpeg_scan_info){1, {component}, k, k, low ? 0 : 1, low};
    return count;
}

static struct bytes progressive_jpeg(const struct picture *picture, const jpeg_scan_info *scans,
                                     int count)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long bytes = 0;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &bytes);
    info.image_width = (JDIMENSION)picture->width;
    info.image_height = (JDIMENSION)picture->height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_simple_progression(&info);
    if (scans) {
        info.scan_info = scans;
        info.num_scans = count;
    }
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = picture->pixels + (size_t)info.next_scanline * (size_t)picture->width * 3;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    struct bytes copy = {memory_allocate(bytes), bytes};
    memcpy(copy.data, data, bytes);
    free(data);
    return copy;
}

TEST(pictures, of_hundreds_of_scans_are_refused)
{
    static jpeg_scan_info scans[400];
    struct pictures *pictures = open_pictures();
    struct picture picture, drawn = draw(40, 30);
    struct bytes usual = progressive_jpeg(&drawn, NULL, 0);
    struct bytes bomb = progressive_jpeg(&drawn, scans, many_scans(scans));
    struct error err = {0};
    ASSERT_OK(pictures_decode(pictures, usual.data, usual.count, &picture, &err), err);
    memory_free(picture.pixels);
    ASSERT_FAILS(pictures_decode(pictures, bomb.data, bomb.count, &picture, &err), err,
                 ERROR_FORMAT, "more than 200 scans");
    memory_free(usual.data);
    memory_free(bomb.data);
    memory_free(drawn.pixels);
    pictures_destroy(pictures);
}

/* ---- crops ---- */

TEST(crop, is_spread_as_tensorflow_spreads_it)
{
    enum { DRAWS = 40000, WIDTH = 500, HEIGHT = 375 };
    struct random random = {.key = 5};
    double place[2] = {0}, aspect = 0, mirrored = 0;
    int places[2] = {0}, shortest = HEIGHT, tallest = 0;
    for (int i = 0; i < DRAWS; i++) {
        struct crop crop = crop_draw(&random, WIDTH, HEIGHT);
        ASSERT_TRUE(crop.left >= 0 && crop.top >= 0 && crop.width > 0 && crop.height > 0);
        ASSERT_INT(crop.left + crop.width, <=, WIDTH);
        ASSERT_INT(crop.top + crop.height, <=, HEIGHT);
        ASSERT_INT(crop.width * crop.height, >=, 0.05 * WIDTH * HEIGHT);
        /* The width is rounded: half a pixel either way. */
        ASSERT_NUMBER((crop.width + 0.5) / crop.height, >=, 0.75);
        ASSERT_NUMBER((crop.width - 0.5) / crop.height, <=, 4.0 / 3);
        if (crop.left + crop.width < WIDTH && WIDTH - crop.width > 1)
            places[0]++, place[0] += (double)crop.left / (WIDTH - crop.width - 1);
        if (crop.top + crop.height < HEIGHT && HEIGHT - crop.height > 1)
            places[1]++, place[1] += (double)crop.top / (HEIGHT - crop.height - 1);
        shortest = crop.height < shortest ? crop.height : shortest;
        tallest = crop.height > tallest ? crop.height : tallest;
        aspect += (double)crop.width / crop.height / DRAWS;
        mirrored += crop.mirrored / (double)DRAWS;
    }
    /* Five deviations of each mean. */
    ASSERT_NEAR(place[0] / places[0], 0.5, 0.02, 0);
    ASSERT_NEAR(place[1] / places[1], 0.5, 0.02, 0);
    ASSERT_NEAR(aspect, (3.0 / 4 + 4.0 / 3) / 2, 0.005, 0);
    ASSERT_NEAR(mirrored, 0.5, 0.025, 0);
    ASSERT_INT(shortest, <=, 85); /* sqrt(0.05 * 500 * 375 / (4 / 3)) = 83.9 */
    ASSERT_INT(tallest, ==, HEIGHT);
}

TEST(crop, is_the_whole_picture_when_no_other_fits)
{
    struct random random = {.key = 5};
    for (int i = 0; i < 100; i++) {
        struct crop line = crop_draw(&random, 2000, 1), dot = crop_draw(&random, 1, 1);
        ASSERT_TRUE(line.left == 0 && line.top == 0 && line.width == 2000 && line.height == 1);
        ASSERT_TRUE(dot.left == 0 && dot.top == 0 && dot.width == 1 && dot.height == 1);
    }
}

/* ---- parts and scales of a JPEG ---- */

static void check_parts(struct jpeg_decoder *decoder, struct bytes jpeg, int eighths, bool fast,
                        struct random *random)
{
    struct picture_info info;
    struct error err = {0};
    struct pixels all, part;
    ASSERT_OK(jpeg_decoder_open(decoder, jpeg.data, jpeg.count, &info, &err), err);
    int width = (info.width * eighths + 7) / 8, height = (info.height * eighths + 7) / 8;
    struct jpeg_request whole = {eighths, 0, 0, width, height, fast};
    ASSERT_OK(jpeg_decoder_read(decoder, &whole, &all, &err), err);
    size_t row = (size_t)width * 3;
    uint8_t *kept = memory_allocate(row * (size_t)height);
    for (int y = 0; y < height; y++)
        memcpy(kept + row * (size_t)y, all.data + all.stride * (size_t)y, row);
    for (int i = 0; i < 40; i++) {
        struct jpeg_request request = {eighths, .fast = fast};
        request.left = (int)random_below(random, width);
        request.top = (int)random_below(random, height);
        request.width = 1 + (int)random_below(random, width - request.left);
        request.height = 1 + (int)random_below(random, height - request.top);
        ASSERT_OK(jpeg_decoder_open(decoder, jpeg.data, jpeg.count, &info, &err), err);
        ASSERT_OK(jpeg_decoder_read(decoder, &request, &part, &err), err);
        for (int y = 0; y < request.height; y++) {
            const uint8_t *expected =
                kept + row * (size_t)(request.top + y) + 3 * (size_t)request.left;
            const uint8_t *actual = part.data + part.stride * (size_t)y;
            if (memcmp(actual, expected, 3 * (size_t)request.width) != 0)
                FAIL("%d/8%s, %d x %d at %d, %d of %d x %d: row %d differs", eighths,
                     fast ? " fast" : "", request.width, request.height, request.left, request.top,
                     width, height, y);
        }
    }
    memory_free(kept);
}

static void check_all_parts(struct bytes jpeg)
{
    struct jpeg_decoder *decoder;
    struct error err = {0};
    struct random random = {.key = 9};
    ASSERT_OK(jpeg_decoder_create(&decoder, &err), err);
    for (int eighths = 1; eighths <= 8; eighths++)
        for (int fast = 0; fast < 2; fast++)
            check_parts(decoder, jpeg, eighths, fast, &random);
    jpeg_decoder_destroy(decoder);
    memory_free(jpeg.data);
}

TEST(jpeg, parts_are_the_same_pixels_as_in_the_whole_at_every_scale)
{
    check_all_parts(drawn_jpeg(211, 150));
    check_all_parts(drawn_jpeg(64, 64));
    check_all_parts(drawn_jpeg(5, 90));
}

TEST(jpeg, parts_are_the_same_pixels_whatever_the_sampling)
{
    static const char *const names[] = {
        "made_sub420.jpg",        "made_sub422.jpg",
        "made_sub444.jpg",        "made_progressive.jpg",
        "made_restart.jpg",       "made_cmyk.jpg",
        "pillow_hopper_gray.jpg", "libjpegturbo_testimgari.jpg",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        snprintf(path, sizeof path, "odd-images/%s", names[i]);
        check_all_parts(read_whole_file(test_data(path)));
    }
}

/* ---- numbers ---- */

static double pixel_at(const struct picture *picture, int x, int y, int c)
{
    return picture->pixels[((size_t)y * (size_t)picture->width + (size_t)x) * 3 + (size_t)c];
}

/* Bilinear in double precision at a place of the crop, whose edges are repeated. */
static double blend(const struct picture *picture, const struct crop *crop, double x, double y,
                    int c)
{
    int left = (int)x, top = (int)y;
    int right = left + 1 < crop->width ? left + 1 : left;
    int bottom = top + 1 < crop->height ? top + 1 : top;
    double across = x - left, down = y - top;
    int columns[2] = {left, right};
    for (int i = 0; crop->mirrored && i < 2; i++)
        columns[i] = crop->width - 1 - columns[i];
    double upper = pixel_at(picture, crop->left + columns[0], crop->top + top, c) * (1 - across) +
                   pixel_at(picture, crop->left + columns[1], crop->top + top, c) * across;
    double lower =
        pixel_at(picture, crop->left + columns[0], crop->top + bottom, c) * (1 - across) +
        pixel_at(picture, crop->left + columns[1], crop->top + bottom, c) * across;
    return upper * (1 - down) + lower * down;
}

/* Places are computed in single precision: a 2000th of a pixel of 255 at the most. */
static const double place_error = 255.0 / 2000;

static void check_sample(struct pictures *pictures, const struct picture *picture, struct bytes png,
                         int size, uint64_t key)
{
    static const struct picture_numbers numbers = {{10, 20, 30}, {0.5f, 0.25f, 2}};
    float *out = memory_allocate((size_t)size * (size_t)size * 3 * sizeof *out);
    struct error err = {0};
    ASSERT_OK(pictures_sample(pictures, png.data, png.count, size, key, &numbers, out, &err), err);
    struct random random = {.key = key};
    struct crop crop = crop_draw(&random, picture->width, picture->height);
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++)
            for (int c = 0; c < 3; c++) {
                double value = blend(picture, &crop, (double)x * crop.width / size,
                                     (double)y * crop.height / size, c);
                double expected = (value - numbers.mean[c]) * numbers.scale[c];
                double got = out[((size_t)y * (size_t)size + (size_t)x) * 3 + (size_t)c];
                if (fabs(got - expected) > place_error * numbers.scale[c])
                    FAIL("size %d, key %d, %d, %d, %d: %f, not %f", size, (int)key, x, y, c, got,
                         expected);
            }
    memory_free(out);
}

TEST(sample, is_crop_then_mirror_then_bilinear_then_mean_and_scale)
{
    static const int sizes[][2] = {{90, 70}, {1, 1}, {2, 1}, {1, 40}, {300, 11}, {640, 480}};
    struct pictures *pictures = open_pictures();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct picture picture = draw(sizes[i][0], sizes[i][1]);
        struct bytes png = as_png(&picture);
        for (uint64_t key = 0; key < 6; key++) {
            check_sample(pictures, &picture, png, 32, key);
            check_sample(pictures, &picture, png, 45, key);
            check_sample(pictures, &picture, png, 1, key);
        }
        memory_free(png.data);
        memory_free(picture.pixels);
    }
    pictures_destroy(pictures);
}

/* What scaled decoding sees must lie where unscaled decoding sees it: a slope shows any shift. */
TEST(sample, of_a_scaled_jpeg_shows_the_same_place_as_the_unscaled_picture)
{
    enum { SIDE = 1024, SIZE = 32 };
    static float scaled[SIZE * SIZE * 3], plain[SIZE * SIZE * 3];
    static const struct picture_numbers as_they_are = {{0, 0, 0}, {1, 1, 1}};
    struct pictures *pictures = open_pictures();
    struct picture slope = draw(SIDE, SIDE);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            memset(slope.pixels + ((size_t)y * SIDE + (size_t)x) * 3, (x + y) / 10 + 20, 3);
    struct bytes jpeg = as_jpeg(&slope, 100), png = as_png(&slope);
    struct error err = {0};
    for (uint64_t key = 0; key < 20; key++) {
        ASSERT_OK(
            pictures_sample(pictures, jpeg.data, jpeg.count, SIZE, key, &as_they_are, scaled, &err),
            err);
        ASSERT_OK(
            pictures_sample(pictures, png.data, png.count, SIZE, key, &as_they_are, plain, &err),
            err);
        double shift = 0;
        for (int i = 0; i < SIZE * SIZE * 3; i++)
            shift += (scaled[i] - plain[i]) / (SIZE * SIZE * 3);
        /* A tenth of a level is a pixel of the unscaled picture; the fast DCT alone moves the
         * mean by up to one level. */
        ASSERT_NUMBER(fabs(shift), <=, 1);
    }
    memory_free(slope.pixels);
    memory_free(jpeg.data);
    memory_free(png.data);
    pictures_destroy(pictures);
}

TEST(sample, depends_on_the_key_alone)
{
    enum { SIZE = 64, FLOATS = SIZE * SIZE * 3 };
    static float first[FLOATS], again[FLOATS], other[FLOATS];
    struct pictures *one = open_pictures(), *two = open_pictures();
    struct bytes jpeg = drawn_jpeg(200, 150), between = drawn_jpeg(321, 99);
    const struct picture_numbers *numbers = &picture_numbers_imagenet;
    struct error err = {0};
    ASSERT_OK(pictures_sample(one, jpeg.data, jpeg.count, SIZE, 7, numbers, first, &err), err);
    ASSERT_OK(pictures_sample(two, between.data, between.count, SIZE, 1, numbers, other, &err),
              err);
    ASSERT_OK(pictures_sample(two, jpeg.data, jpeg.count, SIZE, 7, numbers, again, &err), err);
    ASSERT_BYTES(again, first, sizeof first);
    ASSERT_OK(pictures_sample(two, jpeg.data, jpeg.count, SIZE, 8, numbers, other, &err), err);
    ASSERT_TRUE(memcmp(other, first, sizeof first) != 0);
    memory_free(jpeg.data);
    memory_free(between.data);
    pictures_destroy(one);
    pictures_destroy(two);
}

TEST(centre, is_the_middle_of_the_picture_resized_to_eight_sevenths)
{
    enum { SIZE = 56, SHORT = 64 };
    static float out[SIZE * SIZE * 3];
    struct pictures *pictures = open_pictures();
    struct picture picture = draw(200, 128);
    struct bytes png = as_png(&picture);
    struct error err = {0};
    struct crop whole = {0, 0, 200, 128, false};
    ASSERT_OK(
        pictures_centre(pictures, png.data, png.count, SIZE, &picture_numbers_imagenet, out, &err),
        err);
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++)
            for (int c = 0; c < 3; c++) {
                double value = blend(&picture, &whole, (x + (100 - SIZE) / 2) * 2.0,
                                     (y + (SHORT - SIZE) / 2) * 2.0, c);
                ASSERT_NEAR(out[(y * SIZE + x) * 3 + c],
                            value - (double)picture_numbers_imagenet.mean[c], 1e-6, 255);
            }
    memory_free(png.data);
    memory_free(picture.pixels);
    pictures_destroy(pictures);
}

TEST(resample, gives_the_same_bits_on_every_processor)
{
    enum { WIDTH = 301, HEIGHT = 83, MOST = 70 };
    const struct resample_kernels *fastest = resample_fastest();
    struct picture picture = draw(WIDTH, HEIGHT + 1); /* a row of slack */
    struct pixels in = {WIDTH, HEIGHT, WIDTH * 3, picture.pixels};
    static float rows[2 * 4 * MOST], expected[MOST * MOST * 3 + 1], actual[MOST * MOST * 3 + 1];
    for (int size = 1; size <= MOST; size++) {
        struct tap across[MOST], down[MOST];
        taps_fill(across, size, (struct line){WIDTH - 1, -(float)WIDTH / (float)size, 0}, WIDTH);
        taps_fill(down, size, (struct line){0, (float)HEIGHT / (float)size, 0}, HEIGHT);
        size_t floats = (size_t)size * (size_t)size * 3;
        expected[floats] = actual[floats] = 42; /* nothing behind the result is touched */
        resample(&resample_portable, &in, across, size, down, size, &picture_numbers_imagenet, rows,
                 expected);
        resample(fastest, &in, across, size, down, size, &picture_numbers_imagenet, rows, actual);
        ASSERT_BYTES(actual, expected, (floats + 1) * sizeof *actual);
        ASSERT_NUMBER(actual[floats], ==, 42);
    }
    memory_free(picture.pixels);
}

/* ---- threads and memory ---- */

struct work {
    struct pictures *pictures;
    struct bytes jpeg;
    float sum;
    int failures;
};

static void *sample_many(void *context)
{
    struct work *work = context;
    static _Thread_local float out[48 * 48 * 3];
    struct error err;
    for (uint64_t key = 0; key < 50; key++) {
        work->failures += pictures_sample(work->pictures, work->jpeg.data, work->jpeg.count, 48,
                                          key, &picture_numbers_imagenet, out, &err) < 0;
        for (int i = 0; i < 48 * 48 * 3; i++)
            work->sum += out[i];
    }
    return NULL;
}

TEST(pictures, are_decoded_by_many_threads_at_once)
{
    enum { THREADS = 4 };
    struct pictures *pictures = open_pictures();
    struct work work[THREADS];
    pthread_t threads[THREADS];
    struct bytes jpeg = drawn_jpeg(120, 160);
    for (int i = 0; i < THREADS; i++) {
        work[i] = (struct work){pictures, jpeg, 0, 0};
        ASSERT_INT(pthread_create(&threads[i], NULL, sample_many, &work[i]), ==, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ASSERT_INT(work[i].failures, ==, 0);
        ASSERT_NUMBER(work[i].sum, ==, work[0].sum);
    }
    memory_free(jpeg.data);
    pictures_destroy(pictures);
}

TEST(pictures, need_no_new_memory_after_the_first)
{
    struct pictures *pictures = open_pictures();
    struct work work = {pictures, drawn_jpeg(120, 160), 0, 0};
    sample_many(&work);
    uint64_t before = memory_allocation_count();
    sample_many(&work);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    memory_free(work.jpeg.data);
    pictures_destroy(pictures);
}

/* ---- writing ---- */

TEST(picture, comes_back_from_png_exactly_and_from_jpeg_nearly)
{
    struct pictures *pictures = open_pictures();
    struct picture drawn = draw(150, 101), back;
    for (int i = 0; i < 150 * 101; i++)
        drawn.pixels[3 * i + 2] = (uint8_t)(i / 150 * 2); /* no edges, which chroma would lose */
    struct bytes png = as_png(&drawn), jpeg = as_jpeg(&drawn, 95), small = as_jpeg(&drawn, 30);
    struct error err = {0};
    ASSERT_OK(pictures_decode(pictures, png.data, png.count, &back, &err), err);
    ASSERT_BYTES(back.pixels, drawn.pixels, 150 * 101 * 3);
    memory_free(back.pixels);
    ASSERT_OK(pictures_decode(pictures, jpeg.data, jpeg.count, &back, &err), err);
    double off = 0;
    for (int i = 0; i < 150 * 101 * 3; i++)
        off += abs(back.pixels[i] - drawn.pixels[i]) / (150.0 * 101 * 3);
    ASSERT_NUMBER(off, <, 3);
    ASSERT_INT(small.count, <, jpeg.count / 2);
    memory_free(back.pixels);
    memory_free(drawn.pixels);
    memory_free(png.data);
    memory_free(jpeg.data);
    memory_free(small.data);
    pictures_destroy(pictures);
}

TEST(picture, resized_keeps_its_mean_and_its_slopes)
{
    struct picture slope = draw(100, 60), out;
    struct error err = {0};
    for (int i = 0; i < 100 * 60; i++)
        memset(slope.pixels + 3 * i, i % 100 * 2 + 20, 3);
    static const int sizes[][2] = {{50, 30}, {25, 7}, {200, 120}, {100, 60}, {1, 1}, {33, 61}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int width = sizes[k][0], height = sizes[k][1];
        ASSERT_OK(picture_resize(&slope, width, height, &out, &err), err);
        ASSERT_TRUE(out.width == width && out.height == height);
        for (int i = 0; i < width * height; i++) {
            double middle = (i % width + 0.5) * 100 / width - 0.5, edge = 100.0 / width;
            if (middle >= edge && middle <= 99 - edge)
                ASSERT_NUMBER(fabs(out.pixels[3 * i + 1] - (middle * 2 + 20)), <=, 0.6);
        }
        memory_free(out.pixels);
    }
    ASSERT_FAILS(picture_resize(&slope, 0, 5, &out, &err), err, ERROR_FORMAT, "0 x 5 pixels");
    memory_free(slope.pixels);
}
