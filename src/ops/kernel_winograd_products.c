/* The products of Winograd convolutions. Written by hand because the planes are already packed as a
 * product wants them; the library's sgemm packs again, and was slower on these shapes in a trial. */
#include "ops/winograd.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "ops/avx2.h"

enum { LANES = WINOGRAD_LANES, WIDE = WINOGRAD_OUTPUTS, TILES = WINOGRAD_TILES };

/* 6 tiles by 16 outputs: 12 sums, 2 weights and a patch are 15 of 16 registers. */
INLINE void multiply_tiles(const float *weights, const float *patches, float *results, int64_t in,
                           int64_t stride, bool add)
{
    __m256 sums[TILES][2];
#pragma GCC unroll 6
    for (int t = 0; t < TILES; t++)
        sums[t][0] = sums[t][1] = _mm256_setzero_ps();
    for (int64_t block = 0; block < in / LANES; block++) {
        const float *patch = patches + block * stride * LANES;
#pragma GCC unroll 8
        for (int lane = 0; lane < LANES; lane++) {
            __m256 low = _mm256_loadu_ps(weights), high = _mm256_loadu_ps(weights + LANES);
            KEEP(low);
            KEEP(high);
            weights += WIDE;
#pragma GCC unroll 6
            for (int t = 0; t < TILES; t++) {
                __m256 value = _mm256_broadcast_ss(patch + t * LANES + lane);
                sums[t][0] = _mm256_fmadd_ps(value, low, sums[t][0]);
                sums[t][1] = _mm256_fmadd_ps(value, high, sums[t][1]);
            }
        }
    }
#pragma GCC unroll 6
    for (int t = 0; t < TILES; t++) {
        float *low = results + t * LANES, *high = low + stride * LANES;
        if (add) {
            sums[t][0] = _mm256_add_ps(sums[t][0], _mm256_loadu_ps(low));
            sums[t][1] = _mm256_add_ps(sums[t][1], _mm256_loadu_ps(high));
        }
        _mm256_storeu_ps(low, sums[t][0]);
        _mm256_storeu_ps(high, sums[t][1]);
    }
}

/* 16 outputs' weights stay in the first-level cache while all tiles pass by. */
void winograd_multiply(const float *weights, const float *patches, float *results, int64_t in,
                       int64_t outputs, int64_t tiles, int64_t stride, bool add)
{
    for (int64_t out = 0; out < outputs; out += WIDE)
        for (int64_t tile = 0; tile < tiles; tile += TILES)
            multiply_tiles(weights + out * in, patches + tile * LANES,
                           results + (out / LANES * stride + tile) * LANES, in, stride, add);
}

/* 4 inputs by 8, 16 or 24 outputs, over all tiles. The sums start at zero and are added to what is there
 * at the end: less error than going on from it. */
INLINE void multiply_inputs(const float *patches, const float *gradients, float *sums, int64_t in,
                            int blocks, int64_t tiles, int64_t stride, bool add)
{
    enum { INPUTS = 4 };
    __m256 sum[INPUTS][WINOGRAD_BLOCKS];
#pragma GCC unroll 4
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++)
            sum[i][b] = _mm256_setzero_ps();
    for (int64_t t = 0; t < tiles; t++) {
        __m256 gradient[WINOGRAD_BLOCKS];
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            gradient[b] = _mm256_loadu_ps(gradients + (b * stride + t) * LANES);
            KEEP(gradient[b]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < INPUTS; i++) {
            __m256 value = _mm256_broadcast_ss(patches + t * LANES + i);
#pragma GCC unroll 3
            for (int b = 0; b < blocks; b++)
                sum[i][b] = _mm256_fmadd_ps(value, gradient[b], sum[i][b]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < INPUTS; i++)
#pragma GCC unroll 3
        for (int b = 0; b < blocks; b++) {
            float *to = sums + (b * in + i) * LANES;
            if (add)
                sum[i][b] = _mm256_add_ps(sum[i][b], _mm256_loadu_ps(to));
            _mm256_storeu_ps(to, sum[i][b]);
        }
}

void winograd_multiply_gradients(const float *patches, const float *gradients, float *sums,
                                 int64_t in, int blocks, int64_t tiles, int64_t stride, bool add)
{
    enum { INPUTS = 4 };
    for (int64_t i = 0; i < in; i += INPUTS) {
        const float *from = patches + i / LANES * stride * LANES + i % LANES;
        float *to = sums + i * LANES;
        if (blocks == 3)
            multiply_inputs(from, gradients, to, in, 3, tiles, stride, add);
        else if (blocks == 2)
            multiply_inputs(from, gradients, to, in, 2, tiles, stride, add);
        else
            multiply_inputs(from, gradients, to, in, 1, tiles, stride, add);
    }
}

#pragma GCC pop_options
#endif
