/* libpng reports errors by a jump, as libjpeg does: see jpeg.c. */
#include "data/png.h"

#include <setjmp.h>

#include <png.h>

#include "base/error.h"
#include "data/pictures.h"

enum { SIGNATURE_BYTES = 8 };

struct reader {
    const uint8_t *bytes;
    size_t count, at;
    png_structp png;
    png_infop info;
    struct error *err;
    struct picture_info *header;
    struct scratch *memory;
    struct pixels *out;
};

bool png_recognize(const void *bytes, size_t count)
{
    return count >= SIGNATURE_BYTES && png_sig_cmp(bytes, 0, SIGNATURE_BYTES) == 0;
}

static void escape_with_message(png_structp png, png_const_charp message)
{
    struct reader *reader = png_get_error_ptr(png);
    error_set(reader->err, ERROR_FORMAT, "PNG data, near byte %zu of %zu: %s", reader->at,
              reader->count, message);
    png_longjmp(png, 1);
}

static void ignore_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static void give_bytes(png_structp png, png_bytep out, size_t count)
{
    struct reader *reader = png_get_io_ptr(png);
    if (count > reader->count - reader->at) {
        error_set(
            reader->err, ERROR_FORMAT,
            "the PNG data end after %zu bytes, before the picture is complete: it was cut off",
            reader->count);
        png_longjmp(png, 1);
    }
    memcpy(out, reader->bytes + reader->at, count);
    reader->at += count;
}

static void read_header(struct reader *reader)
{
    png_set_read_fn(reader->png, reader, give_bytes);
    png_set_user_limits(reader->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(reader->png, reader->info);
    int color = png_get_color_type(reader->png, reader->info);
    *reader->header = (struct picture_info){
        PICTURE_PNG, (int)png_get_image_width(reader->png, reader->info),
        (int)png_get_image_height(reader->png, reader->info),
        color == PNG_COLOR_TYPE_PALETTE ? 3 : png_get_channels(reader->png, reader->info)};
}

/* Three bytes for each pixel whatever the file has. */
static void ask_for_rgb(png_structp png, png_infop info)
{
    int color = png_get_color_type(png, info);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (color == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (!(color & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(png);
    if ((color & PNG_COLOR_MASK_ALPHA) || png_get_valid(png, info, PNG_INFO_tRNS))
        png_set_strip_alpha(png);
    if (png_get_bit_depth(png, info) == 16)
        png_set_strip_16(png);
    png_set_packing(png);
}

static void read_pixels(struct reader *reader)
{
    png_structp png = reader->png;
    int width = reader->header->width, height = reader->header->height;
    ask_for_rgb(png, reader->info);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
    size_t stride = (size_t)width * 3;
    if (png_get_rowbytes(png, reader->info) != stride)
        png_error(png, "a kind of pixels that we do not know");
    size_t needed = stride * (size_t)height + PIXELS_SLACK;
    if (scratch_reserve(reader->memory, needed, reader->err) < 0)
        png_longjmp(png, 1);
    uint8_t *data = reader->memory->data;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_read_row(png, data + (size_t)y * stride, NULL);
    *reader->out = (struct pixels){width, height, stride, data};
}

static int read_guarded(struct reader *reader)
{
    if (setjmp(png_jmpbuf(reader->png)))
        return -1;
    read_header(reader);
    if (pixels_check_size(reader->header->width, reader->header->height, reader->err) < 0)
        return -1;
    if (reader->out)
        read_pixels(reader);
    return 0;
}

static int read_all(struct reader *reader)
{
    int status = -1;
    reader->png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, escape_with_message, ignore_warning);
    if (reader->png)
        reader->info = png_create_info_struct(reader->png);
    if (reader->info)
        status = read_guarded(reader);
    else
        error_set(reader->err, ERROR_MEMORY, "no memory for a PNG decoder");
    png_destroy_read_struct(&reader->png, &reader->info, NULL);
    return status;
}

int png_probe(const void *bytes, size_t count, struct picture_info *out, struct error *err)
{
    struct reader reader = {.bytes = bytes, .count = count, .err = err, .header = out};
    return read_all(&reader);
}

int png_read(const void *bytes, size_t count, struct scratch *memory, struct pixels *out,
             struct error *err)
{
    struct picture_info header;
    struct reader reader = {.bytes = bytes,
                            .count = count,
                            .err = err,
                            .header = &header,
                            .memory = memory,
                            .out = out};
    return read_all(&reader);
}
