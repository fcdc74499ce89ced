/* The weights of a serving plan: its own copies, in the layout its kernels want, with batch norm
 * folded into the convolution before it: w * scale / sqrt(variance + epsilon), and likewise for
 * the bias. */
#include <math.h>

#include "base/error.h"
#include "exec/known_ops.h"
#include "exec/plan_internal.h"

/* Where parameters are brought into their plain order, one after the other. Memory is asked for only
 * when the next one is larger than any before: fresh pages for each would take longer than the work
 * on them. */
struct folding {
    struct slab plain, own, scale, shift, mean, variance;
    float epsilon;
};

static int read_plain(struct params *params, value_id value, struct slab *room, struct error *err)
{
    int index = params_index(params, value);
    struct param_range range = params_range(params, index);
    struct tensor tensor = {.dtype = DTYPE_F32, .shape = range.shape};
    size_t bytes = tensor_bytes(&tensor);
    if (bytes > room->bytes) {
        slab_release(room);
        if (slab_create(bytes, range.name, room, err) < 0)
            return -1;
    }
    tensor.data = room->data;
    return params_read(params, index, &tensor, err);
}

static int read_folding(struct params *params, const struct node *norm, struct folding *out,
                        struct error *err)
{
    const struct batch_norm_attributes *attributes = norm->attributes;
    out->epsilon = attributes->epsilon;
    if (read_plain(params, norm->inputs[BATCH_NORM_SCALE], &out->scale, err) < 0 ||
        read_plain(params, norm->inputs[BATCH_NORM_SHIFT], &out->shift, err) < 0 ||
        read_plain(params, norm->inputs[BATCH_NORM_MEAN], &out->mean, err) < 0 ||
        read_plain(params, norm->inputs[BATCH_NORM_VARIANCE], &out->variance, err) < 0)
        return -1;
    return 0;
}

static void release_folding(struct folding *folding)
{
    slab_release(&folding->plain);
    slab_release(&folding->own);
    slab_release(&folding->scale);
    slab_release(&folding->shift);
    slab_release(&folding->mean);
    slab_release(&folding->variance);
}

static float channel_factor(const struct folding *folding, int64_t channel)
{
    return (
        float)((double)((float *)folding->scale.data)[channel] /
               sqrt((double)((float *)folding->variance.data)[channel] + (double)folding->epsilon));
}

/* weights: [channels, per_channel] */
static void fold_weights(float *weights, int64_t channels, int64_t per_channel,
                         const struct folding *folding)
{
    for (int64_t c = 0; c < channels; c++) {
        float factor = channel_factor(folding, c);
        for (int64_t i = 0; i < per_channel; i++)
            weights[c * per_channel + i] *= factor;
    }
}

/* The convolution's own bias, if it has one, is moved and scaled like its output. */
static void fold_bias(float *bias, const float *own, int64_t channels,
                      const struct folding *folding)
{
    for (int64_t c = 0; c < channels; c++)
        bias[c] =
            ((float *)folding->shift.data)[c] +
            ((own ? own[c] : 0) - ((float *)folding->mean.data)[c]) * channel_factor(folding, c);
}

static int fold_into(struct params *params, const struct item *item, int input,
                     struct folding *folding, const struct shape *shape, struct error *err)
{
    const struct node *conv = item->node.node;
    const float *own = NULL;
    float *plain = folding->plain.data;
    if (read_folding(params, item->node.folded, folding, err) < 0)
        return -1;
    if (input == CONV_WEIGHTS)
        fold_weights(plain, shape->dim[0], shape_count(shape) / shape->dim[0], folding);
    if (input != CONV_BIAS)
        return 0;
    if (conv->input_count > CONV_BIAS) {
        if (read_plain(params, conv->inputs[CONV_BIAS], &folding->own, err) < 0)
            return -1;
        own = folding->own.data;
    }
    fold_bias(plain, own, shape->dim[0], folding);
    return 0;
}

static int fill_copy(struct plan *plan, const struct weight_copy *copy, struct folding *folding,
                     struct error *err)
{
    value_id value = item_input(copy->item, copy->input);
    struct param_range range = params_range(plan->params, params_index(plan->params, value));
    if (read_plain(plan->params, value, &folding->plain, err) < 0 ||
        (copy->item->node.folded &&
         fold_into(plan->params, copy->item, copy->input, folding, &range.shape, err) < 0))
        return -1;
    struct shape shape = layout_shape(copy->layout);
    struct layout from = layout_plain(&shape);
    return dnn_reorder_now(&from, folding->plain.data, copy->layout,
                           plan->buffers[copy->buffer].pointer, err);
}

/* On one thread: hundreds of short pieces of work, after each of which threads would meet, and on a
 * busy machine wait for one that is not running, cost more than two threads save. */
int plan_fill_copies(struct plan *plan, struct error *err)
{
    struct folding folding = {0};
    int status = 0;
    dnn_set_threads(1);
    for (int i = 0; status == 0 && i < plan->copy_count; i++)
        if (!plan->buffers[plan->copies[i].buffer].borrowed)
            status = fill_copy(plan, &plan->copies[i], &folding, err);
    dnn_set_threads(plan->options.threads);
    release_folding(&folding);
    return status;
}
