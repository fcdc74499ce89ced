/* Winograd's method for convolutions that leave every other pixel out: AVX2 and NEON. */
#define KERNEL "own:winograd-strided"
#define WIDE 16
#define STRIDE 2
#define MOST_ERROR 1.5e-6
#include "support/as_avx2.h"
#include "winograd_tests.h"
