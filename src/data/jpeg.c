/* libjpeg reports errors by a jump: each of our calls runs its steps under one setjmp, and no step
 * owns anything that the jump could lose. */
#include "data/jpeg.h"

#include <assert.h>
#include <setjmp.h>

#include <jpeglib.h>

#include <jerror.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/pictures.h"

enum {
    /* A progressive picture takes the time of all its scans; encoders make about ten. */
    MOST_SCANS = 200,
};

struct jpeg_decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const uint8_t *bytes; /* of the picture that is open */
    size_t count;
    struct error *err; /* of the call that runs */
    struct scratch pixels, row;
};

typedef void step_fn(struct jpeg_decoder *decoder, void *context);

static struct jpeg_decoder *decoder_of(j_common_ptr info)
{
    return info->client_data;
}

static void escape_with_message(j_common_ptr info)
{
    struct jpeg_decoder *decoder = decoder_of(info);
    char message[JMSG_LENGTH_MAX];
    info->err->format_message(info, message);
    size_t at = decoder->count - decoder->source.bytes_in_buffer;
    if (info->err->msg_code == JERR_NO_SOI)
        error_set(decoder->err, ERROR_FORMAT, "not a JPEG picture: %s", message);
    else
        error_set(decoder->err, ERROR_FORMAT, "JPEG data, near byte %zu of %zu: %s", at,
                  decoder->count, message);
    longjmp(decoder->escape, 1);
}

/* libjpeg would go on with grey pixels; TensorFlow refuses, and so do we. */
static boolean refuse_to_go_on(j_decompress_ptr info)
{
    struct jpeg_decoder *decoder = info->client_data;
    error_set(decoder->err, ERROR_FORMAT,
              "the JPEG data end after %zu bytes, before the picture is complete: it was cut off",
              decoder->count);
    longjmp(decoder->escape, 1);
}

static void skip_bytes(j_decompress_ptr info, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > info->src->bytes_in_buffer)
        refuse_to_go_on(info);
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= (size_t)count;
}

static void limit_scans(j_common_ptr info)
{
    struct jpeg_decoder *decoder = decoder_of(info);
    if (decoder->info.input_scan_number <= MOST_SCANS)
        return;
    error_set(decoder->err, ERROR_FORMAT, "a progressive JPEG picture of more than %d scans",
              MOST_SCANS);
    longjmp(decoder->escape, 1);
}

/* Warnings are passed over, as in TensorFlow: ImageNet has pictures with junk between markers. */
static void ignore_message(j_common_ptr info, int level)
{
    (void)info, (void)level;
}

static void ignore_output(j_common_ptr info)
{
    (void)info;
}

static void ignore_source(j_decompress_ptr info)
{
    (void)info;
}

/* Runs the step; an error inside it ends it and frees what libjpeg holds for the picture. */
static int run(struct jpeg_decoder *decoder, step_fn *step, void *context, struct error *err)
{
    decoder->err = err;
    if (setjmp(decoder->escape)) {
        jpeg_abort_decompress(&decoder->info);
        return -1;
    }
    step(decoder, context);
    return 0;
}

static void create_step(struct jpeg_decoder *decoder, void *context)
{
    (void)context;
    jpeg_create_decompress(&decoder->info);
}

int jpeg_decoder_create(struct jpeg_decoder **out, struct error *err)
{
    struct jpeg_decoder *decoder = memory_allocate(sizeof *decoder);
    if (!decoder)
        return error_set(err, ERROR_MEMORY, "no memory for a JPEG decoder");
    decoder->info.err = jpeg_std_error(&decoder->errors);
    decoder->errors.error_exit = escape_with_message;
    decoder->errors.emit_message = ignore_message;
    decoder->errors.output_message = ignore_output;
    decoder->info.client_data = decoder;
    if (run(decoder, create_step, NULL, err) < 0) {
        memory_free(decoder);
        return -1;
    }
    decoder->source = (struct jpeg_source_mgr){
        .init_source = ignore_source,
        .fill_input_buffer = refuse_to_go_on,
        .skip_input_data = skip_bytes,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = ignore_source,
    };
    decoder->progress.progress_monitor = limit_scans;
    decoder->info.src = &decoder->source;
    decoder->info.progress = &decoder->progress;
    *out = decoder;
    return 0;
}

void jpeg_decoder_destroy(struct jpeg_decoder *decoder)
{
    if (!decoder)
        return;
    jpeg_destroy_decompress(&decoder->info);
    scratch_release(&decoder->pixels);
    scratch_release(&decoder->row);
    memory_free(decoder);
}

static void open_step(struct jpeg_decoder *decoder, void *context)
{
    struct picture_info *out = context;
    jpeg_read_header(&decoder->info, TRUE);
    *out = (struct picture_info){PICTURE_JPEG, (int)decoder->info.image_width,
                                 (int)decoder->info.image_height, decoder->info.num_components};
}

int jpeg_decoder_open(struct jpeg_decoder *decoder, const void *bytes, size_t count,
                      struct picture_info *out, struct error *err)
{
    jpeg_abort_decompress(&decoder->info);
    decoder->bytes = bytes;
    decoder->count = count;
    decoder->source.next_input_byte = bytes;
    decoder->source.bytes_in_buffer = count;
    if (run(decoder, open_step, out, err) < 0)
        return -1;
    return pixels_check_size(out->width, out->height, err);
}

/* TensorFlow's formula. Adobe's programs store the ink inverted. */
static void convert_cmyk(const uint8_t *in, int width, bool inverted, uint8_t *out)
{
    for (int x = 0; x < width; x++) {
        int key = inverted ? in[4 * x + 3] : 255 - in[4 * x + 3];
        for (int c = 0; c < 3; c++) {
            int ink = inverted ? in[4 * x + c] : 255 - in[4 * x + c];
            out[3 * x + c] = (uint8_t)(key * ink / 255);
        }
    }
}

static void read_cmyk_rows(struct jpeg_decoder *decoder, uint8_t *out, size_t stride, int rows)
{
    JSAMPROW row = decoder->row.data;
    for (int y = 0; y < rows; y++, out += stride) {
        if (jpeg_read_scanlines(&decoder->info, &row, 1) == 0)
            ERREXIT(&decoder->info, JERR_TOO_LITTLE_DATA);
        convert_cmyk(row, (int)decoder->info.output_width, decoder->info.saw_Adobe_marker, out);
    }
}

static void read_rgb_rows(struct jpeg_decoder *decoder, uint8_t *out, size_t stride, int rows)
{
    enum { AT_ONCE = 8 };
    for (int y = 0; y < rows;) {
        JSAMPROW lines[AT_ONCE];
        int wanted = rows - y < AT_ONCE ? rows - y : AT_ONCE;
        for (int i = 0; i < wanted; i++)
            lines[i] = out + (size_t)(y + i) * stride;
        int got = (int)jpeg_read_scanlines(&decoder->info, lines, (JDIMENSION)wanted);
        if (got == 0)
            ERREXIT(&decoder->info, JERR_TOO_LITTLE_DATA);
        y += got;
    }
}

static void set_up(struct jpeg_decompress_struct *info, const struct jpeg_request *request)
{
    /* The last picture's, long freed: libjpeg-turbo 2.1 makes none when it upsamples and converts
     * in one step, and jpeg_skip_scanlines would write into the old one. */
    info->cconvert = NULL;
    info->cquantize = NULL;
    bool inks = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_IFAST; /* TensorFlow's default */
    info->do_fancy_upsampling = !request->fast;
    info->scale_num = (unsigned)request->eighths;
    info->scale_denom = 8;
}

struct reading {
    const struct jpeg_request *request;
    struct pixels *out;
};

/* Interpolated chroma at the edge of what is decoded lacks its neighbours: a block more all round
 * gives every pixel that was asked for the same neighbours as in the whole picture. */
static int margin_of(const struct jpeg_decompress_struct *info, const struct jpeg_request *request)
{
    return request->fast ? 0 : info->max_h_samp_factor * request->eighths;
}

static void read_step(struct jpeg_decoder *decoder, void *context)
{
    const struct reading *reading = context;
    const struct jpeg_request *request = reading->request;
    struct jpeg_decompress_struct *info = &decoder->info;
    set_up(info, request);
    jpeg_start_decompress(info);
    int whole_width = (int)info->output_width, margin = margin_of(info, request);
    int left = request->left > margin ? request->left - margin : 0;
    int right = request->left + request->width + margin;
    right = right < whole_width ? right : whole_width;
    int top = request->top > margin ? request->top - margin : 0;
    JDIMENSION first = (JDIMENSION)left, width = (JDIMENSION)(right - left);
    if (left > 0 || right < whole_width)
        jpeg_crop_scanline(info, &first, &width);
    if (top > 0)
        jpeg_skip_scanlines(info, (JDIMENSION)top);
    int rows = request->top + request->height - top;
    size_t stride = (size_t)width * 3;
    if (scratch_reserve(&decoder->pixels, stride * (size_t)rows + PIXELS_SLACK, decoder->err) < 0 ||
        scratch_reserve(&decoder->row, (size_t)width * 4, decoder->err) < 0)
        longjmp(decoder->escape, 1);
    uint8_t *data = decoder->pixels.data;
    if (info->out_color_space == JCS_CMYK)
        read_cmyk_rows(decoder, data, stride, rows);
    else
        read_rgb_rows(decoder, data, stride, rows);
    data += (size_t)(request->top - top) * stride + (size_t)(request->left - (int)first) * 3;
    *reading->out = (struct pixels){request->width, request->height, stride, data};
    jpeg_abort_decompress(info);
}

int jpeg_decoder_read(struct jpeg_decoder *decoder, const struct jpeg_request *request,
                      struct pixels *out, struct error *err)
{
    assert(request->eighths >= 1 && request->eighths <= 8);
    assert(request->width > 0 && request->height > 0 && request->left >= 0 && request->top >= 0);
    struct reading reading = {request, out};
    return run(decoder, read_step, &reading, err);
}
