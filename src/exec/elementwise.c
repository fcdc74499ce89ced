#include "exec/elementwise.h"

#include <stdint.h>

#include "base/clones.h"

/* The loops say `simd`: at -O2 the compiler leaves loops of unknown length as they are. Results may
 * lie where an operand lies, element on element, which that allows. */

KERNEL_CLONES static void sum2(float *out, const float *a, const float *b, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

KERNEL_CLONES static void sum3(float *out, const float *a, const float *b, const float *c,
                               size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i] + c[i];
}

KERNEL_CLONES static void relu_piece(float *out, const float *in, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] > 0 ? in[i] : in[i] != in[i] ? in[i] : 0; /* NaN stays visible */
}

KERNEL_CLONES static void mask1(float *out, const float *a, const float *y, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = a[i]; /* read in any case: a branch would be guessed wrong */
        out[i] = y[i] > 0 ? gradient : 0;
    }
}

KERNEL_CLONES static void mask2(float *out, const float *a, const float *b, const float *y,
                                size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = a[i] + b[i];
        out[i] = y[i] > 0 ? gradient : 0;
    }
}

KERNEL_CLONES static void mask3(float *out, const float *a, const float *b, const float *c,
                                const float *y, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gradient = a[i] + b[i] + c[i];
        out[i] = y[i] > 0 ? gradient : 0;
    }
}

/* Only a NaN or an infinity less itself is not zero. */
KERNEL_CLONES static int32_t count_nonfinite(const float *in, size_t count)
{
    int32_t found = 0;
#pragma omp simd reduction(+ : found)
    for (size_t i = 0; i < count; i++)
        found += in[i] - in[i] != 0;
    return found;
}

static size_t piece_length(size_t first, size_t count)
{
    return count - first < ELEMENTWISE_PIECE ? count - first : ELEMENTWISE_PIECE;
}

void elementwise_sum(float *out, float *const *in, int inputs, size_t count)
{
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE) {
        size_t length = piece_length(at, count);
        if (inputs == 2)
            sum2(out + at, in[0] + at, in[1] + at, length);
        else
            sum3(out + at, in[0] + at, in[1] + at, in[2] + at, length);
    }
}

void elementwise_relu(float *out, const float *in, size_t count)
{
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE)
        relu_piece(out + at, in + at, piece_length(at, count));
}

void elementwise_relu_gradient(float *out, float *const *gradients, int inputs, const float *y,
                               size_t count)
{
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE) {
        size_t length = piece_length(at, count);
        if (inputs == 1)
            mask1(out + at, gradients[0] + at, y + at, length);
        else if (inputs == 2)
            mask2(out + at, gradients[0] + at, gradients[1] + at, y + at, length);
        else
            mask3(out + at, gradients[0] + at, gradients[1] + at, gradients[2] + at, y + at,
                  length);
    }
}

void elementwise_fill(float *out, float value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

bool elementwise_is_finite(const float *in, size_t count)
{
    uint64_t found = 0;
#pragma omp parallel for schedule(static) reduction(+ : found) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE)
        found += (uint64_t)count_nonfinite(in + at, piece_length(at, count));
    return found == 0;
}
