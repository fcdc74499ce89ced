/* Chooses the decoder by the first bytes, what to decode, and how it becomes numbers. */
#include "data/pictures.h"

#include <assert.h>
#include <pthread.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/crop.h"
#include "data/jpeg.h"
#include "data/png.h"
#include "data/resample.h"
#include "tensor/random.h"

const struct picture_numbers picture_numbers_imagenet = {{123.68f, 116.78f, 103.94f}, {1, 1, 1}};

const struct picture_numbers *picture_numbers_of(enum pixel_scale scale)
{
    /* torchvision's means 0.485, 0.456, 0.406 and deviations 0.229, 0.224, 0.225, of 0 to 1. */
    static const struct picture_numbers torch = {
        {123.675f, 116.28f, 103.53f}, {1 / (255 * 0.229f), 1 / (255 * 0.224f), 1 / (255 * 0.225f)}};
    static const struct picture_numbers unit = {{0, 0, 0}, {1 / 255.0f, 1 / 255.0f, 1 / 255.0f}};
    static const struct picture_numbers both = {{127.5f, 127.5f, 127.5f},
                                                {1 / 127.5f, 1 / 127.5f, 1 / 127.5f}};
    switch (scale) {
    case PIXELS_TORCH:
        return &torch;
    case PIXELS_UNIT:
        return &unit;
    case PIXELS_SIGNED:
        return &both;
    case PIXELS_MEAN:
        break;
    }
    return &picture_numbers_imagenet;
}

/* All that decoding one picture needs. */
struct worker {
    struct worker *next; /* in the list of those that nobody uses */
    struct jpeg_decoder *jpeg;
    struct scratch png, taps, rows;
};

struct pictures {
    pthread_mutex_t lock;
    struct worker *idle; /* guarded by `lock` */
};

int pictures_create(struct pictures **out, struct error *err)
{
    struct pictures *pictures = memory_allocate(sizeof *pictures);
    if (!pictures)
        return error_set(err, ERROR_MEMORY, "no memory for picture decoders");
    pthread_mutex_init(&pictures->lock, NULL);
    *out = pictures;
    return 0;
}

static void worker_destroy(struct worker *worker)
{
    jpeg_decoder_destroy(worker->jpeg);
    scratch_release(&worker->png);
    scratch_release(&worker->taps);
    scratch_release(&worker->rows);
    memory_free(worker);
}

void pictures_destroy(struct pictures *pictures)
{
    if (!pictures)
        return;
    for (struct worker *worker = pictures->idle, *next; worker; worker = next) {
        next = worker->next;
        worker_destroy(worker);
    }
    pthread_mutex_destroy(&pictures->lock);
    memory_free(pictures);
}

static int worker_create(struct worker **out, struct error *err)
{
    struct worker *worker = memory_allocate(sizeof *worker);
    if (!worker)
        return error_set(err, ERROR_MEMORY, "no memory for a picture decoder");
    if (jpeg_decoder_create(&worker->jpeg, err) < 0) {
        memory_free(worker);
        return -1;
    }
    *out = worker;
    return 0;
}

static int worker_take(struct pictures *pictures, struct worker **out, struct error *err)
{
    pthread_mutex_lock(&pictures->lock);
    struct worker *worker = pictures->idle;
    if (worker)
        pictures->idle = worker->next;
    pthread_mutex_unlock(&pictures->lock);
    *out = worker;
    return worker ? 0 : worker_create(out, err);
}

static void worker_give_back(struct pictures *pictures, struct worker *worker)
{
    pthread_mutex_lock(&pictures->lock);
    worker->next = pictures->idle;
    pictures->idle = worker;
    pthread_mutex_unlock(&pictures->lock);
}

/* ---- decoding ---- */

static int open_picture(struct worker *worker, const void *bytes, size_t count,
                        struct picture_info *out, struct error *err)
{
    if (count == 0)
        return error_set(err, ERROR_FORMAT, "no picture: there are 0 bytes");
    if (png_recognize(bytes, count))
        return png_probe(bytes, count, out, err);
    const uint8_t *start = bytes;
    if (count < 2 || start[0] != 0xff || start[1] != 0xd8)
        return error_set(err, ERROR_FORMAT,
                         "neither a JPEG nor a PNG picture: %zu bytes that start with %02x %02x",
                         count, start[0], count > 1 ? start[1] : 0);
    return jpeg_decoder_open(worker->jpeg, bytes, count, out, err);
}

/* The picture that is open, unscaled. */
static int read_whole(struct worker *worker, const void *bytes, size_t count,
                      const struct picture_info *info, struct pixels *out, struct error *err)
{
    if (info->format == PICTURE_PNG)
        return png_read(bytes, count, &worker->png, out, err);
    struct jpeg_request all = {.eighths = 8, .width = info->width, .height = info->height};
    return jpeg_decoder_read(worker->jpeg, &all, out, err);
}

int pictures_probe(struct pictures *pictures, const void *bytes, size_t count,
                   struct picture_info *out, struct error *err)
{
    struct worker *worker;
    if (worker_take(pictures, &worker, err) < 0)
        return -1;
    int status = open_picture(worker, bytes, count, out, err);
    worker_give_back(pictures, worker);
    return status;
}

static int copy_pixels(const struct pixels *in, struct picture *out, struct error *err)
{
    size_t row = (size_t)in->width * 3;
    uint8_t *pixels = memory_allocate(row * (size_t)in->height);
    if (!pixels)
        return error_set(err, ERROR_MEMORY, "no memory for a picture of %d x %d", in->width,
                         in->height);
    for (int y = 0; y < in->height; y++)
        memcpy(pixels + row * (size_t)y, in->data + in->stride * (size_t)y, row);
    *out = (struct picture){in->width, in->height, pixels};
    return 0;
}

int pictures_decode(struct pictures *pictures, const void *bytes, size_t count, struct picture *out,
                    struct error *err)
{
    struct worker *worker;
    struct picture_info info = {0};
    struct pixels pixels;
    if (worker_take(pictures, &worker, err) < 0)
        return -1;
    int status = open_picture(worker, bytes, count, &info, err);
    if (status == 0)
        status = read_whole(worker, bytes, count, &info, &pixels, err);
    if (status == 0)
        status = copy_pixels(&pixels, out, err);
    worker_give_back(pictures, worker);
    return status;
}

/* ---- numbers ---- */

static int write_numbers(struct worker *worker, const struct pixels *pixels, struct line across,
                         struct line down, int size, const struct picture_numbers *numbers,
                         float *out, struct error *err)
{
    size_t row_bytes = resample_row_floats(size) * sizeof(float);
    if (scratch_reserve(&worker->taps, 2 * (size_t)size * sizeof(struct tap), err) < 0 ||
        scratch_reserve(&worker->rows, 2 * row_bytes, err) < 0)
        return -1;
    struct tap *x = worker->taps.data, *y = x + size;
    taps_fill(x, size, across, pixels->width);
    taps_fill(y, size, down, pixels->height);
    resample(resample_fastest(), pixels, x, size, y, size, numbers, worker->rows.data, out);
    return 0;
}

/* ---- training ---- */

/* A part of an axis in the picture at `eighths` / 8 of its size: the places it touches. */
struct span {
    int first, count;
};

static struct span scaled_span(int first, int count, int whole, int eighths)
{
    int most = (whole * eighths + 7) / 8;
    int begin = first * eighths / 8, end = ((first + count) * eighths + 7) / 8;
    return (struct span){begin, (end < most ? end : most) - begin};
}

/* Where place `at` of the unscaled picture lies in the span; its middle is the same point. */
static float scaled_place(float at, int eighths, struct span span)
{
    return eighths == 8 ? at - (float)span.first
                        : (at + 0.5f) * (float)eighths / 8 - 0.5f - (float)span.first;
}

/* The mirror is applied before resizing, as in TensorFlow's preprocessing. */
static struct line line_through(int first, int count, int size, bool mirrored, int eighths,
                                struct span span)
{
    float step = (float)count / (float)size * (float)eighths / 8;
    int begin = mirrored ? first + count - 1 : first;
    return (struct line){.origin = scaled_place((float)begin, eighths, span),
                         .step = mirrored ? -step : step};
}

/* The smallest of the decoder's scales at which both sides of the crop still have `size` pixels.
 * Only the scales with vector code: the others take longer than decoding at full size. */
static int smallest_scale(const struct crop *crop, int size)
{
    int side = crop->width < crop->height ? crop->width : crop->height;
    int eighths = 8;
    while (eighths > 1 && (int64_t)side * (eighths / 2) >= (int64_t)size * 8)
        eighths /= 2;
    return eighths;
}

static int read_crop(struct worker *worker, const void *bytes, size_t count,
                     const struct picture_info *info, int eighths, struct span x, struct span y,
                     struct pixels *out, struct error *err)
{
    if (info->format == PICTURE_JPEG) {
        struct jpeg_request request = {eighths, x.first, y.first, x.count, y.count, .fast = true};
        return jpeg_decoder_read(worker->jpeg, &request, out, err);
    }
    if (png_read(bytes, count, &worker->png, out, err) < 0)
        return -1;
    out->data += (size_t)y.first * out->stride + (size_t)x.first * 3;
    out->width = x.count;
    out->height = y.count;
    return 0;
}

static int sample_with(struct worker *worker, const void *bytes, size_t count, int size,
                       uint64_t key, const struct picture_numbers *numbers, float *out,
                       struct error *err)
{
    struct picture_info info = {0};
    if (open_picture(worker, bytes, count, &info, err) < 0)
        return -1;
    struct random random = {.key = key};
    struct crop crop = crop_draw(&random, info.width, info.height);
    int eighths = info.format == PICTURE_JPEG ? smallest_scale(&crop, size) : 8;
    struct span x = scaled_span(crop.left, crop.width, info.width, eighths);
    struct span y = scaled_span(crop.top, crop.height, info.height, eighths);
    struct pixels pixels;
    if (read_crop(worker, bytes, count, &info, eighths, x, y, &pixels, err) < 0)
        return -1;
    struct line across = line_through(crop.left, crop.width, size, crop.mirrored, eighths, x);
    struct line down = line_through(crop.top, crop.height, size, false, eighths, y);
    return write_numbers(worker, &pixels, across, down, size, numbers, out, err);
}

int pictures_sample(struct pictures *pictures, const void *bytes, size_t count, int size,
                    uint64_t random, const struct picture_numbers *numbers, float *out,
                    struct error *err)
{
    struct worker *worker;
    assert(size > 0);
    if (worker_take(pictures, &worker, err) < 0)
        return -1;
    int status = sample_with(worker, bytes, count, size, random, numbers, out, err);
    worker_give_back(pictures, worker);
    return status;
}

/* ---- evaluation ---- */

/* One axis of the picture resized so that its short side has `size` * 256 / 224 places, then cut
 * to the middle. In single precision and rounded down, as in TensorFlow's preprocessing. */
static struct line centre_line(int places, int shorter, int size)
{
    int64_t enlarged = (int64_t)size * 256 / 224;
    int resized = (int)((float)places * ((float)enlarged / (float)shorter));
    resized = resized > size ? resized : size; /* rounding, for tiny sizes */
    return (struct line){.skipped = (resized - size) / 2, .step = (float)places / (float)resized};
}

static int centre_with(struct worker *worker, const void *bytes, size_t count, int size,
                       const struct picture_numbers *numbers, float *out, struct error *err)
{
    struct picture_info info = {0};
    struct pixels pixels;
    if (open_picture(worker, bytes, count, &info, err) < 0 ||
        read_whole(worker, bytes, count, &info, &pixels, err) < 0)
        return -1;
    int shorter = info.width < info.height ? info.width : info.height;
    struct line across = centre_line(info.width, shorter, size);
    struct line down = centre_line(info.height, shorter, size);
    return write_numbers(worker, &pixels, across, down, size, numbers, out, err);
}

int pictures_centre(struct pictures *pictures, const void *bytes, size_t count, int size,
                    const struct picture_numbers *numbers, float *out, struct error *err)
{
    struct worker *worker;
    assert(size > 0);
    if (worker_take(pictures, &worker, err) < 0)
        return -1;
    int status = centre_with(worker, bytes, count, size, numbers, out, err);
    worker_give_back(pictures, worker);
    return status;
}
