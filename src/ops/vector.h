/* The floats of one register by names that do not tell how many they are, for kernels that are compiled for
 * 8 lanes (f32x8.h) and for 16 (f32x16.h). A file that wants 16 defines VECTOR_LANES before it includes
 * anything. VECTOR is 0 where there is no such register. */
#ifndef OPS_VECTOR_H
#define OPS_VECTOR_H

#ifndef VECTOR_LANES
#define VECTOR_LANES 8
#endif

#if VECTOR_LANES == 16

#include "ops/f32x16.h"

#define VECTOR F32X16
#define VECTOR_NAME F32X16_NAME
#define VECTOR_BEGIN F32X16_BEGIN
#define VECTOR_END F32X16_END
#define vector_is_here f32x16_is_here
#define vector_zero f32x16_zero
#define vector_all f32x16_all
#define vector_all_at f32x16_all_at
#define vector_load f32x16_load
#define vector_gather f32x16_gather
#define vector_store f32x16_store
#define vector_add f32x16_add
#define vector_sub f32x16_sub
#define vector_mul f32x16_mul
#define vector_fma f32x16_fma
#define vector_fnma f32x16_fnma
#define vector_at_least f32x16_at_least
#define vector_keep f32x16_keep

#else

#include "ops/f32x8.h"

#define VECTOR F32X8
#define VECTOR_NAME F32X8_NAME
#define VECTOR_BEGIN F32X8_BEGIN
#define VECTOR_END F32X8_END
#define vector_is_here f32x8_is_here
#define vector_zero f32x8_zero
#define vector_all f32x8_all
#define vector_all_at f32x8_all_at
#define vector_load f32x8_load
#define vector_gather f32x8_gather
#define vector_store f32x8_store
#define vector_add f32x8_add
#define vector_sub f32x8_sub
#define vector_mul f32x8_mul
#define vector_fma f32x8_fma
#define vector_fnma f32x8_fnma
#define vector_at_least f32x8_at_least
#define vector_keep f32x8_keep

#endif

#if VECTOR && VECTOR_LANES == 16
typedef f32x16 vector;
#elif VECTOR
typedef f32x8 vector;
#endif

#endif
