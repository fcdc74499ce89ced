/* The gradients of points in registers of 16 lanes: AVX-512. */
#define KERNEL "own:points:avx512"
#define LANES 16
#include "conv_points_tests.h"
