/* What both picture targets do with their bytes. */
#ifndef FUZZ_TRY_PICTURE_H
#define FUZZ_TRY_PICTURE_H

#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/pictures.h"

enum { SIZE = 24, MOST_PIXELS = 1 << 20 };

static void check_numbers(const float *numbers)
{
    for (int i = 0; i < SIZE * SIZE * 3; i++)
        assert(numbers[i] >= 0 && numbers[i] <= 255);
}

/* Header, random crop, evaluation and whole decoding: numbers in the range of pixels, or an error
 * that says something. */
static void try_picture(const uint8_t *bytes, size_t count, uint64_t key)
{
    static const struct picture_numbers as_they_are = {{0, 0, 0}, {1, 1, 1}};
    static struct pictures *pictures; /* kept: state left from one picture must not harm the next */
    struct picture_info info;
    struct picture picture;
    struct error err = {0};
    float numbers[SIZE * SIZE * 3];
    if (!pictures && pictures_create(&pictures, &err) < 0)
        return;
    if (pictures_probe(pictures, bytes, count, &info, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return;
    }
    if ((int64_t)info.width * info.height > MOST_PIXELS)
        return;
    if (pictures_sample(pictures, bytes, count, SIZE, key, &as_they_are, numbers, &err) == 0)
        check_numbers(numbers);
    if (pictures_centre(pictures, bytes, count, SIZE, &as_they_are, numbers, &err) == 0)
        check_numbers(numbers);
    if (pictures_decode(pictures, bytes, count, &picture, &err) == 0) {
        assert(picture.width == info.width && picture.height == info.height);
        memory_free(picture.pixels);
    }
}

#endif
