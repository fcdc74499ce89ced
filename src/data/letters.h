/* Tiny letters, 5 x 7 pixels: digits, capitals (small letters look like them) and a few signs. */
#ifndef DATA_LETTERS_H
#define DATA_LETTERS_H

#include "data/pictures.h"

enum { LETTER_WIDTH = 6, LETTER_HEIGHT = 8 }; /* with the gap */

/* In this grey, with its upper left corner at (x, y); what lies outside the picture is cut off. */
void letters_draw(struct picture *picture, int x, int y, const char *text, uint8_t grey);

#endif
