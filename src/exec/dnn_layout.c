/* How tensors lie in memory, as oneDNN 2.6 describes it: the layouts of exec/dnn.h. */
#include <assert.h>

#include "exec/dnn_internal.h"

static struct layout strided(const struct shape *shape, const int *order)
{
    dnnl_dims_t dims, strides;
    dims_of(shape, dims);
    dnnl_dim_t stride = 1;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        strides[order[i]] = stride;
        stride *= dims[order[i]];
    }
    struct layout layout = {0};
    dnnl_memory_desc_init_by_strides(desc(&layout), shape->ndim, dims, dnnl_f32, strides);
    return layout;
}

struct layout layout_plain(const struct shape *shape)
{
    static const int order[TENSOR_MAX_DIMS] = {0, 1, 2, 3, 4, 5};
    return strided(shape, order);
}

struct layout layout_channels_last(const struct shape *shape)
{
    static const int order[4] = {0, 2, 3, 1};
    assert(shape->ndim == 4);
    return strided(shape, order);
}

struct layout layout_any(const struct shape *shape)
{
    dnnl_dims_t dims;
    dims_of(shape, dims);
    struct layout layout = {0};
    dnnl_memory_desc_init_by_tag(desc(&layout), shape->ndim, dims, dnnl_f32, dnnl_format_tag_any);
    return layout;
}

/* Takes numbers of one dimension together, `size` of them, inside of all that there is. */
static void block(struct layout *layout, int dimension, int size)
{
    dnnl_memory_desc_t *d = desc(layout);
    dnnl_blocking_desc_t *blocking = &d->format_desc.blocking;
    assert(d->dims[dimension] % size == 0);
    blocking->inner_blks[blocking->inner_nblks] = size;
    blocking->inner_idxs[blocking->inner_nblks++] = dimension;
    for (int i = dimension; i < d->ndims; i++)
        blocking->strides[i] *= size;
}

struct layout layout_outputs_in_sixteens(const struct shape *shape)
{
    struct layout layout = layout_plain(shape);
    block(&layout, 0, 16);
    return layout;
}

struct layout layout_outputs_behind_inputs(const struct shape *shape)
{
    struct layout layout = layout_channels_last(shape);
    block(&layout, 0, 32);
    return layout;
}

struct layout layout_channels_in_eights(const struct shape *shape)
{
    struct layout layout = layout_plain(shape);
    block(&layout, 1, 8);
    return layout;
}

struct layout layout_both_in_blocks(const struct shape *shape, int size)
{
    struct layout layout = layout_plain(shape);
    block(&layout, 1, size);
    block(&layout, 0, size);
    return layout;
}

bool layout_equal(const struct layout *a, const struct layout *b)
{
    return dnnl_memory_desc_equal(const_desc(a), const_desc(b));
}

bool layout_is_plain(const struct layout *layout)
{
    struct shape shape = layout_shape(layout);
    struct layout plain = layout_plain(&shape);
    return layout_equal(layout, &plain);
}

size_t layout_bytes(const struct layout *layout)
{
    return const_desc(layout)->ndims ? dnnl_memory_desc_get_size(const_desc(layout)) : 0;
}

struct shape layout_shape(const struct layout *layout)
{
    struct shape shape = {.ndim = const_desc(layout)->ndims};
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = const_desc(layout)->dims[i];
    return shape;
}

/* Letters in order of stride, upper case where the dimension is also blocked, then the blocks. */
const char *layout_text(const struct layout *layout, char *text, size_t bytes)
{
    const dnnl_memory_desc_t *d = const_desc(layout);
    const dnnl_blocking_desc_t *blocking = &d->format_desc.blocking;
    int order[DNNL_MAX_NDIMS];
    for (int i = 0; i < d->ndims; i++) {
        int at = i;
        for (; at > 0 && blocking->strides[order[at - 1]] < blocking->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    size_t used = 0;
    for (int i = 0; i < d->ndims && used + 1 < bytes; i++) {
        bool blocked = false;
        for (int k = 0; k < blocking->inner_nblks; k++)
            blocked |= blocking->inner_idxs[k] == order[i];
        text[used++] = (char)((blocked ? 'A' : 'a') + order[i]);
    }
    text[used] = 0;
    for (int k = 0; k < blocking->inner_nblks && used < bytes; k++)
        used += (size_t)snprintf(text + used, bytes - used, "%d%c", (int)blocking->inner_blks[k],
                                 (char)('a' + blocking->inner_idxs[k]));
    return text;
}

static bool spatial_is_dense(const dnnl_memory_desc_t *d, dnnl_dim_t inner_stride)
{
    dnnl_dim_t expected = inner_stride;
    for (int i = d->ndims - 1; i >= 2; i--) {
        if (d->dims[i] != 1 && d->format_desc.blocking.strides[i] != expected)
            return false;
        expected *= d->dims[i];
    }
    return true;
}

bool layout_form(const struct layout *layout, struct layout_form *out)
{
    const dnnl_memory_desc_t *d = const_desc(layout);
    const dnnl_blocking_desc_t *blocking = &d->format_desc.blocking;
    if (d->ndims < 2 || d->format_kind != dnnl_blocked || blocking->inner_nblks > 1 ||
        d->padded_dims[0] != d->dims[0])
        return false;
    struct layout_form form = {.outer = d->dims[0], .spatial = 1, .channels = d->dims[1]};
    for (int i = 2; i < d->ndims; i++)
        form.spatial *= d->dims[i];
    if (blocking->inner_nblks == 1) {
        if (blocking->inner_idxs[0] != 1)
            return false;
        form.inner = blocking->inner_blks[0];
    } else {
        bool last = d->dims[1] == 1 || blocking->strides[1] == 1;
        form.inner = last ? d->dims[1] : 1;
    }
    form.blocks = d->padded_dims[1] / form.inner;
    dnnl_dim_t block_stride = form.spatial * form.inner;
    bool ok = spatial_is_dense(d, form.inner) &&
              (form.blocks == 1 || blocking->strides[1] == block_stride) &&
              (form.outer == 1 || blocking->strides[0] == block_stride * form.blocks);
    if (ok)
        *out = form;
    return ok;
}
