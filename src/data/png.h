/* PNG bytes to pixels, and back; over libpng. */
#ifndef DATA_PNG_H
#define DATA_PNG_H

#include <stdbool.h>

#include "data/pixels.h"

struct error;
struct picture_info;

bool png_recognize(const void *bytes, size_t count);
int png_probe(const void *bytes, size_t count, struct picture_info *out, struct error *err);
/* The whole picture, in `memory`, as TensorFlow's decode_jpeg(channels=3) gives it for PNG bytes:
 * palettes looked up, of 16 bits the upper 8, transparency left out, gamma ignored. */
int png_read(const void *bytes, size_t count, struct scratch *memory, struct pixels *out,
             struct error *err);

#endif
