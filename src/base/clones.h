/* Leaf loops compiled twice, for AVX2 with FMA and for any processor of the family; the right one
 * is chosen when the program starts. (By level, not by name: "arch=x86-64-v3" is chosen on that very
 * processor only, and never on AMD's.) Never put on a function with an OpenMP region, whose outlined
 * body would not be cloned. Sanitizer builds leave it out: there the choice would be made before
 * the sanitizer is ready. */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KERNEL_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define KERNEL_CLONES
#endif

#endif
