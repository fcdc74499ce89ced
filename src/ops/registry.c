/* All operations; the list is written by the build from the file names. */
#include "graph/op.h"

#define OP(name) extern const struct op op_##name;
#include "ops.list"
#undef OP

static const struct op *const all[] = {
#define OP(name) &op_##name,
#include "ops.list"
#undef OP
    NULL,
};

const struct op *const *op_list(void)
{
    return all;
}
