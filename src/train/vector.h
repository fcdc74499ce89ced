/* How the leaf loops of this folder are compiled: once for any processor and once for those with
 * AVX2 and FMA, chosen when the program is loaded. Only for functions without an OpenMP parallel
 * region (its outlined body would get one version). Thread-sanitizer builds leave it out: there
 * the resolver would run before the sanitizer is ready. */
#ifndef TRAIN_VECTOR_H
#define TRAIN_VECTOR_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_LOOP __attribute__((target_clones("arch=haswell", "default")))
#else
#define VECTOR_LOOP
#endif

#endif
