/* Numbers of 16 bits for the way between ranks (IEEE half: 11 bits of mantissa, up to 65504). */
#ifndef COMM_HALF_H
#define COMM_HALF_H

#include <stddef.h>
#include <stdint.h>

/* Rounds to the nearest; what is too large becomes infinite, what is too small 0. */
void half_pack(const float *from, uint16_t *to, size_t count);
void half_unpack(const uint16_t *from, float *to, size_t count);

#endif
