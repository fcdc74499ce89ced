/* The steps of Winograd convolutions in registers of 16 lanes: AVX-512. */
#define VECTOR_LANES 16
#include "ops/winograd_products.h"
#include "ops/winograd_tiles.h"

#if VECTOR

const struct winograd_steps winograd_sixteens = {
    .name = "own:winograd:" VECTOR_NAME,
    .is_here = vector_is_here,
    .lanes = LANES,
    .channels_last = true, /* the library's choice for serving */
    .wide = WIDE,
    .rows = TILES,
    .sizes = {.tiles = 98, .outputs = 64, .gradient_tiles = 196, .piece = 128},
    .take_patches = winograd_take_patches,
    .take_gradients = winograd_take_gradients,
    .put_results = winograd_put_results,
    .take_weights = winograd_take_weights,
    .put_weights = winograd_put_weights,
    .multiply = winograd_multiply,
    .multiply_gradients = winograd_multiply_gradients,
};

#endif
