/* The steps of Winograd convolutions in registers of 8 lanes: AVX2, or two of NEON. */
#define VECTOR_LANES 8
#include "ops/winograd_products.h"
#include "ops/winograd_tiles.h"

#if VECTOR

const struct winograd_steps winograd_eights = {
    .name = "own:winograd:" VECTOR_NAME,
    .is_here = vector_is_here,
    .lanes = LANES,
    .stride = 1,
    .wide = WIDE,
    .rows = TILES,
    .sizes = {.tiles = 96, .gradient_tiles = 192, .piece = 128, .fewest_served = 1},
    .forward = WINOGRAD_WAY(64),
    .back = WINOGRAD_WAY(64),
    .weight_planes = PLANES,
    .list_products = winograd_list_products,
    .take_gradients = winograd_take_gradients,
    .take_weights = winograd_take_weights,
    .put_weights = winograd_put_weights,
    .multiply = winograd_multiply,
    .multiply_gradients = winograd_multiply_gradients,
};

#endif
