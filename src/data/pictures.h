/* Encoded pictures (JPEG, PNG) to the pixels a network learns from. */
#ifndef DATA_PICTURES_H
#define DATA_PICTURES_H

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

struct error;

enum picture_format { PICTURE_JPEG, PICTURE_PNG };

struct picture_info {
    enum picture_format format;  /* by the first bytes, never by the name */
    int width, height, channels; /* as stored: 1, 3 or 4 */
};

/* Rows of R, G, B bytes without gaps; `pixels` belongs to whoever says so. */
struct picture {
    int width, height;
    uint8_t *pixels;
};

/* Decoders with their memory, taken and given back by the calls below: any number of threads;
 * after each thread's first pictures nothing is allocated. */
struct pictures;
int pictures_create(struct pictures **out, struct error *err);
void pictures_destroy(struct pictures *pictures); /* accepts NULL */

/* Looks at the header only. */
int pictures_probe(struct pictures *pictures, const void *bytes, size_t count,
                   struct picture_info *out, struct error *err);
/* The whole picture at full size, as TensorFlow's decode_jpeg(channels=3) gives it: grey becomes
 * R = G = B, CMYK is converted, EXIF orientation is not applied. `out->pixels` is the caller's, to
 * be given to memory_free. */
int pictures_decode(struct pictures *pictures, const void *bytes, size_t count, struct picture *out,
                    struct error *err);

/* How pixels become numbers: value = (pixel - mean) * scale, per channel. */
struct picture_numbers {
    float mean[3], scale[3];
};
extern const struct picture_numbers picture_numbers_imagenet; /* 123.68, 116.78, 103.94; scale 1 */
const struct picture_numbers *picture_numbers_of(enum pixel_scale scale);

/* Training: random resized crop (area 5 to 100 %, aspect 3/4 to 4/3, 100 tries, else the whole
 * picture), mirrored half of the time, bilinear to `size` x `size`; `random` is the key of the
 * stream: same key, same pixels. Decodes no more than the crop needs, at the smallest of
 * 1/8, 1/4, 1/2 and 1 at which both sides of the crop still have `size` pixels; damage behind the
 * crop is not noticed. `out`: [size, size, 3]. */
int pictures_sample(struct pictures *pictures, const void *bytes, size_t count, int size,
                    uint64_t random, const struct picture_numbers *numbers, float *out,
                    struct error *err);
/* Evaluation: decoded unscaled, short side to size * 256 / 224 (bilinear, aspect kept), the centre
 * cut out. */
int pictures_centre(struct pictures *pictures, const void *bytes, size_t count, int size,
                    const struct picture_numbers *numbers, float *out, struct error *err);

/* For `data convert` and contact sheets. Bilinear, and when shrinking as wide as needed for every
 * pixel to count (as Pillow's); `out->pixels` is the caller's. */
int picture_resize(const struct picture *in, int width, int height, struct picture *out,
                   struct error *err);
/* *out is the caller's, to be given to memory_free. quality: 1 .. 100. */
int picture_encode_jpeg(const struct picture *picture, int quality, uint8_t **out, size_t *count,
                        struct error *err);
int picture_encode_png(const struct picture *picture, uint8_t **out, size_t *count,
                       struct error *err);

#endif
