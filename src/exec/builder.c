/* Writes a plan's steps: asks each kernel what it needs, adds the reorders between kernels that
 * want different layouts, and decides which buffers are shared. */
#include <assert.h>
#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/plan_internal.h"

/* --- What kernels may ask --- */

int builder_batch(const struct plan_builder *builder)
{
    return builder->plan->options.batch;
}

int builder_threads(const struct plan_builder *builder)
{
    return builder->plan->options.threads;
}

bool builder_is_training(const struct plan_builder *builder)
{
    return builder->plan->options.mode == PLAN_TRAIN;
}

bool builder_is_serving(const struct plan_builder *builder)
{
    return builder->plan->options.mode == PLAN_SERVE;
}

bool builder_is_direct(const struct plan_builder *builder)
{
    return builder->plan->options.direct;
}

bool op_fits_never(const struct plan_builder *builder, const struct plan_node *node)
{
    (void)builder;
    (void)node;
    return false;
}

const struct graph *builder_graph(const struct plan_builder *builder)
{
    return builder->plan->graph;
}

struct arena *builder_arena(struct plan_builder *builder)
{
    return builder->plan->arena;
}

const struct layout *builder_layout(const struct plan_builder *builder, value_id value)
{
    return builder->plan->values[value].forms[0].layout;
}

struct shape builder_shape(const struct plan_builder *builder, value_id value)
{
    return shape_with_batch(graph_value(builder->plan->graph, value)->shape,
                            builder->plan->options.batch);
}

bool builder_wants_gradient(const struct plan_builder *builder, value_id value)
{
    return builder->plan->values[value].wants_gradient;
}

/* --- Growing lists; a failure is remembered, so callers need not look --- */

static int fail_memory(struct plan_builder *builder)
{
    builder->failed = true;
    return error_set(builder->err, ERROR_MEMORY, "no memory for a plan");
}

static bool grow(struct plan_builder *builder, void *array, int count, int *capacity, size_t bytes)
{
    void **place = array;
    if (count < *capacity)
        return true;
    int wanted = *capacity ? *capacity * 2 : 64;
    void *larger = memory_resize(*place, (size_t)wanted * bytes);
    if (!larger) {
        fail_memory(builder);
        return false;
    }
    *place = larger;
    *capacity = wanted;
    return true;
}

const struct layout *builder_keep_layout(struct plan_builder *builder, const struct layout *layout)
{
    struct layout *copy = ARENA_NEW(builder->plan->arena, struct layout);
    if (!copy) {
        fail_memory(builder);
        return layout;
    }
    *copy = *layout;
    return copy;
}

buffer_id builder_add_buffer(struct plan_builder *builder, enum buffer_kind kind, size_t bytes,
                             int index)
{
    struct plan *plan = builder->plan;
    if (!grow(builder, &plan->buffers, plan->buffer_count, &plan->buffer_capacity,
              sizeof(struct buffer)))
        return 0;
    plan->buffers[plan->buffer_count] =
        (struct buffer){.kind = kind, .bytes = bytes, .index = index};
    return plan->buffer_count++;
}

void builder_own(struct plan_builder *builder, struct dnn_primitive *primitive)
{
    struct plan *plan = builder->plan;
    if (grow(builder, &plan->primitives, plan->primitive_count, &plan->primitive_capacity,
             sizeof(struct dnn_primitive *)))
        plan->primitives[plan->primitive_count++] = primitive;
}

static void own_call(struct plan_builder *builder, struct dnn_call *call)
{
    struct plan *plan = builder->plan;
    if (grow(builder, &plan->calls, plan->call_count, &plan->call_capacity,
             sizeof(struct dnn_call *)))
        plan->calls[plan->call_count++] = call;
}

struct step *builder_add_step(struct plan_builder *builder, struct step step,
                              const struct bound *bounds, int bound_count)
{
    struct plan *plan = builder->plan;
    if (!grow(builder, &plan->steps, plan->step_count, &plan->step_capacity, sizeof step))
        return NULL;
    step.bounds = ARENA_ARRAY(plan->arena, struct bound, bound_count + 1);
    if (!step.bounds) {
        fail_memory(builder);
        return NULL;
    }
    memcpy(step.bounds, bounds, sizeof *bounds * (size_t)bound_count);
    step.bound_count = bound_count;
    plan->steps[plan->step_count] = step;
    return &plan->steps[plan->step_count++];
}

buffer_id builder_add_sparse(struct plan_builder *builder, int param, int64_t limit)
{
    struct plan *plan = builder->plan;
    struct shape shape = params_range(plan->params, param).shape;
    int64_t dim = shape_count(&shape) / shape.dim[0];
    buffer_id buffer = builder_add_buffer(builder, BUFFER_SLAB, sparse_bytes(limit, dim), 0);
    if (builder->failed || !grow(builder, &plan->sparse, plan->sparse_count, &plan->sparse_capacity,
                                 sizeof(struct sparse_list)))
        return 0;
    plan->buffers[buffer].keep = true;
    plan->sparse[plan->sparse_count++] = (struct sparse_list){param, limit, dim, buffer};
    return buffer;
}

/* --- What kernels say --- */

static struct item *item_of(struct plan_node *node)
{
    return (struct item *)node;
}

struct use *item_find_use(struct item *item, enum op_pass pass, int role)
{
    for (int i = 0; i < item->use_count; i++)
        if (item->uses[i].pass == pass && item->uses[i].role == role)
            return &item->uses[i];
    return NULL;
}

value_id item_input(const struct item *item, int index)
{
    return index < item->node.input_count ? item->node.inputs[index] : item->node.residual;
}

void builder_use(struct plan_builder *builder, struct plan_node *node, enum op_pass pass, int role,
                 const struct layout *layout)
{
    struct item *item = item_of(node);
    struct use *known = item_find_use(item, pass, role);
    if (known)
        return; /* the first word counts: a call may see only a part of the role */
    assert(item->use_count < ITEM_MAX_USES);
    item->uses[item->use_count++] =
        (struct use){pass, role, layout ? builder_keep_layout(builder, layout) : NULL};
}

void builder_use_plain(struct plan_builder *builder, struct plan_node *node, enum op_pass pass,
                       int role, int input)
{
    struct shape shape = builder_shape(builder, node->inputs[input]);
    struct layout plain = layout_plain(&shape);
    builder_use(builder, node, pass, role + input, &plain);
}

void builder_output(struct plan_builder *builder, struct plan_node *node,
                    const struct layout *layout)
{
    item_of(node)->output_layout = builder_keep_layout(builder, layout);
}

void builder_sparse_gradient(struct plan_builder *builder, struct plan_node *node, int input,
                             int64_t rows)
{
    (void)builder;
    item_of(node)->sparse_input = input;
    item_of(node)->sparse_limit = rows;
}

void builder_buffer(struct plan_builder *builder, struct plan_node *node, int role, size_t bytes)
{
    (void)builder;
    struct item *item = item_of(node);
    size_t *place = role == ROLE_WORKSPACE ? &item->workspace_bytes
                    : role == ROLE_KEPT    ? &item->kept_bytes
                                           : &item->scratch_bytes;
    if (bytes > *place)
        *place = bytes;
}

void builder_allow_overwrite(struct plan_builder *builder, struct plan_node *node, int input)
{
    (void)builder;
    item_of(node)->overwrite = input;
}

void builder_pass_gradient(struct plan_builder *builder, struct plan_node *node, int input)
{
    (void)builder;
    item_of(node)->passed_gradients |= 1u << input;
}

void builder_view(struct plan_builder *builder, struct plan_node *node, int input)
{
    (void)builder;
    item_of(node)->view = input;
}

void builder_accumulate(struct plan_builder *builder, struct plan_node *node)
{
    (void)builder;
    item_of(node)->accumulates = true;
}

void builder_gradient_in_place(struct plan_builder *builder, struct plan_node *node)
{
    (void)builder;
    item_of(node)->gradient_in_place = true;
}

void builder_kernel_name(struct plan_builder *builder, struct plan_node *node, const char *format,
                         ...)
{
    char name[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    char *copy = arena_copy_text(builder->plan->arena, name);
    if (copy)
        node->kernel_name = copy;
}

void builder_kernel_names(struct plan_builder *builder, struct plan_node *node,
                          const struct dnn_primitive *const passes[PASS_COUNT])
{
    const char *names[PASS_COUNT];
    bool same = true;
    for (int i = 0; i < PASS_COUNT; i++) {
        names[i] = passes[i] ? dnn_kernel(passes[i]) : "-";
        same &= !passes[i] || strcmp(names[i], names[0]) == 0;
    }
    if (same)
        builder_kernel_name(builder, node, "%s", names[0]);
    else
        builder_kernel_name(builder, node, "%s, w %s, d %s", names[PASS_FORWARD],
                            names[PASS_BACKWARD_WEIGHTS], names[PASS_BACKWARD]);
}

struct dnn_call *builder_call(struct plan_builder *builder, struct plan_node *node,
                              enum op_pass pass, struct dnn_primitive *primitive, int count,
                              const enum dnn_argument *arguments, const int *roles,
                              struct error *err)
{
    struct item *item = item_of(node);
    enum dnn_argument used[16];
    int *used_roles = ARENA_ARRAY(builder->plan->arena, int, count + 1);
    int used_count = 0;
    if (!used_roles) {
        error_set(err, ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (roles[i] < 0)
            continue;
        used[used_count] = arguments[i];
        used_roles[used_count++] = roles[i];
        struct layout layout = dnn_layout(primitive, arguments[i]);
        bool own = roles[i] == ROLE_WORKSPACE || roles[i] == ROLE_SCRATCH;
        builder_use(builder, node, pass, roles[i], own ? NULL : &layout);
        if (own)
            builder_buffer(builder, node, roles[i], layout_bytes(&layout));
    }
    size_t scratch = dnn_scratch_bytes(primitive);
    if (scratch) {
        used[used_count] = DNN_SCRATCHPAD;
        used_roles[used_count++] = ROLE_SCRATCH;
        builder_use(builder, node, pass, ROLE_SCRATCH, NULL);
        builder_buffer(builder, node, ROLE_SCRATCH, scratch);
    }
    struct dnn_call *call = NULL;
    if (dnn_call_create(primitive, used_count, used, &call, err) < 0)
        return NULL;
    own_call(builder, call);
    assert(item->call_count < ITEM_MAX_CALLS);
    item->calls[item->call_count++] = (struct bound_call){call, pass, used_count, used_roles};
    return call;
}

/* --- Forms of values --- */

static bool differ_in_shape(const struct layout *a, const struct layout *b)
{
    struct shape x = layout_shape(a), y = layout_shape(b);
    return !shape_equal(&x, &y);
}

struct form builder_reorder(struct plan_builder *builder, struct form from,
                            const struct layout *layout, buffer_id to, enum op_pass pass,
                            const char *name)
{
    /* Two shapes for the same numbers ([O, CHW] and [O, C, H, W]) meet in row-major order. */
    if (differ_in_shape(from.layout, layout) && !layout_is_plain(from.layout)) {
        struct shape shape = layout_shape(from.layout);
        struct layout plain = layout_plain(&shape);
        from = builder_reorder(builder, from, builder_keep_layout(builder, &plain), NO_BUFFER, pass,
                               name);
    }
    struct layout source = *from.layout;
    if (differ_in_shape(&source, layout)) {
        struct shape shape = layout_shape(layout);
        source = layout_plain(&shape);
    }
    if (to == NO_BUFFER)
        to = builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(layout), 0);
    static const enum dnn_argument arguments[] = {DNN_FROM, DNN_TO, DNN_SCRATCHPAD};
    struct dnn_primitive *primitive = NULL;
    struct dnn_call *call = NULL;
    struct form made = {builder_keep_layout(builder, layout), to};
    if (builder->failed || dnn_reorder(&source, layout, &primitive, builder->err) < 0) {
        builder->failed = true;
        return made;
    }
    builder_own(builder, primitive);
    size_t scratch = dnn_scratch_bytes(primitive);
    if (dnn_call_create(primitive, scratch ? 3 : 2, arguments, &call, builder->err) < 0) {
        builder->failed = true;
        return made;
    }
    own_call(builder, call);
    struct bound bounds[3] = {{0, from.buffer}, {1, to}};
    if (scratch)
        bounds[2] = (struct bound){2, builder_add_buffer(builder, BUFFER_SLAB, scratch, 0)};
    builder_add_step(builder,
                     (struct step){.kind = STEP_REORDER,
                                   .pass = pass,
                                   .name = name,
                                   .kernel = dnn_kernel(primitive),
                                   .layout = made.layout,
                                   .call = call},
                     bounds, scratch ? 3 : 2);
    return made;
}

struct form builder_form(struct plan_builder *builder, value_id value, const struct layout *layout,
                         enum op_pass pass, const char *who)
{
    struct plan_value *v = &builder->plan->values[value];
    if (!layout)
        return v->forms[0];
    for (int i = 0; i < v->form_count; i++)
        if (layout_equal(v->forms[i].layout, layout))
            return v->forms[i];
    struct form made = builder_reorder(builder, v->forms[0], layout, NO_BUFFER, pass, who);
    /* A parameter's reordered copy is remade where it is needed: keeping it from forward to
     * backward would cost more memory than the copy costs time. */
    bool is_param = graph_value(builder->plan->graph, value)->kind == VALUE_PARAM;
    if (!is_param && v->form_count < VALUE_MAX_FORMS)
        v->forms[v->form_count++] = made;
    return made;
}

/* --- Starting: inputs and parameters --- */

static void add_inputs(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->input_count; i++) {
        value_id id = plan->inputs[i];
        const struct value *value = graph_value(plan->graph, id);
        struct shape shape = builder_shape(builder, id);
        /* Integers have the size of floats where kernels see them; strings never reach one. */
        struct layout layout =
            value->channels_last ? layout_channels_last(&shape) : layout_plain(&shape);
        size_t bytes = (size_t)shape_count(&shape) * dtype_bytes(value->dtype);
        plan->input_buffers[i] = builder_add_buffer(builder, BUFFER_INPUT, bytes, i);
        plan->values[id].forms[0] =
            (struct form){builder_keep_layout(builder, &layout), plan->input_buffers[i]};
        plan->values[id].form_count = 1;
    }
}

static void add_params(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    for (value_id v = 0; v < graph_value_count(plan->graph); v++) {
        if (graph_value(plan->graph, v)->kind != VALUE_PARAM)
            continue;
        int index = params_index(plan->params, v);
        const struct layout *layout = params_layout(plan->params, index);
        plan->values[v].forms[0] = (struct form){
            layout, builder_add_buffer(builder, BUFFER_WEIGHT, layout_bytes(layout), index)};
        plan->values[v].form_count = 1;
    }
}

/* The first plan's forward kernels decide how weights are stored. */
static void propose_layouts(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < item->use_count; i++) {
        const struct use *use = &item->uses[i];
        if (use->pass != PASS_FORWARD || use->role >= ROLE_GRADIENT_OF_INPUT || !use->layout)
            continue;
        value_id value = item_input(item, use->role - ROLE_INPUT);
        if (graph_value(plan->graph, value)->kind == VALUE_PARAM)
            params_propose_layout(plan->params, params_index(plan->params, value), use->layout);
    }
}

/* --- Forward --- */

static struct form serving_copy(struct plan_builder *builder, struct item *item, int input,
                                const struct layout *layout)
{
    struct plan *plan = builder->plan;
    if (!grow(builder, &plan->copies, plan->copy_count, &plan->copy_capacity,
              sizeof(struct weight_copy)))
        return (struct form){layout, 0};
    if (!layout) {
        struct shape shape = builder_shape(builder, item_input(item, input));
        struct layout plain = layout_plain(&shape);
        layout = builder_keep_layout(builder, &plain);
    }
    buffer_id buffer = builder_add_buffer(builder, BUFFER_COPY, layout_bytes(layout), 0);
    plan->copies[plan->copy_count++] = (struct weight_copy){buffer, item, input, layout};
    return (struct form){layout, buffer};
}

static struct form input_form(struct plan_builder *builder, struct item *item, int input,
                              const struct layout *layout, enum op_pass pass)
{
    value_id value = item_input(item, input);
    const struct value *v = graph_value(builder->plan->graph, value);
    /* A table is read where it lies: a copy of gigabytes would gain nothing. */
    bool copied = v->kind == VALUE_PARAM && !(v->flags & PARAM_SPARSE);
    if (copied && builder->plan->options.mode == PLAN_SERVE)
        return serving_copy(builder, item, input, layout);
    return builder_form(builder, value, layout, pass, item->node.node->name);
}

/* Nothing else will read this value's memory: this node is the last to see it. */
static bool may_overwrite(const struct plan_builder *builder, const struct item *item, int input)
{
    const struct plan *plan = builder->plan;
    value_id id = item_input(item, input);
    const struct plan_value *value = &plan->values[id];
    const struct buffer *buffer = &plan->buffers[value->forms[0].buffer];
    const struct use *use = item_find_use((struct item *)item, PASS_FORWARD, ROLE_INPUT + input);
    return buffer->kind == BUFFER_SLAB && !buffer->keep &&
           value->consumed == value->consumers - 1 && !value->pinned &&
           (!use || !use->layout || layout_equal(use->layout, value->forms[0].layout)) &&
           layout_bytes(value->forms[0].layout) == layout_bytes(item->output_layout);
}

/* What a backward pass of this item, or a view, reads later, nobody may overwrite. */
static void note_later_reads(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < item->use_count; i++) {
        const struct use *use = &item->uses[i];
        if (use->pass != PASS_BACKWARD_WEIGHTS && use->pass != PASS_BACKWARD)
            continue;
        if (use->role < ROLE_GRADIENT_OF_INPUT)
            plan->values[item_input(item, use->role)].pinned = true;
        if (use->role == ROLE_OUTPUT)
            plan->values[item->node.output].pinned = true;
    }
    if (plan->options.mode == PLAN_TRAIN && item->node.relu && !item->node.kernel->relu)
        plan->values[item->node.output].pinned = true;
    if (item->view >= 0) {
        plan->values[item_input(item, item->view)].pinned = true;
        plan->values[item->node.output].pinned = true;
    }
}

static buffer_id output_buffer(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    if (item->view >= 0)
        return input_form(builder, item, item->view,
                          item_find_use(item, PASS_FORWARD, ROLE_INPUT + item->view)->layout,
                          PASS_FORWARD)
            .buffer;
    if (item->overwrite >= 0 && may_overwrite(builder, item, item->overwrite))
        return plan->values[item_input(item, item->overwrite)].forms[0].buffer;
    return builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(item->output_layout), 0);
}

/* The kernel adds to its output, which must hold the residual: in the residual's own memory when
 * nothing else needs it, else in a copy. */
static buffer_id accumulated_output(struct plan_builder *builder, struct item *item)
{
    int residual = item->node.input_count;
    struct form source = input_form(builder, item, residual, item->output_layout, PASS_FORWARD);
    struct plan_value *value = &builder->plan->values[item->node.residual];
    bool reordered = source.buffer != value->forms[0].buffer;
    if (may_overwrite(builder, item, residual) && !reordered)
        return source.buffer;
    buffer_id copy = builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(item->output_layout), 0);
    struct bound bounds[2] = {{0, source.buffer}, {1, copy}};
    builder_add_step(builder,
                     (struct step){.kind = STEP_COPY,
                                   .pass = PASS_FORWARD,
                                   .name = item->node.node->name,
                                   .kernel = "copy",
                                   .layout = item->output_layout,
                                   .count = layout_bytes(item->output_layout) / sizeof(float)},
                     bounds, 2);
    return copy;
}

void builder_emit_kernel(struct plan_builder *builder, struct item *item, enum op_pass pass,
                         const struct bound *bounds, int bound_count, int gradient_count)
{
    struct plan *plan = builder->plan;
    int inputs = item->node.input_count + 1;
    struct step step = {.kind = STEP_KERNEL,
                        .pass = pass,
                        .item = item,
                        .name = item->node.node->name,
                        .kernel = item->node.kernel_name,
                        .layout = item->output_layout};
    float **input_pointers = ARENA_ARRAY(plan->arena, float *, inputs);
    float **gradient_pointers = ARENA_ARRAY(plan->arena, float *, inputs);
    if (!input_pointers || !gradient_pointers) {
        fail_memory(builder);
        return;
    }
    step.run = (struct op_run){.node = &item->node,
                               .state = item->node.state,
                               .batch = plan->options.batch,
                               .threads = plan->options.threads,
                               .inputs = input_pointers,
                               .input_gradients = gradient_pointers,
                               .gradient_count = gradient_count};
    const struct op *op = item->node.node->op;
    if (op->flops)
        step.flops = op->flops(plan->graph, item->node.node) * plan->options.batch;
    builder_add_step(builder, step, bounds, bound_count);
}

static void emit_forward(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    struct bound bounds[ITEM_MAX_USES];
    int count = 0;
    if (item->workspace_bytes)
        item->workspace = builder_add_buffer(builder, BUFFER_SLAB, item->workspace_bytes, 0);
    if (item->kept_bytes) {
        item->kept = builder_add_buffer(builder, BUFFER_SLAB, item->kept_bytes, 0);
        plan->buffers[item->kept].keep = true;
    }
    for (int i = 0; i < item->use_count; i++) {
        const struct use *use = &item->uses[i];
        if (use->pass != PASS_FORWARD || use->role == ROLE_OUTPUT)
            continue;
        buffer_id buffer;
        if (use->role < ROLE_GRADIENT_OF_INPUT)
            buffer = input_form(builder, item, use->role, use->layout, PASS_FORWARD).buffer;
        else if (use->role == ROLE_WORKSPACE)
            buffer = item->workspace;
        else if (use->role == ROLE_KEPT)
            buffer = item->kept;
        else
            buffer = builder_add_buffer(builder, BUFFER_SLAB, item->scratch_bytes, 0);
        bounds[count++] = (struct bound){use->role, buffer};
    }
    buffer_id output =
        item->accumulates ? accumulated_output(builder, item) : output_buffer(builder, item);
    bounds[count++] = (struct bound){ROLE_OUTPUT, output};
    struct plan_value *value = &plan->values[item->node.output];
    value->forms[0] = (struct form){item->output_layout, output};
    value->form_count = 1;
    if (item->node.kernel->pass[PASS_FORWARD] && item->view < 0)
        builder_emit_kernel(builder, item, PASS_FORWARD, bounds, count, 0);
}

static void note_consumed(struct plan *plan, const struct item *item)
{
    for (int i = 0; i < item->node.input_count; i++)
        plan->values[item->node.inputs[i]].consumed++;
    if (item->node.residual >= 0)
        plan->values[item->node.residual].consumed++;
}

static int prepare_item(struct plan_builder *builder, struct item *item, struct error *err)
{
    if (item->node.kernel->prepare(builder, &item->node, err) < 0)
        return error_wrap(err, "%s", item->node.node->name);
    if (!builder->failed)
        assert(item->output_layout);
    return builder->failed ? -1 : 0;
}

/* Outputs leave the plan as plain tensors that stay until the next run. */
static void keep_outputs(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->output_count; i++) {
        struct shape shape = builder_shape(builder, plan->outputs[i]);
        struct layout plain = layout_plain(&shape);
        struct form form =
            builder_form(builder, plan->outputs[i], &plain, PASS_FORWARD, plan->output_names[i]);
        plan->output_buffers[i] = form.buffer;
        if (!builder->failed)
            plan->buffers[form.buffer].keep = true;
    }
}

/* A parameter's first form points at params' own record of its layout, so what propose_layouts
 * settles for the first plan is what emit_forward then finds. */
int plan_build_steps(struct plan *plan, struct error *err)
{
    struct plan_builder builder = {.plan = plan, .err = err};
    add_inputs(&builder);
    add_params(&builder);
    for (int i = 0; i < plan->item_count && !builder.failed; i++) {
        struct item *item = plan->items[i];
        if (prepare_item(&builder, item, err) < 0)
            return -1;
        propose_layouts(&builder, item);
        note_later_reads(&builder, item);
        emit_forward(&builder, item);
        note_consumed(plan, item);
    }
    keep_outputs(&builder);
    plan->forward_steps = plan->step_count;
    if (!builder.failed && plan->options.mode == PLAN_TRAIN && plan_build_backward(&builder) < 0)
        return -1;
    return builder.failed ? -1 : 0;
}
