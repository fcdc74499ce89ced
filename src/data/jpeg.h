/* JPEG bytes to pixels, whole or in part, at full size or at a fraction; over libjpeg-turbo. */
#ifndef DATA_JPEG_H
#define DATA_JPEG_H

#include <stdbool.h>
#include <stddef.h>

#include "data/pixels.h"

struct error;
struct picture_info;

/* A decoder with its memory; one thread at a time. */
struct jpeg_decoder;
int jpeg_decoder_create(struct jpeg_decoder **out, struct error *err);
void jpeg_decoder_destroy(struct jpeg_decoder *decoder); /* accepts NULL */

/* Reads the header. `bytes` must stay until the pixels have been read or the next picture is
 * opened. */
int jpeg_decoder_open(struct jpeg_decoder *decoder, const void *bytes, size_t count,
                      struct picture_info *out, struct error *err);

/* What to decode of the picture that is open. The rectangle lies in the picture at
 * `eighths` / 8 of its size, that is in ceil(width * eighths / 8) x ceil(height * eighths / 8)
 * pixels. */
struct jpeg_request {
    int eighths; /* 1 .. 8 */
    int left, top, width, height;
    /* False: the pixels of TensorFlow's decode_jpeg. True: chroma is repeated instead of
     * interpolated where it was stored at half the size, which takes less time. */
    bool fast;
};
/* Gives just the pixels asked for, the same ones that decoding everything would give. Reads the
 * data only as far as it must: damage behind the last row is not noticed. The pixels stay valid
 * until the next call. Once for each picture opened. */
int jpeg_decoder_read(struct jpeg_decoder *decoder, const struct jpeg_request *request,
                      struct pixels *out, struct error *err);

#endif
