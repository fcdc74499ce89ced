/* What kernels that are for AVX2 only share. Include it inside the part of a file that is compiled for AVX2. */
#ifndef OPS_AVX2_H
#define OPS_AVX2_H

#include "ops/f32x8.h"

/* Bit k of the byte becomes lane k: all ones or zero. */
INLINE __m256 expand_bits(uint8_t bits)
{
    const __m256i place = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i all = _mm256_set1_epi32(bits);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, place), place));
}

#endif
