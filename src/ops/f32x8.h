/* 8 floats as one value, so that a kernel is written once: one register of AVX2, or two of NEON. F32X8 is
 * 0 for processors that have neither; f32x8_is_here tells whether this one has what the kernels are
 * compiled for. What uses the values stands between F32X8_BEGIN and F32X8_END. */
#ifndef OPS_F32X8_H
#define OPS_F32X8_H

#include <stdbool.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)

#include <immintrin.h>

#define F32X8 1
#define F32X8_NAME "avx2"
#define F32X8_BEGIN _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma\")")
#define F32X8_END _Pragma("GCC pop_options")

static inline bool f32x8_is_here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

F32X8_BEGIN

typedef __m256 f32x8;

INLINE f32x8 f32x8_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE f32x8 f32x8_all(float value)
{
    return _mm256_set1_ps(value);
}

INLINE f32x8 f32x8_all_at(const float *from)
{
    return _mm256_broadcast_ss(from);
}

INLINE f32x8 f32x8_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

/* from[0], from[stride], ... from[7 * stride]; the stride fits an int. */
INLINE f32x8 f32x8_gather(const float *from, int64_t stride)
{
    __m256i places = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                        _mm256_set1_epi32((int)stride));
    return _mm256_i32gather_ps(from, places, 4);
}

INLINE void f32x8_store(float *to, f32x8 value)
{
    _mm256_storeu_ps(to, value);
}

INLINE f32x8 f32x8_add(f32x8 a, f32x8 b)
{
    return _mm256_add_ps(a, b);
}

INLINE f32x8 f32x8_sub(f32x8 a, f32x8 b)
{
    return _mm256_sub_ps(a, b);
}

INLINE f32x8 f32x8_mul(f32x8 a, f32x8 b)
{
    return _mm256_mul_ps(a, b);
}

/* a * b + c */
INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b */
INLINE f32x8 f32x8_fnma(f32x8 a, f32x8 b, f32x8 c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* A value that is no number stays none: the second operand is what AVX gives for it. */
INLINE f32x8 f32x8_at_least(f32x8 least, f32x8 value)
{
    return _mm256_max_ps(least, value);
}

/* In a register: the compiler would rather load it again for every product. */
INLINE f32x8 f32x8_keep(f32x8 value)
{
    __asm__ volatile("" : "+x"(value));
    return value;
}

F32X8_END

#elif defined(__aarch64__)

#include <arm_neon.h>

#define F32X8 1
#define F32X8_NAME "neon"
#define F32X8_BEGIN
#define F32X8_END

static inline bool f32x8_is_here(void)
{
    return true;
}

typedef struct {
    float32x4_t low, high;
} f32x8;

INLINE f32x8 f32x8_all(float value)
{
    return (f32x8){vdupq_n_f32(value), vdupq_n_f32(value)};
}

INLINE f32x8 f32x8_zero(void)
{
    return f32x8_all(0);
}

INLINE f32x8 f32x8_all_at(const float *from)
{
    /* Loads stay in their order: the compiler would fetch many ahead, and sums leave their registers. */
    float value = *from;
    __asm__ volatile("" : "+w"(value));
    return f32x8_all(value);
}

INLINE f32x8 f32x8_load(const float *from)
{
    return (f32x8){vld1q_f32(from), vld1q_f32(from + 4)};
}

INLINE f32x8 f32x8_gather(const float *from, int64_t stride)
{
    return (f32x8){{from[0], from[stride], from[2 * stride], from[3 * stride]},
                   {from[4 * stride], from[5 * stride], from[6 * stride], from[7 * stride]}};
}

INLINE void f32x8_store(float *to, f32x8 value)
{
    vst1q_f32(to, value.low);
    vst1q_f32(to + 4, value.high);
}

INLINE f32x8 f32x8_add(f32x8 a, f32x8 b)
{
    return (f32x8){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}

INLINE f32x8 f32x8_sub(f32x8 a, f32x8 b)
{
    return (f32x8){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}

INLINE f32x8 f32x8_mul(f32x8 a, f32x8 b)
{
    return (f32x8){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c)
{
    return (f32x8){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}

INLINE f32x8 f32x8_fnma(f32x8 a, f32x8 b, f32x8 c)
{
    return (f32x8){vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
}

INLINE f32x8 f32x8_at_least(f32x8 least, f32x8 value)
{
    return (f32x8){vmaxq_f32(least.low, value.low), vmaxq_f32(least.high, value.high)};
}

INLINE f32x8 f32x8_keep(f32x8 value)
{
    __asm__ volatile("" : "+w"(value.low), "+w"(value.high));
    return value;
}

#else

#define F32X8 0

#endif

#endif
