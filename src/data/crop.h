/* Which part of a picture a training step sees. */
#ifndef DATA_CROP_H
#define DATA_CROP_H

#include <stdbool.h>

struct random;

struct crop {
    int left, top, width, height;
    bool mirrored;
};

/* As TensorFlow's sample_distorted_bounding_box draws it around a box that is the whole picture:
 * the aspect uniform in 3/4 .. 4/3, then the height uniform among those that give 5 to 100 % of the
 * area, then the place; the whole picture after 100 tries without one that fits. */
struct crop crop_draw(struct random *random, int width, int height);

#endif
