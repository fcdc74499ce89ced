/* Pictures made by us: resized for `data convert` and contact sheets, written as JPEG and PNG. */
#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>

#include <jpeglib.h>
#include <png.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/pictures.h"
#include "data/pixels.h"

/* ---- resize ---- */

/* Along one axis: result i is the sum of places first .. first + count - 1, weighted. */
struct filter {
    int first, count;
    float *weights;
};

/* The bilinear triangle around each result's middle, as wide as two results when shrinking. */
static void fill_filter(struct filter *filter, float *weights, int index, int places, int results)
{
    double scale = (double)places / results, reach = scale > 1 ? scale : 1;
    double middle = (index + 0.5) * scale, sum = 0;
    int first = (int)fmax(0, floor(middle - reach + 0.5));
    int end = (int)fmin(places, floor(middle + reach + 0.5));
    for (int i = first; i < end; i++)
        sum += fmax(0, 1 - fabs(i + 0.5 - middle) / reach);
    for (int i = first; i < end; i++)
        weights[i - first] = (float)(fmax(0, 1 - fabs(i + 0.5 - middle) / reach) / sum);
    *filter = (struct filter){first, end - first, weights};
}

/* One block of memory; NULL when there is none. */
static struct filter *make_filters(int places, int results)
{
    double scale = (double)places / results;
    size_t widest = (size_t)(2 * (scale > 1 ? scale : 1)) + 3;
    size_t heads = (size_t)results * sizeof(struct filter);
    struct filter *filters = memory_allocate(heads + (size_t)results * widest * sizeof(float));
    float *weights = filters ? (float *)((char *)filters + heads) : NULL;
    for (int i = 0; filters && i < results; i++)
        fill_filter(&filters[i], weights + (size_t)i * widest, i, places, results);
    return filters;
}

static void blend_rows(const struct picture *in, const struct filter *filter, float *out)
{
    size_t row = (size_t)in->width * 3;
    memset(out, 0, row * sizeof *out);
    for (int k = 0; k < filter->count; k++) {
        const uint8_t *line = in->pixels + (size_t)(filter->first + k) * row;
        for (size_t i = 0; i < row; i++)
            out[i] += filter->weights[k] * (float)line[i];
    }
}

static void blend_columns(const float *in, const struct filter *filters, int width, uint8_t *out)
{
    for (int x = 0; x < width; x++)
        for (int c = 0; c < 3; c++) {
            const float *first = in + 3 * (ptrdiff_t)filters[x].first + c;
            float sum = 0.5f;
            for (int k = 0; k < filters[x].count; k++)
                sum += filters[x].weights[k] * first[3 * (ptrdiff_t)k];
            out[3 * x + c] = (uint8_t)fminf(255, sum);
        }
}

int picture_resize(const struct picture *in, int width, int height, struct picture *out,
                   struct error *err)
{
    if (pixels_check_size(width, height, err) < 0)
        return -1;
    size_t bytes = (size_t)width * 3 * (size_t)height;
    struct filter *across = make_filters(in->width, width),
                  *down = make_filters(in->height, height);
    float *row = memory_allocate((size_t)in->width * 3 * sizeof *row);
    uint8_t *pixels = memory_allocate(bytes);
    int status = 0;
    if (!across || !down || !row || !pixels) {
        memory_free(pixels);
        status = error_set(err, ERROR_MEMORY, "no memory for a picture of %d x %d", width, height);
    } else {
        for (int y = 0; y < height; y++) {
            blend_rows(in, &down[y], row);
            blend_columns(row, across, width, pixels + (size_t)y * (size_t)width * 3);
        }
        *out = (struct picture){width, height, pixels};
    }
    memory_free(row);
    memory_free(down);
    memory_free(across);
    return status;
}

/* ---- the bytes that an encoder has written so far ---- */

struct output {
    uint8_t *bytes;
    size_t count, room;
};

/* Room for `more` bytes behind those written; false when there is no memory. */
static bool output_reserve(struct output *output, size_t more)
{
    if (output->room - output->count >= more)
        return true;
    size_t room = (output->room + more) * 2;
    uint8_t *bytes = memory_resize(output->bytes, room);
    if (!bytes)
        return false;
    output->bytes = bytes;
    output->room = room;
    return true;
}

static void give(struct output *output, int status, uint8_t **out, size_t *count)
{
    if (status < 0) {
        memory_free(output->bytes);
        return;
    }
    *out = output->bytes;
    *count = output->count;
}

/* ---- JPEG ---- */

struct jpeg_writer {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    struct output output;
    struct error *err;
};

static void escape_with_message(j_common_ptr info)
{
    struct jpeg_writer *writer = info->client_data;
    char message[JMSG_LENGTH_MAX];
    info->err->format_message(info, message);
    error_set(writer->err, ERROR_FORMAT, "writing a JPEG picture: %s", message);
    longjmp(writer->escape, 1);
}

enum { JPEG_CHUNK = 64 << 10 };

static void next_chunk(j_compress_ptr info)
{
    struct jpeg_writer *writer = info->client_data;
    struct output *output = &writer->output;
    if (!output_reserve(output, JPEG_CHUNK)) {
        error_set(writer->err, ERROR_MEMORY, "no memory for a JPEG picture");
        longjmp(writer->escape, 1);
    }
    info->dest->next_output_byte = output->bytes + output->count;
    info->dest->free_in_buffer = output->room - output->count;
}

static boolean chunk_full(j_compress_ptr info)
{
    struct jpeg_writer *writer = info->client_data;
    writer->output.count = writer->output.room;
    next_chunk(info);
    return TRUE;
}

static void last_chunk(j_compress_ptr info)
{
    struct jpeg_writer *writer = info->client_data;
    writer->output.count = writer->output.room - info->dest->free_in_buffer;
}

static int write_jpeg(struct jpeg_writer *writer, const struct picture *picture, int quality)
{
    struct jpeg_compress_struct *info = &writer->info;
    if (setjmp(writer->escape))
        return -1;
    jpeg_create_compress(info);
    info->dest = &writer->destination;
    info->image_width = (JDIMENSION)picture->width;
    info->image_height = (JDIMENSION)picture->height;
    info->input_components = 3;
    info->in_color_space = JCS_RGB;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, quality, TRUE);
    jpeg_start_compress(info, TRUE);
    while (info->next_scanline < info->image_height) {
        size_t at = (size_t)info->next_scanline * (size_t)picture->width * 3;
        JSAMPROW row = picture->pixels + at;
        jpeg_write_scanlines(info, &row, 1);
    }
    jpeg_finish_compress(info);
    return 0;
}

int picture_encode_jpeg(const struct picture *picture, int quality, uint8_t **out, size_t *count,
                        struct error *err)
{
    if (pixels_check_size(picture->width, picture->height, err) < 0)
        return -1;
    struct jpeg_writer writer = {.err = err,
                                 .destination = {.init_destination = next_chunk,
                                                 .empty_output_buffer = chunk_full,
                                                 .term_destination = last_chunk}};
    writer.info.err = jpeg_std_error(&writer.errors);
    writer.errors.error_exit = escape_with_message;
    writer.info.client_data = &writer;
    int status = write_jpeg(&writer, picture, quality);
    jpeg_destroy_compress(&writer.info);
    give(&writer.output, status, out, count);
    return status;
}

/* ---- PNG ---- */

struct png_writer {
    png_structp png;
    png_infop info;
    struct output output;
    struct error *err;
};

static void png_escape(png_structp png, png_const_charp message)
{
    struct png_writer *writer = png_get_error_ptr(png);
    error_set(writer->err, ERROR_FORMAT, "writing a PNG picture: %s", message);
    png_longjmp(png, 1);
}

static void take_bytes(png_structp png, png_bytep bytes, size_t count)
{
    struct png_writer *writer = png_get_io_ptr(png);
    if (!output_reserve(&writer->output, count))
        png_error(png, "no memory");
    memcpy(writer->output.bytes + writer->output.count, bytes, count);
    writer->output.count += count;
}

static void flush_nothing(png_structp png)
{
    (void)png;
}

static int write_png(struct png_writer *writer, const struct picture *picture)
{
    if (setjmp(png_jmpbuf(writer->png)))
        return -1;
    png_set_write_fn(writer->png, writer, take_bytes, flush_nothing);
    png_set_IHDR(writer->png, writer->info, (png_uint_32)picture->width,
                 (png_uint_32)picture->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(writer->png, writer->info);
    for (int y = 0; y < picture->height; y++)
        png_write_row(writer->png, picture->pixels + (size_t)y * (size_t)picture->width * 3);
    png_write_end(writer->png, NULL);
    return 0;
}

int picture_encode_png(const struct picture *picture, uint8_t **out, size_t *count,
                       struct error *err)
{
    if (pixels_check_size(picture->width, picture->height, err) < 0)
        return -1;
    struct png_writer writer = {.err = err};
    int status = -1;
    writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, png_escape, NULL);
    if (writer.png)
        writer.info = png_create_info_struct(writer.png);
    if (writer.info)
        status = write_png(&writer, picture);
    else
        error_set(err, ERROR_MEMORY, "no memory for a PNG encoder");
    png_destroy_write_struct(&writer.png, &writer.info);
    give(&writer.output, status, out, count);
    return status;
}
