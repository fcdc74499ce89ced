#include "peak.h"

#include <omp.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { TRIALS = 10, ROUNDS = 1 << 23, CHAINS = 12 };

/* Twelve independent chains: two FMA units with a latency of four to five cycles need ten. They
 * are named one by one because an array of them would live in memory. */
#define FMA(fma, x) x = fma(x, a, b)
#define FMA_LOOP(function, features, vector, broadcast, fma)                                       \
    __attribute__((target(features))) static float function(void)                                  \
    {                                                                                              \
        vector a = broadcast(0.999999f), b = broadcast(1e-6f);                                     \
        vector x0 = a, x1 = b, x2 = a, x3 = b, x4 = a, x5 = b;                                     \
        vector y0 = a, y1 = b, y2 = a, y3 = b, y4 = a, y5 = b;                                     \
        for (int64_t round = 0; round < ROUNDS; round++) {                                         \
            FMA(fma, x0), FMA(fma, x1), FMA(fma, x2), FMA(fma, x3), FMA(fma, x4), FMA(fma, x5);    \
            FMA(fma, y0), FMA(fma, y1), FMA(fma, y2), FMA(fma, y3), FMA(fma, y4), FMA(fma, y5);    \
            /* Hides from the compiler that chains which start alike stay alike. */                \
            __asm__ volatile(""                                                                    \
                             : "+x"(x0), "+x"(x1), "+x"(x2), "+x"(x3), "+x"(x4), "+x"(x5),         \
                               "+x"(y0), "+x"(y1), "+x"(y2), "+x"(y3), "+x"(y4), "+x"(y5));        \
        }                                                                                          \
        x0 += x1 + x2 + x3 + x4 + x5 + y0 + y1 + y2 + y3 + y4 + y5;                                \
        return x0[0];                                                                              \
    }

FMA_LOOP(loop_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
FMA_LOOP(loop_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)

double peak_gflops(void)
{
    bool wide = __builtin_cpu_supports("avx512f");
    if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
        return 0;
    float (*loop)(void) = wide ? loop_avx512 : loop_avx2;
    double best = 0;
    float total = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        int threads = 1;
        double seconds = 0;
#pragma omp parallel reduction(+ : total) reduction(max : seconds)
        {
#pragma omp single
            threads = omp_get_num_threads();
            double start = omp_get_wtime();
            total += loop();
            seconds = omp_get_wtime() - start;
        }
        double operations = 2.0 * (wide ? 16 : 8) * CHAINS * ROUNDS * threads;
        if (operations / seconds > best)
            best = operations / seconds;
    }
    return total < 0 ? 0 : best / 1e9; /* the sum is used, so the loops cannot be dropped */
}

#else

double peak_gflops(void)
{
    return 0;
}

#endif
