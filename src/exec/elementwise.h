/* Element by element over whole buffers, on the threads OpenMP has. Written by hand because no
 * library sums gradients and undoes a ReLU in one pass over memory. Results do not depend on the
 * number of threads. */
#ifndef EXEC_ELEMENTWISE_H
#define EXEC_ELEMENTWISE_H

#include <stdbool.h>
#include <stddef.h>

/* out = in[0] + in[1] (+ in[2]); `out` may be one of them. */
void elementwise_sum(float *out, float *const *in, int inputs, size_t count);
void elementwise_relu(float *out, const float *in, size_t count);
/* out = y > 0 ? sum of gradients : 0; `out` may be one of them. */
void elementwise_relu_gradient(float *out, float *const *gradients, int inputs, const float *y,
                               size_t count);
void elementwise_fill(float *out, float value, size_t count);
bool elementwise_is_finite(const float *in, size_t count);

/* Splits [0, count) into pieces of a fixed size, so that the pieces, and with them the result of
 * a reduction, are the same for any number of threads. */
enum { ELEMENTWISE_PIECE = 32768 };

#endif
