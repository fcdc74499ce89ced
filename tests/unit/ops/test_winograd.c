/* Winograd's method in registers of 8 lanes: AVX2 and NEON. */
#define KERNEL "own:winograd:"
#define WIDE 16
#define STRIDE 1
#define MOST_ERROR 3e-6
#include "support/as_avx2.h"
#include "winograd_tests.h"
