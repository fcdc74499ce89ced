#include "convert/tf_types.h"

int tf_type_of(enum dtype dtype)
{
    static const int types[] = {[DTYPE_F32] = TF_FLOAT,
                                [DTYPE_U8] = TF_UINT8,
                                [DTYPE_I32] = TF_INT32,
                                [DTYPE_I64] = TF_INT64,
                                [DTYPE_STRING] = TF_STRING};
    return types[dtype];
}

bool tf_type_to_dtype(int type, enum dtype *out)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_STRING; dtype++)
        if (tf_type_of((enum dtype)dtype) == type) {
            *out = (enum dtype)dtype;
            return true;
        }
    return false;
}
