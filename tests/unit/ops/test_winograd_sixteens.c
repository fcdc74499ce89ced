/* Winograd's method in registers of 16 lanes: AVX-512. */
#define KERNEL "own:winograd:avx512"
#define WIDE 32
#define STRIDE 1
#define MOST_ERROR 3e-6
#include "winograd_tests.h"
