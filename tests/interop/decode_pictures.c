/* decode_pictures SIZE FILE... > OUT: what we make of pictures, for a comparison with TensorFlow.
 * For each file: int32 failed; if so int32 length and the message; else int32 width, height, the
 * decoded bytes, and the SIZE x SIZE x 3 floats of evaluation. */
#include <inttypes.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/pictures.h"

static void put(const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, stdout) != count)
        exit(1);
}

static void put_int(int32_t value)
{
    put(&value, sizeof value);
}

static int put_picture(struct pictures *pictures, const char *bytes, size_t count, int size,
                       float *numbers, struct error *err)
{
    struct picture picture;
    if (pictures_decode(pictures, bytes, count, &picture, err) < 0)
        return -1;
    int status =
        pictures_centre(pictures, bytes, count, size, &picture_numbers_imagenet, numbers, err);
    if (status == 0) {
        put_int(0);
        put_int(picture.width);
        put_int(picture.height);
        put(picture.pixels, (size_t)picture.width * (size_t)picture.height * 3);
        put(numbers, (size_t)size * (size_t)size * 3 * sizeof *numbers);
    }
    memory_free(picture.pixels);
    return status;
}

int main(int argc, char **argv)
{
    int size = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    struct pictures *pictures;
    struct error err;
    if (size < 1 || size > 4096 || pictures_create(&pictures, &err) < 0)
        return 2;
    float *numbers = memory_allocate((size_t)size * (size_t)size * 3 * sizeof *numbers);
    for (int i = 2; numbers && i < argc; i++) {
        char *bytes;
        size_t count;
        if (file_read(argv[i], (size_t)1 << 30, &bytes, &count, &err) < 0)
            return 2;
        if (put_picture(pictures, bytes, count, size, numbers, &err) < 0) {
            put_int(1);
            put_int((int32_t)strlen(err.message));
            put(err.message, strlen(err.message));
        }
        memory_free(bytes);
    }
    memory_free(numbers);
    pictures_destroy(pictures);
    return fflush(stdout) ? 1 : 0;
}
