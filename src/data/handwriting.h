/* Digits as a hand might write them: strokes through the points of a skeleton, bent, slanted and
 * inked at random. No files and no fonts. */
#ifndef DATA_HANDWRITING_H
#define DATA_HANDWRITING_H

#include <stdint.h>

enum { HANDWRITING_SIDE = 28, HANDWRITING_PIXELS = HANDWRITING_SIDE * HANDWRITING_SIDE };

/* Draws `digit` (0 .. 9), 0 paper and 255 ink, row by row. The picture depends on (digit, key)
 * alone: the arithmetic uses no function whose last bit differs between C libraries. */
void handwriting_draw(int digit, uint64_t key, uint8_t pixels[HANDWRITING_PIXELS]);

#endif
