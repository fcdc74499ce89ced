/* The steps of Winograd convolutions in registers of 16 lanes: AVX-512. */
#define VECTOR_LANES 16
#include "ops/winograd_products.h"
#include "ops/winograd_tiles.h"

#if VECTOR

const struct winograd_steps winograd_sixteens = {
    .name = "own:winograd:" VECTOR_NAME,
    .is_here = vector_is_here,
    .lanes = LANES,
    .stride = 1,
    .channels_last = true, /* the library's choice for serving */
    .wide = WIDE,
    .rows = TILES,
    .sizes = {.tiles = 196, .gradient_tiles = 196, .piece = 128, .fewest_served = 8},
    .forward = WINOGRAD_WAY(128),
    .back = WINOGRAD_WAY(128),
    .weight_planes = PLANES,
    .list_products = winograd_list_products,
    .take_gradients = winograd_take_gradients,
    .take_weights = winograd_take_weights,
    .put_weights = winograd_put_weights,
    .multiply = winograd_multiply,
    .multiply_gradients = winograd_multiply_gradients,
};

#endif
