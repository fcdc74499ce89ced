/* The gradients of points in registers of 8 lanes: AVX2, also where the processor has more. */
#define KERNEL "own:points:avx2"
#define LANES 8
#include "support/as_avx2.h"

#include "conv_points_tests.h"
