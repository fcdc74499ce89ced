/* The numbers that TensorFlow has for types, for who reads and who writes its messages. */
#ifndef CONVERT_TF_TYPES_H
#define CONVERT_TF_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

/* types.proto */
enum tf_type {
    TF_FLOAT = 1,
    TF_INT32 = 3,
    TF_UINT8 = 4,
    TF_STRING = 7,
    TF_INT64 = 9,
    TF_BOOL = 10,
    TF_RESOURCE = 20,
};

int tf_type_of(enum dtype dtype);
bool tf_type_to_dtype(int type, enum dtype *out); /* false: none of ours */

#endif
