/* What the processor could do at most. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

/* Fused multiply-adds of single precision by all threads of the next parallel region, in 1e9
 * operations per second (an FMA counts as two): the best of several trials, since anything else
 * that runs can only lower it. 0 where the processor has no vector FMA that we know. */
double peak_gflops(void);

#endif
