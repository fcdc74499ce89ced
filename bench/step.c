#include "step.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if DNNL_VERSION_MAJOR != 2
#error "the yardstick is written for oneDNN 2.x"
#endif

enum { CHANNEL_BLOCK = 16, MAX_WORKS_PER_LAYER = 4, HUGE_PAGE = 2 << 20, ALIGNMENT = 4096 };

/* What the backward pass of a layer needs to know of its forward pass. */
struct forward {
    dnnl_primitive_desc_t descriptor;
    dnnl_memory_desc_t in, out, weights;
    void *in_data, *out_data, *weights_data;
    dnnl_memory_t mean, variance, scale, shift, workspace;
    bool input_needs_gradient;
};

static void check(dnnl_status_t status, const struct layer *layer, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "primitives: layer %s: %s: oneDNN status %d\n", layer ? layer->name : "-", what,
            (int)status);
    exit(1);
}

/* ---- memory ---- */

static void slab_reserve(struct step *step)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    step->slab_bytes = (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
    step->slab = mmap(NULL, step->slab_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (step->slab == MAP_FAILED) {
        perror("primitives: reserve memory");
        exit(1);
    }
    madvise(step->slab, step->slab_bytes, MADV_HUGEPAGE);
    step->used_bytes = HUGE_PAGE - (uintptr_t)step->slab % HUGE_PAGE;
}

/* Uniform in [-limit, limit); cheap, and the same for every number of threads. The threads that
 * will use the memory touch it first. */
static void fill(float *data, size_t count, float limit)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) {
        uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
        data[i] = limit * ((float)(x >> 40) * 0x1p-23f - 1.0f);
    }
}

static void *slab_take(struct step *step, size_t bytes, float limit)
{
    char *data = step->slab + step->used_bytes;
    step->used_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (step->used_bytes > step->slab_bytes) {
        fprintf(stderr, "primitives: batch %d does not fit into memory; take a smaller one\n",
                step->batch);
        exit(1);
    }
    fill((float *)data, bytes / sizeof(float), limit);
    return data;
}

/* Room for the activations in any layout, channels rounded up to what kernels block by. */
static size_t activation_bytes(int batch, struct extent extent)
{
    size_t channels = ((size_t)extent.channels + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK * CHANNEL_BLOCK;
    return (size_t)batch * channels * (size_t)extent.height * (size_t)extent.width * sizeof(float);
}

static dnnl_memory_t memory_at(struct step *step, const dnnl_memory_desc_t *layout, void *data)
{
    dnnl_memory_t memory;
    check(dnnl_memory_create(&memory, layout, step->engine, data), NULL, "create memory");
    step->memories[step->memory_count++] = memory;
    return memory;
}

static dnnl_memory_t memory_new(struct step *step, const dnnl_memory_desc_t *layout, float limit)
{
    return memory_at(step, layout, slab_take(step, dnnl_memory_desc_get_size(layout), limit));
}

/* ---- descriptions ---- */

static dnnl_memory_desc_t any_layout(int ndims, const dnnl_dims_t dims)
{
    dnnl_memory_desc_t layout;
    check(dnnl_memory_desc_init_by_tag(&layout, ndims, dims, dnnl_f32, dnnl_format_tag_any), NULL,
          "describe a tensor");
    return layout;
}

static dnnl_memory_desc_t vector(int count)
{
    dnnl_memory_desc_t layout;
    check(dnnl_memory_desc_init_by_tag(&layout, 1, (dnnl_dims_t){count}, dnnl_f32, dnnl_a), NULL,
          "describe a vector");
    return layout;
}

static dnnl_memory_desc_t activation(const struct step *step, struct extent extent)
{
    return any_layout(4, (dnnl_dims_t){step->batch, extent.channels, extent.height, extent.width});
}

static const dnnl_memory_desc_t *layout_of(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(descriptor, what, 0);
}

static dnnl_primitive_attr_t attributes(bool fuse_relu)
{
    dnnl_primitive_attr_t attr;
    check(dnnl_primitive_attr_create(&attr), NULL, "create attributes");
    check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user), NULL,
          "set scratchpad mode");
    if (fuse_relu) {
        dnnl_post_ops_t ops;
        check(dnnl_post_ops_create(&ops), NULL, "create post-ops");
        check(dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0, 0), NULL, "add ReLU");
        check(dnnl_primitive_attr_set_post_ops(attr, ops), NULL, "set post-ops");
        dnnl_post_ops_destroy(ops);
    }
    return attr;
}

static double layer_flops(const struct layer *layer, int batch)
{
    double area = layer->kind == LAYER_CONV
                      ? (double)layer->kernel * layer->kernel * layer->out.height * layer->out.width
                      : (double)layer->in.height * layer->in.width;
    return 2.0 * batch * layer->in.channels * layer->out.channels * area;
}

/* ---- primitives ---- */

static void bind(struct work *work, int argument, dnnl_memory_t memory)
{
    assert(work->arg_count < WORK_MAX_ARGS);
    work->args[work->arg_count++] = (dnnl_exec_arg_t){argument, memory};
}

/* Adds a primitive to the step; its descriptor belongs to the caller. */
static struct work *add_work(struct step *step, const struct layer *layer, enum pass pass,
                             const char *verb, const void *operation, bool fuse_relu,
                             dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *descriptor)
{
    struct work *work = &step->works[step->work_count++];
    *work = (struct work){.layer = layer, .pass = pass, .verb = verb};
    dnnl_primitive_attr_t attr = attributes(fuse_relu);
    check(dnnl_primitive_desc_create(descriptor, operation, attr, step->engine, hint), layer, verb);
    dnnl_primitive_attr_destroy(attr);
    check(dnnl_primitive_create(&work->primitive, *descriptor), layer, verb);
    const_dnnl_primitive_desc_t kept; /* lives as long as the primitive, and so does its name */
    check(dnnl_primitive_get_primitive_desc(work->primitive, &kept), layer, verb);
    check(dnnl_primitive_desc_query(kept, dnnl_query_impl_info_str, 0, (void *)&work->kernel),
          layer, verb);
    if (pass < PASS_NORM)
        work->flops = layer_flops(layer, step->batch);
    work->scratch =
        memory_at(step, layout_of(*descriptor, dnnl_query_scratchpad_md), DNNL_MEMORY_NONE);
    bind(work, DNNL_ARG_SCRATCHPAD, work->scratch);
    return work;
}

static void forward_output(struct step *step, struct forward *forward, const struct layer *layer)
{
    forward->out = *layout_of(forward->descriptor, dnnl_query_dst_md);
    size_t bytes = activation_bytes(step->batch, layer->out);
    assert(dnnl_memory_desc_get_size(&forward->out) <= bytes);
    forward->out_data = slab_take(step, bytes, 1.0f);
}

static dnnl_status_t describe_weighted(const struct step *step, const struct layer *layer,
                                       dnnl_prop_kind_t kind, dnnl_convolution_desc_t *conv,
                                       dnnl_inner_product_desc_t *dense)
{
    dnnl_memory_desc_t in = activation(step, layer->in), bias = vector(layer->out.channels);
    const dnnl_memory_desc_t *maybe_bias = layer->bias ? &bias : NULL;
    if (layer->kind == LAYER_DENSE) {
        dnnl_memory_desc_t out = any_layout(2, (dnnl_dims_t){step->batch, layer->out.channels});
        dnnl_memory_desc_t weights =
            any_layout(4, (dnnl_dims_t){layer->out.channels, layer->in.channels, layer->in.height,
                                        layer->in.width});
        if (kind == dnnl_backward_data)
            return dnnl_inner_product_backward_data_desc_init(dense, &in, &weights, &out);
        if (kind == dnnl_backward_weights)
            return dnnl_inner_product_backward_weights_desc_init(dense, &in, &weights, maybe_bias,
                                                                 &out);
        return dnnl_inner_product_forward_desc_init(dense, kind, &in, &weights, maybe_bias, &out);
    }
    dnnl_memory_desc_t out = activation(step, layer->out);
    dnnl_memory_desc_t weights = any_layout(
        4, (dnnl_dims_t){layer->out.channels, layer->in.channels, layer->kernel, layer->kernel});
    dnnl_dims_t strides = {layer->stride, layer->stride}, pads = {layer->pad, layer->pad};
    dnnl_alg_kind_t algorithm = dnnl_convolution_auto;
    if (kind == dnnl_backward_data)
        return dnnl_convolution_backward_data_desc_init(conv, algorithm, &in, &weights, &out,
                                                        strides, pads, pads);
    if (kind == dnnl_backward_weights)
        return dnnl_convolution_backward_weights_desc_init(conv, algorithm, &in, &weights,
                                                           maybe_bias, &out, strides, pads, pads);
    return dnnl_convolution_forward_desc_init(conv, kind, algorithm, &in, &weights, maybe_bias,
                                              &out, strides, pads, pads);
}

/* A convolution or a dense layer in one direction: the same but for its descriptor. */
static struct work *add_weighted(struct step *step, const struct layer *layer,
                                 dnnl_prop_kind_t kind, const struct forward *forward,
                                 dnnl_primitive_desc_t *descriptor)
{
    static const struct {
        dnnl_prop_kind_t kind;
        enum pass pass;
        const char *verb;
    } names[] = {{dnnl_forward_training, PASS_CONV_FORWARD, "fwd"},
                 {dnnl_backward_data, PASS_CONV_BACKWARD_DATA, "bwd_d"},
                 {dnnl_backward_weights, PASS_CONV_BACKWARD_WEIGHTS, "bwd_w"}};
    size_t i = 0;
    while (names[i].kind != kind)
        i++;
    dnnl_convolution_desc_t conv;
    dnnl_inner_product_desc_t inner_product;
    check(describe_weighted(step, layer, kind, &conv, &inner_product), layer, names[i].verb);
    bool is_dense = layer->kind == LAYER_DENSE;
    return add_work(step, layer, is_dense ? PASS_DENSE : names[i].pass, names[i].verb,
                    is_dense ? (const void *)&inner_product : (const void *)&conv,
                    layer->relu && kind == dnnl_forward_training,
                    forward ? forward->descriptor : NULL, descriptor);
}

static void forward_weighted(struct step *step, const struct layer *layer, struct forward *forward)
{
    struct work *work =
        add_weighted(step, layer, dnnl_forward_training, NULL, &forward->descriptor);
    forward->in = *layout_of(forward->descriptor, dnnl_query_src_md);
    forward->weights = *layout_of(forward->descriptor, dnnl_query_weights_md);
    forward_output(step, forward, layer);
    double fan_in = layer_flops(layer, 1) / 2 / layer->out.channels /
                    ((double)layer->out.height * layer->out.width);
    size_t weights_bytes = dnnl_memory_desc_get_size(&forward->weights);
    forward->weights_data = slab_take(step, weights_bytes, (float)sqrt(6 / fan_in)); /* He */
    bind(work, DNNL_ARG_SRC, memory_at(step, &forward->in, forward->in_data));
    bind(work, DNNL_ARG_WEIGHTS, memory_at(step, &forward->weights, forward->weights_data));
    bind(work, DNNL_ARG_DST, memory_at(step, &forward->out, forward->out_data));
    dnnl_memory_desc_t bias = vector(layer->out.channels);
    if (layer->bias)
        bind(work, DNNL_ARG_BIAS, memory_new(step, &bias, 0.1f));
}

/* Backward-data mostly wants the weights in another layout than forward has them; it gets its own
 * copy, so the reorder that a real step needs is not part of the yardstick. */
static void *weights_for_backward(struct step *step, const struct forward *forward,
                                  const dnnl_memory_desc_t *wanted)
{
    if (dnnl_memory_desc_equal(wanted, &forward->weights))
        return forward->weights_data;
    return slab_take(step, dnnl_memory_desc_get_size(wanted), 0.05f);
}

static void backward_weighted(struct step *step, const struct layer *layer,
                              const struct forward *forward, void *out_gradient, void *in_gradient)
{
    dnnl_primitive_desc_t descriptor;
    struct work *work = add_weighted(step, layer, dnnl_backward_weights, forward, &descriptor);
    bind(work, DNNL_ARG_SRC,
         memory_at(step, layout_of(descriptor, dnnl_query_src_md), forward->in_data));
    bind(work, DNNL_ARG_DIFF_DST,
         memory_at(step, layout_of(descriptor, dnnl_query_diff_dst_md), out_gradient));
    bind(work, DNNL_ARG_DIFF_WEIGHTS,
         memory_new(step, layout_of(descriptor, dnnl_query_diff_weights_md), 1.0f));
    dnnl_memory_desc_t bias = vector(layer->out.channels);
    if (layer->bias)
        bind(work, DNNL_ARG_DIFF_BIAS, memory_new(step, &bias, 1.0f));
    dnnl_primitive_desc_destroy(descriptor);
    if (!forward->input_needs_gradient)
        return;
    work = add_weighted(step, layer, dnnl_backward_data, forward, &descriptor);
    const dnnl_memory_desc_t *weights = layout_of(descriptor, dnnl_query_weights_md);
    bind(work, DNNL_ARG_DIFF_DST,
         memory_at(step, layout_of(descriptor, dnnl_query_diff_dst_md), out_gradient));
    bind(work, DNNL_ARG_WEIGHTS,
         memory_at(step, weights, weights_for_backward(step, forward, weights)));
    bind(work, DNNL_ARG_DIFF_SRC,
         memory_at(step, layout_of(descriptor, dnnl_query_diff_src_md), in_gradient));
    dnnl_primitive_desc_destroy(descriptor);
}

/* The ReLU that forward appended to its kernel; in place, from the output as a mask. */
static void backward_relu(struct step *step, const struct layer *layer,
                          const struct forward *forward, void *gradient)
{
    dnnl_eltwise_desc_t operation;
    dnnl_primitive_desc_t hint, descriptor;
    check(dnnl_eltwise_forward_desc_init(&operation, dnnl_forward_training,
                                         dnnl_eltwise_relu_use_dst_for_bwd, &forward->out, 0, 0),
          layer, "relu");
    check(dnnl_primitive_desc_create(&hint, &operation, NULL, step->engine, NULL), layer, "relu");
    check(dnnl_eltwise_backward_desc_init(&operation, dnnl_eltwise_relu_use_dst_for_bwd,
                                          &forward->out, &forward->out, 0, 0),
          layer, "relu");
    struct work *work =
        add_work(step, layer, PASS_OTHER, "relu_bwd", &operation, false, hint, &descriptor);
    bind(work, DNNL_ARG_DST, memory_at(step, &forward->out, forward->out_data));
    bind(work, DNNL_ARG_DIFF_DST, memory_at(step, &forward->out, gradient));
    bind(work, DNNL_ARG_DIFF_SRC, memory_at(step, &forward->out, gradient));
    dnnl_primitive_desc_destroy(hint);
    dnnl_primitive_desc_destroy(descriptor);
}

static unsigned norm_flags(const struct layer *layer)
{
    return dnnl_use_scale | dnnl_use_shift | (layer->relu ? dnnl_fuse_norm_relu : 0);
}

static void forward_norm(struct step *step, const struct layer *layer, struct forward *forward)
{
    dnnl_batch_normalization_desc_t operation;
    check(dnnl_batch_normalization_forward_desc_init(&operation, dnnl_forward_training,
                                                     &forward->in, 1e-5f, norm_flags(layer)),
          layer, "fwd");
    struct work *work =
        add_work(step, layer, PASS_NORM, "fwd", &operation, false, NULL, &forward->descriptor);
    forward_output(step, forward, layer);
    dnnl_memory_desc_t channels = vector(layer->out.channels);
    bind(work, DNNL_ARG_SRC, memory_at(step, &forward->in, forward->in_data));
    bind(work, DNNL_ARG_DST, memory_at(step, &forward->out, forward->out_data));
    bind(work, DNNL_ARG_MEAN, forward->mean = memory_new(step, &channels, 1.0f));
    bind(work, DNNL_ARG_VARIANCE, forward->variance = memory_new(step, &channels, 1.0f));
    bind(work, DNNL_ARG_SCALE, forward->scale = memory_new(step, &channels, 1.0f));
    bind(work, DNNL_ARG_SHIFT, forward->shift = memory_new(step, &channels, 1.0f));
    if (layer->relu) {
        forward->workspace =
            memory_new(step, layout_of(forward->descriptor, dnnl_query_workspace_md), 1.0f);
        bind(work, DNNL_ARG_WORKSPACE, forward->workspace);
    }
}

static void backward_norm(struct step *step, const struct layer *layer,
                          const struct forward *forward, void *out_gradient, void *in_gradient)
{
    dnnl_batch_normalization_desc_t operation;
    dnnl_primitive_desc_t descriptor;
    check(dnnl_batch_normalization_backward_desc_init(&operation, dnnl_backward, &forward->out,
                                                      &forward->in, 1e-5f, norm_flags(layer)),
          layer, "bwd");
    struct work *work = add_work(step, layer, PASS_NORM, "bwd", &operation, false,
                                 forward->descriptor, &descriptor);
    dnnl_memory_desc_t channels = vector(layer->out.channels);
    bind(work, DNNL_ARG_SRC, memory_at(step, &forward->in, forward->in_data));
    bind(work, DNNL_ARG_MEAN, forward->mean);
    bind(work, DNNL_ARG_VARIANCE, forward->variance);
    bind(work, DNNL_ARG_SCALE, forward->scale);
    bind(work, DNNL_ARG_SHIFT, forward->shift);
    bind(work, DNNL_ARG_DIFF_DST, memory_at(step, &forward->out, out_gradient));
    bind(work, DNNL_ARG_DIFF_SRC, memory_at(step, &forward->out, in_gradient));
    bind(work, DNNL_ARG_DIFF_SCALE, memory_new(step, &channels, 1.0f));
    bind(work, DNNL_ARG_DIFF_SHIFT, memory_new(step, &channels, 1.0f));
    if (layer->relu)
        bind(work, DNNL_ARG_WORKSPACE, forward->workspace);
    dnnl_primitive_desc_destroy(descriptor);
}

static dnnl_alg_kind_t pool_algorithm(const struct layer *layer)
{
    return layer->kind == LAYER_MAX_POOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
}

static void forward_pool(struct step *step, const struct layer *layer, struct forward *forward)
{
    dnnl_pooling_desc_t operation;
    dnnl_memory_desc_t out = activation(step, layer->out);
    dnnl_dims_t strides = {layer->stride, layer->stride}, pads = {layer->pad, layer->pad};
    dnnl_dims_t kernel = {layer->kernel, layer->kernel};
    check(dnnl_pooling_forward_desc_init(&operation, dnnl_forward_training, pool_algorithm(layer),
                                         &forward->in, &out, strides, kernel, pads, pads),
          layer, "fwd");
    struct work *work =
        add_work(step, layer, PASS_OTHER, "fwd", &operation, false, NULL, &forward->descriptor);
    forward_output(step, forward, layer);
    bind(work, DNNL_ARG_SRC, memory_at(step, &forward->in, forward->in_data));
    bind(work, DNNL_ARG_DST, memory_at(step, &forward->out, forward->out_data));
    if (layer->kind == LAYER_MAX_POOL) {
        forward->workspace =
            memory_new(step, layout_of(forward->descriptor, dnnl_query_workspace_md), 0.0f);
        bind(work, DNNL_ARG_WORKSPACE, forward->workspace);
    }
}

static void backward_pool(struct step *step, const struct layer *layer,
                          const struct forward *forward, void *out_gradient, void *in_gradient)
{
    dnnl_pooling_desc_t operation;
    dnnl_primitive_desc_t descriptor;
    dnnl_dims_t strides = {layer->stride, layer->stride}, pads = {layer->pad, layer->pad};
    dnnl_dims_t kernel = {layer->kernel, layer->kernel};
    check(dnnl_pooling_backward_desc_init(&operation, pool_algorithm(layer), &forward->in,
                                          &forward->out, strides, kernel, pads, pads),
          layer, "bwd");
    struct work *work = add_work(step, layer, PASS_OTHER, "bwd", &operation, false,
                                 forward->descriptor, &descriptor);
    bind(work, DNNL_ARG_DIFF_DST, memory_at(step, &forward->out, out_gradient));
    bind(work, DNNL_ARG_DIFF_SRC, memory_at(step, &forward->in, in_gradient));
    if (layer->kind == LAYER_MAX_POOL)
        bind(work, DNNL_ARG_WORKSPACE, forward->workspace);
    dnnl_primitive_desc_destroy(descriptor);
}

/* ---- the step ---- */

static void create_forward(struct step *step, struct forward *all)
{
    for (int i = 0; i < step->network->layer_count; i++) {
        const struct layer *layer = &step->network->layers[i];
        struct forward *forward = &all[i];
        forward->input_needs_gradient = layer->source != LAYER_IMAGES;
        if (layer->source == LAYER_IMAGES) {
            forward->in_data = slab_take(step, activation_bytes(step->batch, layer->in), 1.0f);
        } else {
            forward->in_data = all[layer->source].out_data;
            forward->in = all[layer->source].out;
        }
        if (layer->kind == LAYER_CONV || layer->kind == LAYER_DENSE)
            forward_weighted(step, layer, forward);
        else if (layer->kind == LAYER_NORM)
            forward_norm(step, layer, forward);
        else
            forward_pool(step, layer, forward);
    }
}

/* Gradients pass through two buffers in turns, as warm or cold in the caches as a real step would
 * find them. The last layer reads one that nothing writes: gradients that came from the step
 * before would shrink to denormals in time. */
static void create_backward(struct step *step, const struct forward *all)
{
    int last = step->network->layer_count - 1;
    void *from = slab_take(step, activation_bytes(step->batch, step->network->layers[last].out), 1);
    int turn = 0;
    for (int i = last; i >= 0; i--) {
        const struct layer *layer = &step->network->layers[i];
        void *to = step->gradient[turn];
        if (layer->relu && layer->kind != LAYER_NORM)
            backward_relu(step, layer, &all[i], from);
        if (layer->kind == LAYER_CONV || layer->kind == LAYER_DENSE)
            backward_weighted(step, layer, &all[i], from, to);
        else if (layer->kind == LAYER_NORM)
            backward_norm(step, layer, &all[i], from, to);
        else
            backward_pool(step, layer, &all[i], from, to);
        from = to;
        turn = !turn;
    }
}

static void create_gradient_buffers(struct step *step)
{
    for (int i = 0; i < step->network->layer_count; i++) {
        const struct layer *layer = &step->network->layers[i];
        size_t in = activation_bytes(step->batch, layer->in);
        size_t out = activation_bytes(step->batch, layer->out);
        size_t larger = in > out ? in : out;
        if (larger > step->gradient_bytes)
            step->gradient_bytes = larger;
    }
    for (int i = 0; i < 2; i++)
        step->gradient[i] = slab_take(step, step->gradient_bytes, 1.0f);
}

static void share_scratch(struct step *step)
{
    size_t most = 0;
    for (int i = 0; i < step->work_count; i++) {
        const dnnl_memory_desc_t *layout;
        check(dnnl_memory_get_memory_desc(step->works[i].scratch, &layout), NULL, "scratchpad");
        size_t bytes = dnnl_memory_desc_get_size(layout);
        if (bytes > most)
            most = bytes;
    }
    void *scratch = slab_take(step, most, 0.0f);
    for (int i = 0; i < step->work_count; i++)
        check(dnnl_memory_set_data_handle(step->works[i].scratch, scratch), NULL, "scratchpad");
}

void step_create(struct step *step, const struct network *network, int batch)
{
    *step = (struct step){.network = network, .batch = batch};
    check(dnnl_engine_create(&step->engine, dnnl_cpu, 0), NULL, "create engine");
    check(dnnl_stream_create(&step->stream, step->engine, dnnl_stream_default_flags), NULL,
          "create stream");
    size_t layers = (size_t)network->layer_count;
    step->works = calloc(layers * MAX_WORKS_PER_LAYER, sizeof *step->works);
    step->memories = calloc(layers * MAX_WORKS_PER_LAYER * WORK_MAX_ARGS, sizeof(dnnl_memory_t));
    struct forward *forward = calloc(layers, sizeof *forward);
    if (!step->works || !step->memories || !forward) {
        perror("primitives: allocate");
        exit(1);
    }
    slab_reserve(step);
    create_gradient_buffers(step);
    create_forward(step, forward);
    create_backward(step, forward);
    share_scratch(step);
    for (size_t i = 0; i < layers; i++)
        dnnl_primitive_desc_destroy(forward[i].descriptor);
    free(forward);
}

void step_destroy(struct step *step)
{
    for (int i = 0; i < step->work_count; i++)
        dnnl_primitive_destroy(step->works[i].primitive);
    for (int i = 0; i < step->memory_count; i++)
        dnnl_memory_destroy(step->memories[i]);
    dnnl_stream_destroy(step->stream);
    dnnl_engine_destroy(step->engine);
    munmap(step->slab, step->slab_bytes);
    free(step->memories);
    free(step->works);
}

void step_run(const struct step *step, const struct work *work)
{
    check(dnnl_primitive_execute(work->primitive, step->stream, work->arg_count, work->args),
          work->layer, work->verb);
    check(dnnl_stream_wait(step->stream), work->layer, work->verb);
}

size_t step_odd_numbers(const struct step *step)
{
    size_t odd = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < step->gradient_bytes / sizeof(float); i++) {
            int class = fpclassify(step->gradient[turn][i]);
            odd += class == FP_NAN || class == FP_INFINITE || class == FP_SUBNORMAL;
        }
    }
    return odd;
}
