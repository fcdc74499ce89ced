#include "exec/plan.h"

#include <assert.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "exec/elementwise.h"
#include "exec/plan_internal.h"
#include "tensor/random.h"

/* --- Making one --- */

static int list_outputs(struct plan *plan, struct error *err)
{
    int count = graph_output_count(plan->graph);
    value_id loss = plan->options.mode == PLAN_SERVE ? -1 : graph_loss_value(plan->graph);
    plan->outputs = ARENA_ARRAY(plan->arena, value_id, count + 1);
    plan->output_names = ARENA_ARRAY(plan->arena, const char *, count + 1);
    plan->output_buffers = ARENA_ARRAY(plan->arena, buffer_id, count + 1);
    if (!plan->outputs || !plan->output_names || !plan->output_buffers)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    for (int i = 0; i < count; i++) {
        plan->outputs[i] = graph_output_value(plan->graph, i);
        plan->output_names[i] = graph_output_name(plan->graph, i);
    }
    plan->output_count = count;
    if (loss >= 0) {
        plan->outputs[count] = loss;
        plan->output_names[count] = "loss";
        plan->output_count++;
    }
    if (plan->output_count == 0)
        return error_set(err, ERROR_FORMAT, "the graph has no output to compute");
    return 0;
}

static int list_inputs(struct plan *plan, struct error *err)
{
    int count = graph_input_count(plan->graph);
    plan->inputs = ARENA_ARRAY(plan->arena, value_id, count + 1);
    plan->input_buffers = ARENA_ARRAY(plan->arena, buffer_id, count + 1);
    plan->input_gradients = ARENA_ARRAY(plan->arena, buffer_id, count + 1);
    if (!plan->inputs || !plan->input_buffers || !plan->input_gradients)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    for (int i = 0; i < count; i++) {
        value_id input = graph_input_value(plan->graph, i);
        if (plan->values[input].consumers > 0)
            plan->inputs[plan->input_count++] = input;
    }
    return 0;
}

float *plan_gradients(const struct plan *plan)
{
    return plan->gradients ? plan->gradients : params_gradients(plan->params);
}

void plan_set_gradients(struct plan *plan, float *gradients)
{
    plan->gradients = gradients;
}

static void *weight_pointer(struct params *params, int index)
{
    struct param_range range = params_range(params, index);
    float *base =
        range.flags & PARAM_STATISTIC ? params_statistics(params) : params_weights(params);
    return base + range.first;
}

static void locate_buffers(struct plan *plan)
{
    size_t copied = 0;
    for (int i = 0; i < plan->buffer_count; i++) {
        struct buffer *buffer = &plan->buffers[i];
        switch (buffer->kind) {
        case BUFFER_SLAB:
            buffer->pointer = (char *)plan->slab.data + buffer->offset;
            break;
        case BUFFER_INPUT:
            break;
        case BUFFER_WEIGHT:
            buffer->pointer = weight_pointer(plan->params, buffer->index);
            break;
        case BUFFER_GRADIENT:
            buffer->pointer =
                plan_gradients(plan) + params_range(plan->params, buffer->index).first;
            break;
        case BUFFER_COPY:
            if (buffer->borrowed) {
                buffer->pointer = buffer->borrowed;
                break;
            }
            buffer->pointer = (char *)plan->copies_slab.data + copied;
            copied += (buffer->bytes + 63) & ~(size_t)63;
            break;
        }
    }
    plan->bound_weights = params_weights(plan->params);
    plan->bound_gradients = plan_gradients(plan);
}

static void *bound_pointer(const struct plan *plan, const struct step *step, int role)
{
    for (int b = 0; b < step->bound_count; b++)
        if (step->bounds[b].role == role)
            return plan->buffers[step->bounds[b].buffer].pointer;
    return NULL;
}

static void bind_calls(struct plan *plan, struct step *step)
{
    const struct item *item = step->item;
    for (int c = 0; c < item->call_count; c++) {
        const struct bound_call *bound = &item->calls[c];
        if (bound->pass != step->pass)
            continue;
        for (int i = 0; i < bound->count; i++)
            dnn_call_bind(bound->call, i, bound_pointer(plan, step, bound->roles[i]));
    }
}

static void bind_kernel(struct plan *plan, struct step *step)
{
    struct op_run *run = &step->run;
    int inputs = step->item->node.input_count + 1;
    int gradients = 0;
    for (int b = 0; b < step->bound_count; b++) {
        int role = step->bounds[b].role;
        void *pointer = plan->buffers[step->bounds[b].buffer].pointer;
        if (role < inputs)
            ((float **)run->inputs)[role] = pointer;
        else if (role >= ROLE_GRADIENT_OF_INPUT && role < ROLE_GRADIENT_OF_INPUT + inputs)
            ((float **)run->input_gradients)[role - ROLE_GRADIENT_OF_INPUT] = pointer;
        else if (role == ROLE_OUTPUT)
            run->output = pointer;
        else if (role == ROLE_GRADIENT)
            run->gradients[gradients++] = pointer;
        else if (role == ROLE_WORKSPACE)
            run->workspace = pointer;
        else if (role == ROLE_KEPT)
            run->kept = pointer;
        else if (role == ROLE_SCRATCH)
            run->scratch = pointer;
    }
    bind_calls(plan, step);
}

static void bind_step(struct plan *plan, struct step *step)
{
    if (step->kind == STEP_KERNEL)
        bind_kernel(plan, step);
    else if (step->kind == STEP_REORDER)
        for (int b = 0; b < step->bound_count; b++)
            dnn_call_bind(step->call, b, plan->buffers[step->bounds[b].buffer].pointer);
}

static bool reads_input(const struct plan *plan, const struct step *step)
{
    for (int b = 0; b < step->bound_count; b++)
        if (plan->buffers[step->bounds[b].buffer].kind == BUFFER_INPUT)
            return true;
    return false;
}

/* Where `beside` has the same parameter, folded and laid out the same; NULL: nowhere. */
static void *find_copy(const struct plan *beside, const struct weight_copy *wanted)
{
    for (int i = 0; i < beside->copy_count; i++) {
        const struct weight_copy *copy = &beside->copies[i];
        if (copy->item->node.node == wanted->item->node.node && copy->input == wanted->input &&
            copy->item->node.folded == wanted->item->node.folded &&
            layout_equal(copy->layout, wanted->layout))
            return beside->buffers[copy->buffer].pointer;
    }
    return NULL;
}

static int take_activations(struct plan *plan, struct error *err)
{
    const struct plan *beside = plan->options.beside;
    size_t bytes = plan->slab_bytes ? plan->slab_bytes : 64;
    if (beside && !plan->options.beside_runs && beside->slab.bytes >= bytes) {
        plan->slab = beside->slab;
        plan->borrows_slab = true;
        return 0;
    }
    if (slab_create(bytes, "activations", &plan->slab, err) < 0)
        return error_wrap(err, "a batch of %d is too large, use a smaller one",
                          plan->options.batch);
    return 0;
}

static int take_memory(struct plan *plan, struct error *err)
{
    const struct plan *beside = plan->options.beside;
    size_t copies = 0;
    for (int i = 0; i < plan->copy_count; i++) {
        struct buffer *buffer = &plan->buffers[plan->copies[i].buffer];
        buffer->borrowed = beside ? find_copy(beside, &plan->copies[i]) : NULL;
        if (!buffer->borrowed)
            copies += (buffer->bytes + 63) & ~(size_t)63;
    }
    if (take_activations(plan, err) < 0)
        return -1;
    if (copies && slab_create(copies, "folded weights", &plan->copies_slab, err) < 0)
        return -1;
    if (plan->options.mode == PLAN_TRAIN)
        slab_touch(&plan->slab);
    locate_buffers(plan);
    for (int s = 0; s < plan->step_count; s++)
        if (!reads_input(plan, &plan->steps[s]))
            bind_step(plan, &plan->steps[s]);
    return 0;
}

static int fill_plan(struct plan *plan, struct error *err)
{
    if (list_outputs(plan, err) < 0 || plan_select_items(plan, err) < 0 ||
        list_inputs(plan, err) < 0 || plan_build_steps(plan, err) < 0 ||
        params_fix(plan->params, plan->options.mode == PLAN_TRAIN, err) < 0 ||
        plan_place_buffers(plan, err) < 0)
        return -1;
    if (plan->options.mode == PLAN_TRAIN && plan_make_buckets(plan, err) < 0)
        return -1;
    if (take_memory(plan, err) < 0)
        return -1;
    return plan->options.mode == PLAN_SERVE ? plan_fill_copies(plan, err) : 0;
}

static double count_flops(const struct graph *graph, int batch)
{
    double flops = 0;
    for (int n = 0; n < graph_node_count(graph); n++) {
        const struct node *node = graph_node_at(graph, n);
        if (node->op->flops)
            flops += node->op->flops(graph, node) * batch;
    }
    return flops;
}

/* Threads that meet after every operation cost about what they save when there is little to compute:
 * a row of Wide & Deep takes half as long on one thread as on two. And while they wait they spin, where
 * the threads that read requests want the cores. By shapes alone, so that an answer has the same bits
 * on every run. */
static int worthwhile_threads(const struct graph *graph, const struct plan_options *options)
{
    double share = count_flops(graph, options->batch) / PLAN_THREAD_FLOPS;
    return share < 1 ? 1 : share < options->threads ? (int)share : options->threads;
}

int plan_create(const struct graph *graph, struct params *params,
                const struct plan_options *options, struct plan **out, struct error *err)
{
    if (options->batch < 1)
        return error_set(err, ERROR_USAGE, "a batch of %d examples; at least 1", options->batch);
    struct plan *plan = memory_allocate(sizeof *plan);
    if (!plan)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    plan->graph = graph;
    plan->params = params;
    plan->options = *options;
    plan->profiling = options->profile;
    if (plan->options.threads < 1)
        plan->options.threads = threads_available();
    if (options->mode == PLAN_SERVE)
        plan->options.threads = worthwhile_threads(graph, &plan->options);
    plan->loss_scale = 1;
    plan->arena = arena_create();
    if (plan->arena)
        plan->values = ARENA_ARRAY(plan->arena, struct plan_value, graph_value_count(graph));
    dnn_set_threads(plan->options.threads);
    int status =
        plan->values ? fill_plan(plan, err) : error_set(err, ERROR_MEMORY, "no memory for a plan");
    if (status == 0)
        *out = plan;
    else
        plan_destroy(plan);
    return status;
}

void plans_forget(void)
{
    dnn_forget_primitives();
}

void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->call_count; i++)
        dnn_call_destroy(plan->calls[i]);
    for (int i = 0; i < plan->primitive_count; i++)
        dnn_primitive_destroy(plan->primitives[i]);
    memory_free(plan->calls);
    memory_free(plan->primitives);
    memory_free(plan->steps);
    memory_free(plan->buffers);
    memory_free(plan->copies);
    memory_free(plan->sparse);
    if (!plan->borrows_slab)
        slab_release(&plan->slab);
    slab_release(&plan->copies_slab);
    arena_destroy(plan->arena);
    memory_free(plan);
}

/* --- Running it --- */

static void copy_floats(float *to, const float *from, size_t count)
{
#pragma omp parallel for schedule(static) if (count > ELEMENTWISE_PIECE)
    for (size_t at = 0; at < count; at += ELEMENTWISE_PIECE) {
        size_t length = count - at < ELEMENTWISE_PIECE ? count - at : ELEMENTWISE_PIECE;
        memcpy(to + at, from + at, length * sizeof(float));
    }
}

static void run_combination(struct plan *plan, const struct step *step)
{
    float *sources[OP_MAX_GRADIENTS];
    for (int i = 0; i < step->sources; i++)
        sources[i] = plan->buffers[step->bounds[i].buffer].pointer;
    float *target = plan->buffers[step->bounds[step->bound_count - 1].buffer].pointer;
    if (step->kind == STEP_SUM)
        elementwise_sum(target, sources, step->sources, step->count);
    else
        elementwise_relu_gradient(target, sources, step->sources,
                                  plan->buffers[step->bounds[step->sources].buffer].pointer,
                                  step->count);
}

static void run_step(struct plan *plan, struct step *step)
{
    switch (step->kind) {
    case STEP_KERNEL:
        step->run.random = random_key(random_key(plan->random_seed, plan->random_step),
                                      (uint64_t)step->item->node.node->index);
        step->item->node.kernel->pass[step->pass](&step->run);
        break;
    case STEP_REORDER:
        dnn_call_run(step->call);
        break;
    case STEP_SUM:
    case STEP_MASK:
        run_combination(plan, step);
        break;
    case STEP_SEED:
        elementwise_fill(plan->buffers[step->bounds[0].buffer].pointer, plan->loss_scale,
                         step->count);
        break;
    case STEP_COPY:
        copy_floats(plan->buffers[step->bounds[1].buffer].pointer,
                    plan->buffers[step->bounds[0].buffer].pointer, step->count);
        break;
    }
}

void plan_set_stop(struct plan *plan, const atomic_int *stop)
{
    plan->stop = stop;
}

static bool stopped(const struct plan *plan)
{
    return plan->stop && atomic_load_explicit(plan->stop, memory_order_relaxed);
}

static void run_steps(struct plan *plan, int first, int end, plan_bucket_fn *on_bucket,
                      void *context)
{
    for (int s = first; s < end && !stopped(plan); s++) {
        struct step *step = &plan->steps[s];
        if (plan->profiling) {
            step->start = clock_seconds();
            run_step(plan, step);
            step->end = clock_seconds();
            step->seconds += step->end - step->start;
        } else {
            run_step(plan, step);
        }
        for (int b = step->bucket_first; on_bucket && b < step->bucket_end; b++)
            on_bucket(context, b, plan_gradients(plan) + plan->buckets[b].first,
                      plan->buckets[b].count);
    }
}

/* The caller's tensors may lie elsewhere each time, gradients too; an agent may have given params
 * other memory. */
static void bind_changes(struct plan *plan, const struct tensor *inputs)
{
    bool params_moved = plan->bound_weights != params_weights(plan->params) ||
                        plan->bound_gradients != plan_gradients(plan);
    bool inputs_moved = false;
    for (int i = 0; i < plan->input_count; i++) {
        struct buffer *buffer = &plan->buffers[plan->input_buffers[i]];
        inputs_moved |= buffer->pointer != inputs[i].data;
        buffer->pointer = inputs[i].data;
    }
    if (params_moved)
        locate_buffers(plan);
    if (!params_moved && !inputs_moved)
        return;
    for (int s = 0; s < plan->step_count; s++)
        if (params_moved || reads_input(plan, &plan->steps[s]))
            bind_step(plan, &plan->steps[s]);
}

static void start_run(struct plan *plan, const struct tensor *inputs)
{
    for (int i = 0; i < plan->input_count; i++)
        assert(tensor_bytes(&inputs[i]) == plan->buffers[plan->input_buffers[i]].bytes);
    dnn_set_threads(plan->options.threads);
    bind_changes(plan, inputs);
}

/* The first run also touches every page for the first time: where there is a second, the profile
 * begins with it. */
static void forget_first_run(struct plan *plan)
{
    if (plan->warm || plan->profiled_runs == 0)
        return;
    plan->warm = true;
    plan->profiled_runs = 0;
    for (int s = 0; s < plan->step_count; s++)
        plan->steps[s].seconds = 0;
}

static struct tensor output_tensor(const struct plan *plan, int index)
{
    const struct value *value = graph_value(plan->graph, plan->outputs[index]);
    return (struct tensor){.dtype = DTYPE_F32,
                           .shape = shape_with_batch(value->shape, plan->options.batch),
                           .data = plan->buffers[plan->output_buffers[index]].pointer};
}

void plan_forward(struct plan *plan, const struct tensor *inputs, struct tensor *outputs)
{
    start_run(plan, inputs);
    forget_first_run(plan);
    run_steps(plan, 0, plan->forward_steps, NULL, NULL);
    if (plan->profiling)
        plan->profiled_runs++;
    for (int i = 0; outputs && i < plan->output_count; i++)
        outputs[i] = output_tensor(plan, i);
}

void plan_backward(struct plan *plan, float scale, plan_bucket_fn *on_bucket, void *context)
{
    assert(plan->options.mode == PLAN_TRAIN);
    plan->loss_scale = scale;
    dnn_set_threads(plan->options.threads);
    run_steps(plan, plan->forward_steps, plan->step_count, on_bucket, context);
}

void plan_profile(struct plan *plan, bool on)
{
    plan->profiling = on || plan->options.profile;
}

void plan_commit_statistics(struct plan *plan)
{
    for (int s = 0; s < plan->forward_steps; s++) {
        const struct step *step = &plan->steps[s];
        if (step->kind == STEP_KERNEL && step->item->node.kernel->commit)
            step->item->node.kernel->commit(&step->run);
    }
}

void plan_set_random(struct plan *plan, uint64_t seed, uint64_t step)
{
    plan->random_seed = seed;
    plan->random_step = step;
}

int plan_refresh_weights(struct plan *plan, struct error *err)
{
    return plan->options.mode == PLAN_SERVE ? plan_fill_copies(plan, err) : 0;
}

static const char *first_bad_input(const struct plan *plan, const struct tensor *inputs)
{
    for (int i = 0; i < plan->input_count; i++)
        if (inputs[i].dtype == DTYPE_F32 &&
            !elementwise_is_finite(inputs[i].data, tensor_bytes(&inputs[i]) / sizeof(float)))
            return plan_input_name(plan, i);
    return NULL;
}

static const char *first_bad_param(const struct plan *plan, const struct item *item)
{
    for (int i = 0; i < item->node.input_count; i++) {
        const struct value *value = graph_value(plan->graph, item->node.inputs[i]);
        if (value->kind != VALUE_PARAM)
            continue;
        int index = params_index(plan->params, item->node.inputs[i]);
        if (!elementwise_is_finite(weight_pointer(plan->params, index),
                                   params_range(plan->params, index).count))
            return value->name;
    }
    return NULL;
}

const char *plan_find_nonfinite(struct plan *plan, const struct tensor *inputs)
{
    start_run(plan, inputs);
    const char *input = first_bad_input(plan, inputs);
    if (input)
        return input;
    for (int s = 0; s < plan->forward_steps; s++) {
        struct step *step = &plan->steps[s];
        const char *param = step->item ? first_bad_param(plan, step->item) : NULL;
        if (param)
            return param;
        run_step(plan, step);
        if (step->kind == STEP_KERNEL &&
            !elementwise_is_finite(step->run.output,
                                   layout_bytes(step->item->output_layout) / sizeof(float)))
            return step->name;
    }
    return NULL;
}

/* --- Asking it --- */

int plan_input_count(const struct plan *plan)
{
    return plan->input_count;
}

const char *plan_input_name(const struct plan *plan, int index)
{
    return graph_value(plan->graph, plan->inputs[index])->name;
}

int plan_output_count(const struct plan *plan)
{
    return plan->output_count;
}

const char *plan_output_name(const struct plan *plan, int index)
{
    return plan->output_names[index];
}

int plan_batch(const struct plan *plan)
{
    return plan->options.batch;
}

int plan_threads(const struct plan *plan)
{
    return plan->options.threads;
}

double plan_flops(const struct plan *plan)
{
    return count_flops(plan->graph, plan->options.batch);
}

int plan_sparse_count(const struct plan *plan)
{
    return plan->sparse_count;
}

void plan_sparse(const struct plan *plan, int index, struct sparse_rows *out)
{
    const struct sparse_list *list = &plan->sparse[index];
    void *memory = plan->buffers[list->buffer].pointer;
    *out = (struct sparse_rows){.param = list->param,
                                .dim = list->dim,
                                .limit = list->limit,
                                .count = ((struct sparse_header *)memory)->count,
                                .rows = sparse_row_ids(memory),
                                .values = sparse_values(memory, list->limit)};
}

struct tensor plan_input_gradient(const struct plan *plan, int index)
{
    value_id input = plan->inputs[index];
    struct tensor tensor = {
        .dtype = DTYPE_F32,
        .shape = shape_with_batch(graph_value(plan->graph, input)->shape, plan->options.batch)};
    if (plan->input_gradients[index] != NO_BUFFER)
        tensor.data = plan->buffers[plan->input_gradients[index]].pointer;
    return tensor;
}

/* Raised whenever a kernel of ours, under the name it had, rounds otherwise than before. */
enum { ARITHMETIC = 1 };

uint64_t plan_fingerprint(const struct plan *plan)
{
    uint64_t hash = ARITHMETIC;
    char text[64];
    for (int i = 0; i < params_count(plan->params); i++) {
        struct param_range range = params_range(plan->params, i);
        hash = random_key_text(hash, range.name);
        hash = random_key(hash, range.first);
        for (int d = 0; d < range.shape.ndim; d++)
            hash = random_key(hash, (uint64_t)range.shape.dim[d]);
        hash =
            random_key_text(hash, layout_text(params_layout(plan->params, i), text, sizeof text));
    }
    for (int i = 0; i < plan->item_count; i++)
        hash = random_key_text(hash, plan->items[i]->node.kernel_name);
    return hash;
}

struct plan_kernels plan_kernels(const struct plan *plan)
{
    return plan->kernels;
}

const char *plan_kernel(const struct plan *plan, const struct node *node)
{
    for (int i = 0; i < plan->item_count; i++)
        if (plan->items[i]->node.node == node)
            return plan->items[i]->node.kernel->name;
    return NULL;
}

void plan_memory(const struct plan *plan, struct plan_memory *out)
{
    size_t weights = params_elements(plan->params) * sizeof(float);
    bool training = plan->options.mode == PLAN_TRAIN;
    *out = (struct plan_memory){
        .parameters = weights + params_statistic_elements(plan->params) * sizeof(float),
        .gradients = training ? params_dense_elements(plan->params) * sizeof(float) : 0,
        .slots = training ? weights * (size_t)params_slots(plan->params) : 0,
        .saved = plan->saved_bytes,
        .recomputed = plan->recomputed_bytes,
        .peak = plan->slab_bytes,
        .sum = plan->sum_bytes,
    };
}
