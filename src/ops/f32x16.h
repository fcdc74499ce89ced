/* 16 floats as one value, one register of AVX-512: what f32x8.h has for 8. F32X16 is 0 for families of
 * processors that lack it; f32x16_is_here tells whether this one has it. What uses the values stands
 * between F32X16_BEGIN and F32X16_END. */
#ifndef OPS_F32X16_H
#define OPS_F32X16_H

#include "ops/f32x8.h"

#if defined(__x86_64__)

#define F32X16 1
#define F32X16_NAME "avx512"
#define F32X16_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f,avx2,fma\")")
#define F32X16_END _Pragma("GCC pop_options")

static inline bool f32x16_is_here(void)
{
    return __builtin_cpu_supports("avx512f");
}

F32X16_BEGIN

typedef __m512 f32x16;

INLINE f32x16 f32x16_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE f32x16 f32x16_all(float value)
{
    return _mm512_set1_ps(value);
}

/* In a register: the compiler would rather load it again for every product. */
INLINE f32x16 f32x16_keep(f32x16 value)
{
    __asm__ volatile("" : "+v"(value));
    return value;
}

/* Loaded once: as an operand of products it would be loaded with each. */
INLINE f32x16 f32x16_all_at(const float *from)
{
    return f32x16_keep(_mm512_set1_ps(*from));
}

INLINE f32x16 f32x16_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* from[0], from[stride], ... from[15 * stride]; that fits an int. */
INLINE f32x16 f32x16_gather(const float *from, int64_t stride)
{
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_ps(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)stride)), from, 4);
}

INLINE void f32x16_store(float *to, f32x16 value)
{
    _mm512_storeu_ps(to, value);
}

INLINE f32x16 f32x16_add(f32x16 a, f32x16 b)
{
    return _mm512_add_ps(a, b);
}

INLINE f32x16 f32x16_sub(f32x16 a, f32x16 b)
{
    return _mm512_sub_ps(a, b);
}

INLINE f32x16 f32x16_mul(f32x16 a, f32x16 b)
{
    return _mm512_mul_ps(a, b);
}

/* a * b + c */
INLINE f32x16 f32x16_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* c - a * b */
INLINE f32x16 f32x16_fnma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* A value that is no number stays none, as with f32x8_at_least. */
INLINE f32x16 f32x16_at_least(f32x16 least, f32x16 value)
{
    return _mm512_max_ps(least, value);
}

F32X16_END

#else

#define F32X16 0

#endif

#endif
