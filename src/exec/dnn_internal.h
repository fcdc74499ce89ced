/* What dnn.c and dnn_layout.c share: a layout is oneDNN's memory descriptor. */
#ifndef EXEC_DNN_INTERNAL_H
#define EXEC_DNN_INTERNAL_H

#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "exec/dnn.h"

_Static_assert(sizeof(dnnl_memory_desc_t) <= LAYOUT_BYTES, "a layout holds a memory descriptor");

static inline dnnl_memory_desc_t *desc(struct layout *layout)
{
    return (dnnl_memory_desc_t *)layout->opaque;
}

static inline const dnnl_memory_desc_t *const_desc(const struct layout *layout)
{
    return (const dnnl_memory_desc_t *)layout->opaque;
}

static inline struct layout from_desc(const dnnl_memory_desc_t *description)
{
    struct layout layout = {0};
    if (description)
        memcpy(layout.opaque, description, sizeof *description);
    return layout;
}

static inline void dims_of(const struct shape *shape, dnnl_dims_t dims)
{
    for (int i = 0; i < shape->ndim; i++)
        dims[i] = shape->dim[i];
}

#endif
