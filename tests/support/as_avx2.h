/* For a test of kernels whose channels come in blocks of 8: the library uses AVX2 at most, whose layouts have
 * them, also where the processor has more. To be included by one file of the test. */
#ifndef SUPPORT_AS_AVX2_H
#define SUPPORT_AS_AVX2_H

#include <stdlib.h>

/* Before the library is first used: it looks once. */
__attribute__((constructor)) static void as_avx2(void)
{
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
}

#endif
