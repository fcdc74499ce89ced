/* Decoded pixels as the parts of data/ hand them to each other, and the growing memory they are in. */
#ifndef DATA_PIXELS_H
#define DATA_PIXELS_H

#include <stddef.h>
#include <stdint.h>

struct error;

enum {
    /* Readable bytes behind the last row: kernels load eight bytes for two pixels. */
    PIXELS_SLACK = 16,
    /* R, G and B bytes of the largest picture that is decoded, the limit of TensorFlow's
     * decode_jpeg: a few hundred bytes may promise any size. */
    PIXELS_MOST_BYTES = 1 << 29,
};

/* Rows of R, G, B bytes; `stride` bytes from one row to the next. Never owns `data`. */
struct pixels {
    int width, height;
    size_t stride;
    const uint8_t *data;
};

/* Memory that is kept from picture to picture and only grows. */
struct scratch {
    void *data;
    size_t bytes;
};
/* At least `bytes`; what was in it may be lost. */
int scratch_reserve(struct scratch *scratch, size_t bytes, struct error *err);
void scratch_release(struct scratch *scratch);

/* Fails when a picture is empty or too large to be decoded. */
int pixels_check_size(int64_t width, int64_t height, struct error *err);

#endif
