/* The second half of a training plan: nodes from the last to the first. Each value collects the
 * gradients its readers give it; where a node gets several, they are summed on the way, together
 * with undoing the ReLU where there was one. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "exec/plan_internal.h"

static void add_gradient(struct plan_builder *builder, value_id value, struct form form)
{
    struct plan_value *v = &builder->plan->values[value];
    builder->plan->buffers[form.buffer].gradient_owners++;
    if (v->gradient_count < OP_MAX_GRADIENTS) {
        v->gradients[v->gradient_count++] = form;
        return;
    }
    /* More readers than kernels take at once: join the newest two. */
    struct form *last = &v->gradients[OP_MAX_GRADIENTS - 1];
    if (!layout_equal(form.layout, last->layout))
        form = builder_reorder(builder, form, last->layout, NO_BUFFER, PASS_BACKWARD, "gradient");
    buffer_id sum = builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(last->layout), 0);
    struct bound bounds[] = {{0, last->buffer}, {1, form.buffer}, {2, sum}};
    builder_add_step(builder,
                     (struct step){.kind = STEP_SUM,
                                   .pass = PASS_BACKWARD,
                                   .name = "gradient",
                                   .kernel = "sum",
                                   .layout = last->layout,
                                   .sources = 2,
                                   .count = layout_bytes(last->layout) / sizeof(float)},
                     bounds, 3);
    builder->plan->buffers[last->buffer].gradient_owners--;
    builder->plan->buffers[form.buffer].gradient_owners--;
    builder->plan->buffers[sum].gradient_owners++;
    *last = (struct form){last->layout, sum};
}

static bool exclusive(const struct plan_builder *builder, struct form form)
{
    return builder->plan->buffers[form.buffer].gradient_owners <= 1;
}

/* All contributions in one layout. */
static void match_layouts(struct plan_builder *builder, struct item *item, struct plan_value *value,
                          const struct layout *layout)
{
    for (int i = 0; i < value->gradient_count; i++) {
        if (layout_equal(value->gradients[i].layout, layout))
            continue;
        builder->plan->buffers[value->gradients[i].buffer].gradient_owners--;
        value->gradients[i] = builder_reorder(builder, value->gradients[i], layout, NO_BUFFER,
                                              PASS_BACKWARD, item->node.node->name);
        builder->plan->buffers[value->gradients[i].buffer].gradient_owners++;
    }
}

/* Several contributions become one; with `y`, only where it is positive. */
static void combine(struct plan_builder *builder, struct item *item, struct plan_value *value,
                    buffer_id y)
{
    struct form first = value->gradients[0];
    int sources = value->gradient_count;
    buffer_id target = NO_BUFFER;
    for (int i = 0; i < sources && target == NO_BUFFER; i++)
        if (exclusive(builder, value->gradients[i]))
            target = value->gradients[i].buffer;
    if (target == NO_BUFFER)
        target = builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(first.layout), 0);
    struct bound bounds[OP_MAX_GRADIENTS + 2];
    int count = 0;
    for (; count < sources; count++)
        bounds[count] = (struct bound){count, value->gradients[count].buffer};
    if (y != NO_BUFFER)
        bounds[count++] = (struct bound){sources, y};
    bounds[count++] = (struct bound){sources + 1, target};
    builder_add_step(builder,
                     (struct step){.kind = y == NO_BUFFER ? STEP_SUM : STEP_MASK,
                                   .pass = PASS_BACKWARD,
                                   .name = item->node.node->name,
                                   .kernel = y == NO_BUFFER ? "sum" : "relu gradient",
                                   .layout = first.layout,
                                   .sources = sources,
                                   .count = layout_bytes(first.layout) / sizeof(float)},
                     bounds, count);
    for (int i = 0; i < sources; i++)
        builder->plan->buffers[value->gradients[i].buffer].gradient_owners--;
    builder->plan->buffers[target].gradient_owners++;
    value->gradients[0] = (struct form){first.layout, target};
    value->gradient_count = 1;
}

/* Brings the contributions into the form the kernel takes. */
static void settle_gradients(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    struct plan_value *value = &plan->values[item->node.output];
    const struct op_kernel *kernel = item->node.kernel;
    bool mask = item->node.relu && !kernel->relu;
    match_layouts(builder, item, value,
                  mask || value->gradient_count > 1 ? item->output_layout
                                                    : value->gradients[0].layout);
    if (mask) {
        builder_bring_back(builder, item->node.output);
        combine(builder, item, value, value->forms[0].buffer);
    } else if (value->gradient_count > 1 && !kernel->sums_gradients) {
        combine(builder, item, value, NO_BUFFER);
    }
}

/* What to do when a kernel's parameter gradient is ready: the slab wants it as weights lie. */
struct pending_reorder {
    struct form from;
    const struct layout *layout;
    buffer_id to;
};

struct backward_pass {
    struct plan_builder *builder;
    struct item *item;
    enum op_pass pass;
    struct bound bounds[ITEM_MAX_USES + OP_MAX_GRADIENTS];
    int bound_count;
    struct pending_reorder reorders[8];
    int reorder_count;
    struct {
        value_id value;
        struct form form;
    } made[ITEM_MAX_USES];
    int made_count;
};

static void bind(struct backward_pass *b, int role, buffer_id buffer)
{
    b->bounds[b->bound_count++] = (struct bound){role, buffer};
}

static void bind_param_gradient(struct backward_pass *b, int input, const struct layout *layout)
{
    struct plan *plan = b->builder->plan;
    int index = params_index(plan->params, item_input(b->item, input));
    const struct layout *stored = params_layout(plan->params, index);
    if (params_range(plan->params, index).flags & PARAM_SPARSE) {
        assert(b->item->sparse_input == input);
        bind(b, ROLE_GRADIENT_OF_INPUT + input,
             builder_add_sparse(b->builder, index, b->item->sparse_limit));
        return;
    }
    buffer_id slab = builder_add_buffer(b->builder, BUFFER_GRADIENT, layout_bytes(stored), index);
    if (!layout || layout_equal(layout, stored)) {
        bind(b, ROLE_GRADIENT_OF_INPUT + input, slab);
        return;
    }
    buffer_id made = builder_add_buffer(b->builder, BUFFER_SLAB, layout_bytes(layout), 0);
    bind(b, ROLE_GRADIENT_OF_INPUT + input, made);
    b->reorders[b->reorder_count++] = (struct pending_reorder){{layout, made}, stored, slab};
}

static void bind_value_gradient(struct backward_pass *b, int input, const struct layout *layout)
{
    struct plan *plan = b->builder->plan;
    value_id value = item_input(b->item, input);
    if (!layout)
        layout = plan->values[value].forms[0].layout;
    struct form *incoming = &plan->values[b->item->node.output].gradients[0];
    buffer_id buffer;
    if (input == 0 && b->item->gradient_in_place && exclusive(b->builder, *incoming) &&
        layout_bytes(incoming->layout) == layout_bytes(layout)) {
        buffer = incoming->buffer;
    } else {
        buffer = builder_add_buffer(b->builder, BUFFER_SLAB, layout_bytes(layout), 0);
    }
    bind(b, ROLE_GRADIENT_OF_INPUT + input, buffer);
    b->made[b->made_count].value = value;
    b->made[b->made_count++].form = (struct form){layout, buffer};
}

static void bind_gradient(struct backward_pass *b, const struct layout *layout)
{
    struct plan_value *value = &b->builder->plan->values[b->item->node.output];
    match_layouts(b->builder, b->item, value, layout ? layout : b->item->output_layout);
    for (int i = 0; i < value->gradient_count; i++)
        bind(b, ROLE_GRADIENT, value->gradients[i].buffer);
}

static void bind_use(struct backward_pass *b, const struct use *use)
{
    struct plan *plan = b->builder->plan;
    if (use->role < ROLE_GRADIENT_OF_INPUT) {
        builder_bring_back(b->builder, item_input(b->item, use->role));
        struct form form = builder_form(b->builder, item_input(b->item, use->role), use->layout,
                                        b->pass, b->item->node.node->name);
        bind(b, use->role, form.buffer);
    } else if (use->role < ROLE_OUTPUT) {
        int input = use->role - ROLE_GRADIENT_OF_INPUT;
        value_id value = item_input(b->item, input);
        if (!plan->values[value].wants_gradient)
            return;
        if (graph_value(plan->graph, value)->kind == VALUE_PARAM)
            bind_param_gradient(b, input, use->layout);
        else
            bind_value_gradient(b, input, use->layout);
    } else if (use->role == ROLE_OUTPUT) {
        builder_bring_back(b->builder, b->item->node.output);
        bind(b, ROLE_OUTPUT, plan->values[b->item->node.output].forms[0].buffer);
    } else if (use->role == ROLE_GRADIENT) {
        bind_gradient(b, use->layout);
    } else if (use->role == ROLE_WORKSPACE) {
        bind(b, ROLE_WORKSPACE, b->item->workspace);
    } else if (use->role == ROLE_KEPT) {
        bind(b, ROLE_KEPT, b->item->kept);
    } else {
        bind(b, ROLE_SCRATCH,
             builder_add_buffer(b->builder, BUFFER_SLAB, b->item->scratch_bytes, 0));
    }
}

bool item_wants_pass(const struct plan *plan, const struct item *item, enum op_pass pass)
{
    if (!item->node.kernel->pass[pass])
        return false;
    for (int i = 0; i < item->use_count; i++) {
        const struct use *use = &item->uses[i];
        if (use->pass == pass && use->role >= ROLE_GRADIENT_OF_INPUT && use->role < ROLE_OUTPUT &&
            plan->values[item_input(item, use->role - ROLE_GRADIENT_OF_INPUT)].wants_gradient)
            return true;
    }
    return false;
}

static void emit_backward(struct plan_builder *builder, struct item *item, enum op_pass pass)
{
    struct plan *plan = builder->plan;
    if (!item_wants_pass(plan, item, pass))
        return;
    struct backward_pass b = {.builder = builder, .item = item, .pass = pass};
    /* The gradient first: in-place decisions look at it in its final form. */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < item->use_count; i++)
            if (item->uses[i].pass == pass && (item->uses[i].role == ROLE_GRADIENT) == (round == 0))
                bind_use(&b, &item->uses[i]);
    builder_emit_kernel(builder, item, pass, b.bounds, b.bound_count,
                        plan->values[item->node.output].gradient_count);
    for (int i = 0; i < b.reorder_count; i++)
        builder_reorder(builder, b.reorders[i].from, b.reorders[i].layout, b.reorders[i].to, pass,
                        item->node.node->name);
    for (int i = 0; i < b.made_count; i++)
        add_gradient(builder, b.made[i].value, b.made[i].form);
}

static void pass_gradients_on(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i <= item->node.input_count; i++)
        if (item->passed_gradients & 1u << i && plan->values[item_input(item, i)].wants_gradient) {
            struct form form = plan->values[item->node.output].gradients[0];
            if (item->view == i) {
                /* A view's gradient is the same memory under the input's shape. */
                const struct use *use = item_find_use(item, PASS_FORWARD, ROLE_INPUT + i);
                form.layout = use->layout;
            }
            add_gradient(builder, item_input(item, i), form);
        }
}

static void backward_of(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    struct plan_value *value = &plan->values[item->node.output];
    if (value->gradient_count == 0)
        return; /* an output that the loss does not depend on */
    settle_gradients(builder, item);
    if (item->view >= 0)
        match_layouts(builder, item, value, item->output_layout);
    emit_backward(builder, item, PASS_BACKWARD_WEIGHTS);
    emit_backward(builder, item, PASS_BACKWARD);
    pass_gradients_on(builder, item);
    for (int i = 0; i < value->gradient_count; i++)
        plan->buffers[value->gradients[i].buffer].gradient_owners--;
}

static void seed_loss(struct plan_builder *builder, value_id loss)
{
    struct plan *plan = builder->plan;
    const struct layout *layout = plan->values[loss].forms[0].layout;
    buffer_id buffer = builder_add_buffer(builder, BUFFER_SLAB, layout_bytes(layout), 0);
    struct bound bounds[] = {{0, buffer}};
    builder_add_step(builder,
                     (struct step){.kind = STEP_SEED,
                                   .pass = PASS_BACKWARD,
                                   .name = "loss",
                                   .kernel = "fill",
                                   .layout = layout,
                                   .count = layout_bytes(layout) / sizeof(float)},
                     bounds, 1);
    add_gradient(builder, loss, (struct form){layout, buffer});
}

static void keep_input_gradients(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->input_count; i++) {
        struct plan_value *value = &plan->values[plan->inputs[i]];
        plan->input_gradients[i] = NO_BUFFER;
        if (!plan->options.want_input_gradient || value->gradient_count == 0)
            continue;
        struct item name_only = {.node = {.node = graph_node_at(plan->graph, 0)}};
        struct shape shape = builder_shape(builder, plan->inputs[i]);
        struct layout plain = layout_plain(&shape);
        match_layouts(builder, &name_only, value, builder_keep_layout(builder, &plain));
        if (value->gradient_count > 1)
            combine(builder, &name_only, value, NO_BUFFER);
        plan->input_gradients[i] = value->gradients[0].buffer;
        plan->buffers[value->gradients[0].buffer].keep = true;
    }
}

/* A parameter read by two nodes would need its two gradients summed; none of our networks has
 * one, and summing into the wrong range silently would be worse than saying so. */
static int refuse_shared_params(struct plan_builder *builder)
{
    const struct plan *plan = builder->plan;
    for (value_id v = 0; v < graph_value_count(plan->graph); v++) {
        const struct value *value = graph_value(plan->graph, v);
        if (value->kind == VALUE_PARAM && (value->flags & PARAM_TRAINABLE) &&
            plan->values[v].consumers > 1)
            return error_set(builder->err, ERROR_FORMAT,
                             "parameter %s is used by %d nodes; training needs one node each",
                             value->name, plan->values[v].consumers);
    }
    return 0;
}

int plan_build_backward(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    value_id loss = graph_loss_value(plan->graph);
    if (loss < 0)
        return error_set(builder->err, ERROR_FORMAT, "the graph has no loss to train on");
    if (refuse_shared_params(builder) < 0 ||
        (plan->options.recompute && plan_choose_recomputed(plan, builder->err) < 0))
        return -1;
    seed_loss(builder, loss);
    for (int i = plan->item_count - 1; i >= 0 && !builder->failed; i--)
        backward_of(builder, plan->items[i]);
    keep_input_gradients(builder);
    return builder->failed ? -1 : 0;
}
