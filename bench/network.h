/* The networks that the yardstick times, as plain lists of layers. Kept apart from our own models
 * on purpose: the yardstick must not change when they do. */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#include <stdbool.h>

enum layer_kind { LAYER_CONV, LAYER_DENSE, LAYER_NORM, LAYER_MAX_POOL, LAYER_AVG_POOL };

enum { NETWORK_MAX_LAYERS = 160, LAYER_IMAGES = -1 };

struct extent {
    int channels, height, width;
};

struct layer {
    enum layer_kind kind;
    char name[24];
    int source; /* index of the layer whose output it reads, or LAYER_IMAGES */
    struct extent in, out;
    int kernel, stride, pad; /* not of a dense layer, whose kernel is its whole input */
    bool bias;
    bool relu; /* follows directly, so a library may fuse it */
};

struct network {
    const char *name;
    int layer_count;
    struct layer layers[NETWORK_MAX_LAYERS]; /* in the order of the forward pass */
};

/* Fills `out` with resnet50, vgg16 or mnist; false for another name. */
bool network_find(const char *name, struct network *out);

#endif
