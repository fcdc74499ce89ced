/* What a training plan does not keep from forward to backward, but makes again there: outputs of
 * kernels that have PASS_RECOMPUTE, batch norms, ReLUs and additions, which cost a pass over memory
 * each. In ResNet-50 these are half of all that backward reads; the other half, the convolutions'
 * outputs, is what they are made from.
 *
 * An output is made again where all it is made from can be had in backward, too: read there anyway,
 * and therefore kept, or made again itself. Each is made once, before its first reader, and stays
 * until its last: of a chain of residual blocks, where each output needs the one before it, all are
 * made when the last is wanted. Steps are only added, so every other step does what it did, in the
 * same order, and gradients have the same bits. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/plan_internal.h"

static bool is_backward(enum op_pass pass)
{
    return pass == PASS_BACKWARD_WEIGHTS || pass == PASS_BACKWARD;
}

/* There in backward without further ado: parameters, inputs, and what a backward pass reads. What a
 * pass reads was never overwritten in forward (plan_value.pinned). */
static void mark_read(const struct plan *plan, bool *there)
{
    for (value_id v = 0; v < graph_value_count(plan->graph); v++)
        there[v] = graph_value(plan->graph, v)->kind != VALUE_RESULT;
    for (int i = 0; i < plan->item_count; i++) {
        const struct item *item = plan->items[i];
        value_id output = item->node.output;
        if (item->node.relu && !item->node.kernel->relu && plan->values[output].wants_gradient)
            there[output] = true; /* the planner masks the gradient with it */
        for (int u = 0; u < item->use_count; u++) {
            const struct use *use = &item->uses[u];
            if (!is_backward(use->pass) || !item_wants_pass(plan, item, use->pass))
                continue;
            if (use->role < ROLE_GRADIENT_OF_INPUT)
                there[item_input(item, use->role)] = true;
            else if (use->role == ROLE_OUTPUT)
                there[output] = true;
        }
    }
}

/* What a view shows lies where it lies. */
static void mark_viewed(const struct plan *plan, bool *viewed)
{
    for (int i = 0; i < plan->item_count; i++)
        if (plan->items[i]->view >= 0)
            viewed[item_input(plan->items[i], plan->items[i]->view)] = true;
}

static bool can_be_remade(const struct plan *plan, const struct item *item, const bool *there)
{
    const struct buffer *output = &plan->buffers[plan->values[item->node.output].forms[0].buffer];
    if (!item->node.kernel->pass[PASS_RECOMPUTE] || output->keep)
        return false;
    for (int u = 0; u < item->use_count; u++)
        if (item->uses[u].pass == PASS_RECOMPUTE && item->uses[u].role < ROLE_GRADIENT_OF_INPUT &&
            !there[item_input(item, item->uses[u].role)])
            return false;
    return true;
}

int plan_choose_recomputed(struct plan *plan, struct error *err)
{
    bool *there = ARENA_ARRAY(plan->arena, bool, graph_value_count(plan->graph));
    bool *viewed = ARENA_ARRAY(plan->arena, bool, graph_value_count(plan->graph));
    if (!there || !viewed)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    mark_read(plan, there);
    mark_viewed(plan, viewed);
    for (int i = 0; i < plan->item_count; i++) {
        struct item *item = plan->items[i];
        value_id output = item->node.output;
        if (viewed[output] || !can_be_remade(plan, item, there))
            continue;
        plan->values[output].again = item;
        there[output] = true;
    }
    return 0;
}

/* A value this one is made from that must be brought back before it; negative: none. */
static value_id missing_source(const struct plan *plan, const struct item *item)
{
    for (int u = 0; u < item->use_count; u++) {
        const struct use *use = &item->uses[u];
        if (use->pass == PASS_RECOMPUTE && use->role < ROLE_GRADIENT_OF_INPUT &&
            plan->values[item_input(item, use->role)].again)
            return item_input(item, use->role);
    }
    return -1;
}

static void emit_recompute(struct plan_builder *builder, struct item *item)
{
    struct plan *plan = builder->plan;
    struct plan_value *value = &plan->values[item->node.output];
    struct bound bounds[ITEM_MAX_USES];
    int count = 0;
    for (int u = 0; u < item->use_count; u++) {
        const struct use *use = &item->uses[u];
        if (use->pass != PASS_RECOMPUTE)
            continue;
        buffer_id buffer;
        if (use->role < ROLE_GRADIENT_OF_INPUT)
            buffer = builder_form(builder, item_input(item, use->role), use->layout,
                                  PASS_RECOMPUTE, item->node.node->name)
                         .buffer;
        else if (use->role == ROLE_KEPT)
            buffer = item->kept;
        else
            buffer = builder_add_buffer(builder, BUFFER_SLAB, item->scratch_bytes, 0);
        bounds[count++] = (struct bound){use->role, buffer};
    }
    size_t bytes = layout_bytes(item->output_layout);
    buffer_id output = builder_add_buffer(builder, BUFFER_SLAB, bytes, 0);
    bounds[count++] = (struct bound){ROLE_OUTPUT, output};
    builder_emit_kernel(builder, item, PASS_RECOMPUTE, bounds, count, 0);
    value->forms[0] = (struct form){item->output_layout, output};
    value->form_count = 1;
    value->again = NULL;
    plan->recomputed_bytes += bytes;
}

/* Not by recursion: a chain may be as long as the network. */
void builder_bring_back(struct plan_builder *builder, value_id wanted)
{
    struct plan *plan = builder->plan;
    while (plan->values[wanted].again && !builder->failed) {
        value_id first = wanted;
        for (value_id source = first; source >= 0;) {
            first = source;
            source = missing_source(plan, plan->values[first].again);
        }
        emit_recompute(builder, plan->values[first].again);
    }
}
