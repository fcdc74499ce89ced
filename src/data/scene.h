/* Drawn pictures for sets that look and weigh like photographs: a ground with light and grain, and
 * things on it. What the things look like says the class; everything else is chance. */
#ifndef DATA_SCENE_H
#define DATA_SCENE_H

#include <stdint.h>

enum { SCENE_MAX_SIDE = 8192 };

/* Draws width x height RGB pixels, row by row. The picture depends on the arguments alone. */
void scene_draw(int label, uint64_t class_key, uint64_t picture_key, int width, int height,
                uint8_t *pixels);

#endif
