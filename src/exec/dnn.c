/* oneDNN 2.6 behind exec/dnn.h. Scratch memory is always the caller's (user mode): in the default
 * mode a primitive may only run on the thread that made it. */
#include "exec/dnn.h"

#include <assert.h>
#ifdef _OPENMP /* the fuzzers are built without */
#include <omp.h>
#endif
#include <pthread.h>

#include "base/error.h"
#include "base/memory.h"
#include "exec/dnn_internal.h"

struct dnn_primitive {
    dnnl_primitive_t handle;
    dnnl_primitive_desc_t description;
};

struct dnn_call {
    dnnl_primitive_t handle; /* borrowed */
    int count;
    dnnl_exec_arg_t args[];
};

/* --- The engine: stateless on CPUs, so the process has one --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void open_engine(void)
{
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)
        engine = NULL;
}

static dnnl_engine_t the_engine(void)
{
    pthread_once(&once, open_engine);
    return engine;
}

static int fail(struct error *err, dnnl_status_t status, const char *what)
{
    const char *reason = status == dnnl_unimplemented       ? "not implemented for these shapes"
                         : status == dnnl_invalid_arguments ? "invalid arguments"
                         : status == dnnl_out_of_memory     ? "out of memory"
                                                            : "runtime error";
    return error_set(err, ERROR_KERNEL, "oneDNN refused the %s: %s", what, reason);
}

const char *dnn_version(void)
{
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
    return text;
}

const char *dnn_instruction_set(void)
{
#if defined(__x86_64__)
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    if (isa >= dnnl_cpu_isa_avx512_core)
        return isa >= dnnl_cpu_isa_avx512_core_amx ? "avx512_core_amx" : "avx512_core";
    return isa >= dnnl_cpu_isa_avx2 ? "avx2" : isa >= dnnl_cpu_isa_avx ? "avx" : "sse41";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "portable";
#endif
}

void dnn_set_threads(int threads)
{
#ifdef _OPENMP
    omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}

void dnn_forget_primitives(void)
{
    int capacity;
    if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success)
        return;
    dnnl_set_primitive_cache_capacity(0);
    dnnl_set_primitive_cache_capacity(capacity);
}

/* --- Making primitives --- */

static int finish(dnnl_primitive_desc_t description, const char *what, struct dnn_primitive **out,
                  struct error *err)
{
    struct dnn_primitive *primitive = memory_allocate(sizeof *primitive);
    if (!primitive) {
        dnnl_primitive_desc_destroy(description);
        return error_set(err, ERROR_MEMORY, "no memory for a %s", what);
    }
    primitive->description = description;
    dnnl_status_t status = dnnl_primitive_create(&primitive->handle, description);
    if (status != dnnl_success) {
        primitive->handle = NULL;
        dnn_primitive_destroy(primitive);
        return fail(err, status, what);
    }
    *out = primitive;
    return 0;
}

static dnnl_primitive_attr_t make_attributes(bool sum, bool relu)
{
    dnnl_primitive_attr_t attributes = NULL;
    if (dnnl_primitive_attr_create(&attributes) != dnnl_success)
        return NULL;
    dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    dnnl_post_ops_t post = NULL;
    if ((sum || relu) && dnnl_post_ops_create(&post) == dnnl_success) {
        if (sum)
            dnnl_post_ops_append_sum(post, 1.0f);
        if (relu)
            dnnl_post_ops_append_eltwise(post, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
        dnnl_primitive_attr_set_post_ops(attributes, post);
        dnnl_post_ops_destroy(post);
    }
    return attributes;
}

static int create(const_dnnl_op_desc_t operation, bool sum, bool relu,
                  const struct dnn_primitive *hint, const char *what, struct dnn_primitive **out,
                  struct error *err)
{
    dnnl_engine_t cpu = the_engine();
    if (!cpu)
        return error_set(err, ERROR_KERNEL, "oneDNN has no CPU engine here");
    dnnl_primitive_attr_t attributes = make_attributes(sum, relu);
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = dnnl_primitive_desc_create(&description, operation, attributes, cpu,
                                                      hint ? hint->description : NULL);
    dnnl_primitive_attr_destroy(attributes);
    if (status != dnnl_success)
        return fail(err, status, what);
    return finish(description, what, out, err);
}

struct conv_parts {
    struct layout src, weights, bias, dst;
    dnnl_dims_t strides, dilates, pad_before, pad_after;
};

static struct conv_parts conv_parts(const struct dnn_conv *conv)
{
    struct shape weights = conv->weights;
    if (conv->groups > 1)
        weights =
            (struct shape){5,
                           {conv->groups, conv->weights.dim[0] / conv->groups, conv->weights.dim[1],
                            conv->weights.dim[2], conv->weights.dim[3]}};
    struct shape bias = {1, {conv->weights.dim[0]}};
    return (struct conv_parts){
        .src = layout_any(&conv->src),
        .weights = layout_any(&weights),
        .bias = layout_plain(&bias),
        .dst = layout_any(&conv->dst),
        .strides = {conv->stride[0], conv->stride[1]},
        .dilates = {conv->dilation[0] - 1, conv->dilation[1] - 1},
        .pad_before = {conv->pad_before[0], conv->pad_before[1]},
        .pad_after = {conv->pad_after[0], conv->pad_after[1]},
    };
}

int dnn_conv_forward(const struct dnn_conv *conv, bool training, struct dnn_primitive **out,
                     struct error *err)
{
    struct conv_parts p = conv_parts(conv);
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &operation, training ? dnnl_forward_training : dnnl_forward_inference,
        dnnl_convolution_direct, desc(&p.src), desc(&p.weights), conv->bias ? desc(&p.bias) : NULL,
        desc(&p.dst), p.strides, p.dilates, p.pad_before, p.pad_after);
    if (status != dnnl_success)
        return fail(err, status, "convolution");
    return create(&operation, conv->sum, conv->relu, NULL, "convolution", out, err);
}

int dnn_conv_backward_data(const struct dnn_conv *conv, const struct dnn_primitive *forward,
                           struct dnn_primitive **out, struct error *err)
{
    struct conv_parts p = conv_parts(conv);
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &operation, dnnl_convolution_direct, desc(&p.src), desc(&p.weights), desc(&p.dst),
        p.strides, p.dilates, p.pad_before, p.pad_after);
    if (status != dnnl_success)
        return fail(err, status, "convolution's data gradient");
    return create(&operation, false, false, forward, "convolution's data gradient", out, err);
}

int dnn_conv_backward_weights(const struct dnn_conv *conv, const struct dnn_primitive *forward,
                              struct dnn_primitive **out, struct error *err)
{
    struct conv_parts p = conv_parts(conv);
    dnnl_convolution_desc_t operation;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &operation, dnnl_convolution_direct, desc(&p.src), desc(&p.weights),
        conv->bias ? desc(&p.bias) : NULL, desc(&p.dst), p.strides, p.dilates, p.pad_before,
        p.pad_after);
    if (status != dnnl_success)
        return fail(err, status, "convolution's weight gradient");
    return create(&operation, false, false, forward, "convolution's weight gradient", out, err);
}

struct dense_parts {
    struct layout src, weights, bias, dst;
};

static struct dense_parts dense_parts(const struct dnn_dense *dense)
{
    struct shape weights = layout_shape(dense->src);
    struct shape bias = {1, {dense->units}};
    struct shape dst = {2, {weights.dim[0], dense->units}};
    weights.dim[0] = dense->units;
    return (struct dense_parts){.src = *dense->src,
                                .weights = layout_any(&weights),
                                .bias = layout_plain(&bias),
                                .dst = layout_plain(&dst)};
}

static int create_dense(const struct dnn_dense *dense, struct dense_parts *p, bool training,
                        struct dnn_primitive **out, struct error *err)
{
    dnnl_inner_product_desc_t operation;
    dnnl_status_t status = dnnl_inner_product_forward_desc_init(
        &operation, training ? dnnl_forward_training : dnnl_forward_inference, desc(&p->src),
        desc(&p->weights), dense->bias ? desc(&p->bias) : NULL, desc(&p->dst));
    if (status != dnnl_success)
        return fail(err, status, "dense layer");
    return create(&operation, false, dense->relu, NULL, "dense layer", out, err);
}

/* For one row alone oneDNN would have the weights lie in another order than for several, and a server
 * keep them twice: its plans of all sizes share what lies alike. */
static int take_order_of_many(const struct dnn_dense *dense, struct dense_parts *p,
                              struct error *err)
{
    struct dense_parts many = *p;
    struct shape dst = {2, {2, dense->units}};
    struct dnn_primitive *primitive;
    desc(&many.src)->dims[0] = desc(&many.src)->padded_dims[0] = dst.dim[0];
    many.dst = layout_plain(&dst);
    if (create_dense(dense, &many, false, &primitive, err) < 0)
        return -1;
    p->weights = dnn_layout(primitive, DNN_WEIGHTS);
    dnn_primitive_destroy(primitive);
    return 0;
}

int dnn_dense_forward(const struct dnn_dense *dense, bool training, struct dnn_primitive **out,
                      struct error *err)
{
    struct dense_parts p = dense_parts(dense);
    bool single = layout_shape(dense->src).dim[0] == 1;
    if (dense->as_for_many && single && take_order_of_many(dense, &p, err) < 0)
        return -1;
    return create_dense(dense, &p, training, out, err);
}

int dnn_dense_backward_data(const struct dnn_dense *dense, const struct dnn_primitive *forward,
                            struct dnn_primitive **out, struct error *err)
{
    /* Weights as forward has them: a product can read them either way, and moving the 400 MB of
     * VGG16's first dense layer in every step would cost more than the product. */
    struct dense_parts p = dense_parts(dense);
    p.weights = dnn_layout(forward, DNN_WEIGHTS);
    dnnl_inner_product_desc_t operation;
    dnnl_status_t status = dnnl_inner_product_backward_data_desc_init(
        &operation, desc(&p.src), desc(&p.weights), desc(&p.dst));
    if (status != dnnl_success)
        return fail(err, status, "dense layer's data gradient");
    return create(&operation, false, false, forward, "dense layer's data gradient", out, err);
}

int dnn_dense_backward_weights(const struct dnn_dense *dense, const struct dnn_primitive *forward,
                               struct dnn_primitive **out, struct error *err)
{
    struct dense_parts p = dense_parts(dense);
    p.weights = dnn_layout(forward, DNN_WEIGHTS);
    dnnl_inner_product_desc_t operation;
    dnnl_status_t status = dnnl_inner_product_backward_weights_desc_init(
        &operation, desc(&p.src), desc(&p.weights), dense->bias ? desc(&p.bias) : NULL,
        desc(&p.dst));
    if (status != dnnl_success)
        return fail(err, status, "dense layer's weight gradient");
    return create(&operation, false, false, forward, "dense layer's weight gradient", out, err);
}

struct pool_parts {
    struct layout dst;
    dnnl_dims_t strides, kernel, dilation, pad_before, pad_after;
    dnnl_alg_kind_t algorithm;
};

static struct pool_parts pool_parts(const struct dnn_pool *pool)
{
    return (struct pool_parts){
        .dst = layout_any(&pool->dst),
        .strides = {pool->stride[0], pool->stride[1]},
        .kernel = {pool->kernel[0], pool->kernel[1]},
        .pad_before = {pool->pad_before[0], pool->pad_before[1]},
        .pad_after = {pool->pad_after[0], pool->pad_after[1]},
        .algorithm = pool->max             ? dnnl_pooling_max
                     : pool->count_padding ? dnnl_pooling_avg_include_padding
                                           : dnnl_pooling_avg_exclude_padding,
    };
}

int dnn_pool_forward(const struct dnn_pool *pool, bool training, struct dnn_primitive **out,
                     struct error *err)
{
    struct pool_parts p = pool_parts(pool);
    dnnl_pooling_v2_desc_t operation;
    dnnl_status_t status = dnnl_pooling_v2_forward_desc_init(
        &operation, training ? dnnl_forward_training : dnnl_forward_inference, p.algorithm,
        const_desc(pool->src), desc(&p.dst), p.strides, p.kernel, p.dilation, p.pad_before,
        p.pad_after);
    if (status != dnnl_success)
        return fail(err, status, "pooling");
    return create(&operation, false, false, NULL, "pooling", out, err);
}

int dnn_pool_backward(const struct dnn_pool *pool, const struct dnn_primitive *forward,
                      struct dnn_primitive **out, struct error *err)
{
    struct pool_parts p = pool_parts(pool);
    struct layout dst = dnn_layout(forward, DNN_DST);
    dnnl_pooling_v2_desc_t operation;
    dnnl_status_t status = dnnl_pooling_v2_backward_desc_init(
        &operation, p.algorithm, const_desc(pool->src), desc(&dst), p.strides, p.kernel, p.dilation,
        p.pad_before, p.pad_after);
    if (status != dnnl_success)
        return fail(err, status, "pooling's gradient");
    return create(&operation, false, false, forward, "pooling's gradient", out, err);
}

int dnn_concat(const struct layout *const *sources, int count, struct dnn_primitive **out,
               struct error *err)
{
    dnnl_engine_t cpu = the_engine();
    dnnl_memory_desc_t *descriptions = memory_allocate(sizeof *descriptions * (size_t)count);
    if (!descriptions || !cpu) {
        memory_free(descriptions);
        return error_set(err, ERROR_MEMORY, "no memory for a concatenation");
    }
    for (int i = 0; i < count; i++)
        descriptions[i] = *const_desc(sources[i]);
    dnnl_primitive_attr_t attributes = make_attributes(false, false);
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = dnnl_concat_primitive_desc_create(&description, NULL, count, 1,
                                                             descriptions, attributes, cpu);
    dnnl_primitive_attr_destroy(attributes);
    memory_free(descriptions);
    if (status != dnnl_success)
        return fail(err, status, "concatenation");
    return finish(description, "concatenation", out, err);
}

static int reorder_between(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                           struct dnn_primitive **out, struct error *err)
{
    dnnl_engine_t cpu = the_engine();
    if (!cpu)
        return error_set(err, ERROR_KERNEL, "oneDNN has no CPU engine here");
    dnnl_primitive_attr_t attributes = make_attributes(false, false);
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&description, from, cpu, to, cpu, attributes);
    dnnl_primitive_attr_destroy(attributes);
    if (status != dnnl_success)
        return fail(err, status, "reorder");
    return finish(description, "reorder", out, err);
}

int dnn_slice(const struct layout *whole, int64_t first, const struct layout *part,
              struct dnn_primitive **out, struct error *err)
{
    dnnl_dims_t offsets = {0, first};
    dnnl_memory_desc_t sub;
    dnnl_status_t status =
        dnnl_memory_desc_init_submemory(&sub, const_desc(whole), const_desc(part)->dims, offsets);
    if (status != dnnl_success)
        return fail(err, status, "slice");
    return reorder_between(&sub, const_desc(part), out, err);
}

int dnn_reorder(const struct layout *from, const struct layout *to, struct dnn_primitive **out,
                struct error *err)
{
    return reorder_between(const_desc(from), const_desc(to), out, err);
}

void dnn_primitive_destroy(struct dnn_primitive *primitive)
{
    if (!primitive)
        return;
    if (primitive->handle)
        dnnl_primitive_destroy(primitive->handle);
    dnnl_primitive_desc_destroy(primitive->description);
    memory_free(primitive);
}

/* --- Asking and running them --- */

static int argument_number(enum dnn_argument argument)
{
    static const int numbers[] = {
        [DNN_SRC] = DNNL_ARG_SRC,
        [DNN_WEIGHTS] = DNNL_ARG_WEIGHTS,
        [DNN_BIAS] = DNNL_ARG_BIAS,
        [DNN_DST] = DNNL_ARG_DST,
        [DNN_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
        [DNN_DIFF_WEIGHTS] = DNNL_ARG_DIFF_WEIGHTS,
        [DNN_DIFF_BIAS] = DNNL_ARG_DIFF_BIAS,
        [DNN_DIFF_DST] = DNNL_ARG_DIFF_DST,
        [DNN_WORKSPACE] = DNNL_ARG_WORKSPACE,
        [DNN_SCRATCHPAD] = DNNL_ARG_SCRATCHPAD,
        [DNN_FROM] = DNNL_ARG_FROM,
        [DNN_TO] = DNNL_ARG_TO,
    };
    if (argument >= DNN_MULTIPLE_SRC)
        return DNNL_ARG_MULTIPLE_SRC + (int)(argument - DNN_MULTIPLE_SRC);
    return numbers[argument];
}

static const dnnl_memory_desc_t *argument_desc(const struct dnn_primitive *primitive,
                                               enum dnn_argument argument)
{
    return dnnl_primitive_desc_query_md(primitive->description, dnnl_query_exec_arg_md,
                                        argument_number(argument));
}

/* Is it row-major but for the strides of dimensions of one element, which mean nothing? */
static bool is_nearly_plain(const dnnl_memory_desc_t *d)
{
    dnnl_dim_t stride = 1;
    if (d->format_kind != dnnl_blocked || d->format_desc.blocking.inner_nblks)
        return false;
    for (int i = d->ndims - 1; i >= 0; i--) {
        if (d->dims[i] != 1 && d->format_desc.blocking.strides[i] != stride)
            return false;
        stride *= d->dims[i];
    }
    return true;
}

/* Some kernels refuse, only when they run, what others leave as the stride of a dimension of one
 * element: give row-major tensors the strides everybody takes. */
struct layout dnn_layout(const struct dnn_primitive *primitive, enum dnn_argument argument)
{
    const dnnl_memory_desc_t *d = argument_desc(primitive, argument);
    struct layout layout = from_desc(d);
    if (!d || d->ndims == 0 || d->ndims > TENSOR_MAX_DIMS || d->data_type != dnnl_f32 ||
        d->offset0 != 0 || !is_nearly_plain(d))
        return layout;
    struct shape shape = layout_shape(&layout);
    return layout_plain(&shape);
}

size_t dnn_scratch_bytes(const struct dnn_primitive *primitive)
{
    struct layout scratch = dnn_layout(primitive, DNN_SCRATCHPAD);
    return layout_bytes(&scratch);
}

const char *dnn_kernel(const struct dnn_primitive *primitive)
{
    const char *name = NULL;
    dnnl_primitive_desc_query(primitive->description, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "?";
}

int dnn_call_create(struct dnn_primitive *primitive, int count, const enum dnn_argument *arguments,
                    struct dnn_call **out, struct error *err)
{
    struct dnn_call *call = memory_allocate(sizeof *call + sizeof(dnnl_exec_arg_t) * (size_t)count);
    if (!call)
        return error_set(err, ERROR_MEMORY, "no memory for a call");
    call->handle = primitive->handle;
    for (int i = 0; i < count; i++) {
        dnnl_memory_t memory = NULL;
        dnnl_status_t status = dnnl_memory_create(&memory, argument_desc(primitive, arguments[i]),
                                                  the_engine(), DNNL_MEMORY_NONE);
        if (status != dnnl_success) {
            dnn_call_destroy(call);
            return fail(err, status, "memory");
        }
        call->args[call->count++] = (dnnl_exec_arg_t){argument_number(arguments[i]), memory};
    }
    *out = call;
    return 0;
}

void dnn_call_destroy(struct dnn_call *call)
{
    if (!call)
        return;
    for (int i = 0; i < call->count; i++)
        dnnl_memory_destroy(call->args[i].memory);
    memory_free(call);
}

void dnn_call_bind(struct dnn_call *call, int index, void *memory)
{
    dnnl_memory_set_data_handle(call->args[index].memory, memory);
}

void dnn_call_run(const struct dnn_call *call)
{
    dnnl_status_t status = dnnl_primitive_execute(call->handle, stream, call->count, call->args);
    if (status != dnnl_success)
        abort(); /* wrong numbers would be worse */
}

int dnn_reorder_now(const struct layout *from_layout, const void *from,
                    const struct layout *to_layout, void *to, struct error *err)
{
    if (layout_equal(from_layout, to_layout)) {
        memcpy(to, from, layout_bytes(to_layout));
        return 0;
    }
    static const enum dnn_argument arguments[] = {DNN_FROM, DNN_TO, DNN_SCRATCHPAD};
    struct dnn_primitive *primitive = NULL;
    struct dnn_call *call = NULL;
    void *scratch = NULL;
    int status = dnn_reorder(from_layout, to_layout, &primitive, err);
    if (status == 0 && dnn_scratch_bytes(primitive)) {
        scratch = memory_allocate(dnn_scratch_bytes(primitive));
        status = scratch ? 0 : error_set(err, ERROR_MEMORY, "no memory to move weights");
    }
    if (status == 0)
        status = dnn_call_create(primitive, scratch ? 3 : 2, arguments, &call, err);
    if (status == 0) {
        dnn_call_bind(call, 0, (void *)from);
        dnn_call_bind(call, 1, to);
        if (scratch)
            dnn_call_bind(call, 2, scratch);
        dnn_call_run(call);
    }
    dnn_call_destroy(call);
    dnn_primitive_destroy(primitive);
    memory_free(scratch);
    return status;
}
