/* Choices lane by lane, small whole numbers in lanes, and stores past the caches, for kernels that are compiled
 * for AVX2 and for AVX-512. A mask is the comparison's own result: all bits of a lane on AVX2, one bit on
 * AVX-512. On x86-64 only; what uses it stands between VECTOR_BEGIN and VECTOR_END. */
#ifndef OPS_VECTOR_MASKS_H
#define OPS_VECTOR_MASKS_H

#include "ops/vector.h"

#if defined(__x86_64__)

#include <string.h>

/* Of a mask in memory, one bit a lane. */
enum { VECTOR_MASK_BYTES = VECTOR_LANES / 8 };

VECTOR_BEGIN

#if VECTOR_LANES == 16

typedef __mmask16 vector_mask;
typedef __m512i vector_numbers;

/* a > b; false where one is no number. */
INLINE vector_mask vector_greater(vector a, vector b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

/* What a ReLU lets through: not less or equal to zero, so that a NaN passes and is seen. */
INLINE vector_mask vector_passes(vector value)
{
    return _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NLE_UQ);
}

INLINE vector_mask vector_is_nan(vector value)
{
    return _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
}

INLINE vector_mask vector_mask_or(vector_mask a, vector_mask b)
{
    return _mm512_kor(a, b);
}

INLINE vector_mask vector_mask_select(vector_mask mask, vector_mask yes, vector_mask no)
{
    return (vector_mask)((yes & mask) | (no & ~mask));
}

/* Zero where the mask is not set, or is. */
INLINE vector vector_where(vector_mask mask, vector value)
{
    return _mm512_maskz_mov_ps(mask, value);
}

INLINE vector vector_where_not(vector_mask mask, vector value)
{
    return _mm512_maskz_mov_ps(_mm512_knot(mask), value);
}

INLINE vector vector_select(vector_mask mask, vector yes, vector no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}

INLINE void vector_mask_store(uint8_t *to, vector_mask mask)
{
    memcpy(to, &mask, VECTOR_MASK_BYTES);
}

INLINE vector_mask vector_mask_load(const uint8_t *from)
{
    vector_mask mask;
    memcpy(&mask, from, VECTOR_MASK_BYTES);
    return mask;
}

INLINE vector_numbers numbers_all(int number)
{
    return _mm512_set1_epi32(number);
}

INLINE vector_numbers numbers_select(vector_mask mask, vector_numbers yes, vector_numbers no)
{
    return _mm512_mask_mov_epi32(no, mask, yes);
}

INLINE vector_mask numbers_equal(vector_numbers a, vector_numbers b)
{
    return _mm512_cmpeq_epi32_mask(a, b);
}

/* One byte a number. */
INLINE void numbers_store(uint8_t *to, vector_numbers numbers)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(numbers));
}

INLINE vector_numbers numbers_load(const uint8_t *from)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* Past the caches; `to` begins with a register. */
INLINE void vector_stream(float *to, vector value)
{
    _mm512_stream_ps(to, value);
}

INLINE void vector_add_to_doubles(double *to, vector value)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(value));
    __m512d high =
        _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(value), 1)));
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
    _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), high));
}

#else

typedef __m256 vector_mask;
typedef __m256i vector_numbers;

INLINE vector_mask vector_greater(vector a, vector b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

INLINE vector_mask vector_passes(vector value)
{
    return _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NLE_UQ);
}

INLINE vector_mask vector_is_nan(vector value)
{
    return _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
}

INLINE vector_mask vector_mask_or(vector_mask a, vector_mask b)
{
    return _mm256_or_ps(a, b);
}

INLINE vector_mask vector_mask_select(vector_mask mask, vector_mask yes, vector_mask no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

INLINE vector vector_where(vector_mask mask, vector value)
{
    return _mm256_and_ps(mask, value);
}

INLINE vector vector_where_not(vector_mask mask, vector value)
{
    return _mm256_andnot_ps(mask, value);
}

INLINE vector vector_select(vector_mask mask, vector yes, vector no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

INLINE void vector_mask_store(uint8_t *to, vector_mask mask)
{
    *to = (uint8_t)_mm256_movemask_ps(mask);
}

/* Bit k of the byte becomes lane k: all ones or zero. */
INLINE vector_mask vector_mask_load(const uint8_t *from)
{
    const __m256i place = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i all = _mm256_set1_epi32(*from);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, place), place));
}

INLINE vector_numbers numbers_all(int number)
{
    return _mm256_set1_epi32(number);
}

INLINE vector_numbers numbers_select(vector_mask mask, vector_numbers yes, vector_numbers no)
{
    return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(mask));
}

INLINE vector_mask numbers_equal(vector_numbers a, vector_numbers b)
{
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
}

INLINE void numbers_store(uint8_t *to, vector_numbers numbers)
{
    __m256i words = _mm256_packus_epi32(numbers, numbers);
    __m256i bytes = _mm256_packus_epi16(words, words);
    int32_t low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
    memcpy(to, &low, sizeof low);
    memcpy(to + 4, &high, sizeof high);
}

INLINE vector_numbers numbers_load(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}

INLINE void vector_stream(float *to, vector value)
{
    _mm256_stream_ps(to, value);
}

INLINE void vector_add_to_doubles(double *to, vector value)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(value));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(value, 1));
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), low));
    _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(to + 4), high));
}

#endif

INLINE void vector_put(float *to, vector value, bool stream)
{
    if (stream)
        vector_stream(to, value);
    else
        vector_store(to, value);
}

VECTOR_END

#endif

#endif
