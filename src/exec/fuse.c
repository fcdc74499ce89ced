/* Which nodes of the graph a plan runs, and which of them become part of a neighbour. The graph
 * itself is never changed; every fusion here has a test that compares it with the plan made with
 * options.unfused. */
#include "base/arena.h"
#include "base/error.h"
#include "exec/kernel_rules.h"
#include "exec/known_ops.h"
#include "exec/plan_internal.h"

/* What the plan's rules say about this node; NULL: nothing. */
static const char *told_kernel(struct plan *plan, const struct node *node)
{
    char key[KERNEL_KEY_BYTES];
    if (!plan->options.kernels || !kernel_rules_key(plan->graph, node, plan->options.batch, key))
        return NULL;
    const char *told = kernel_rules_find(plan->options.kernels, key);
    plan->kernels.nodes++;
    plan->kernels.told += told != NULL;
    return told;
}

static const struct op_kernel *choose_kernel(struct plan *plan, const struct plan_node *node)
{
    struct plan_builder view = {.plan = plan};
    const struct op_kernel *first = NULL;
    const char *told = told_kernel(plan, node->node);
    for (const struct op_kernel *const *kernel = node->node->op->kernels; *kernel; kernel++) {
        if ((*kernel)->fits && !(*kernel)->fits(&view, node))
            continue;
        bool pays = !(*kernel)->pays || (*kernel)->pays(&view, node);
        if (told ? strcmp(told, (*kernel)->name) == 0 : pays)
            return *kernel;
        if (pays && !first)
            first = *kernel;
    }
    plan->kernels.unfit += told != NULL;
    return first;
}

/* Marks the values that outputs and loss depend on. */
static void mark_needed(const struct plan *plan, bool *needed)
{
    for (int i = 0; i < plan->output_count; i++)
        needed[plan->outputs[i]] = true;
    for (int n = graph_node_count(plan->graph) - 1; n >= 0; n--) {
        const struct node *node = graph_node_at(plan->graph, n);
        if (needed[node->output])
            for (int i = 0; i < node->input_count; i++)
                needed[node->inputs[i]] = true;
    }
}

static void count_consumers(struct plan *plan, const bool *needed)
{
    for (int i = 0; i < plan->output_count; i++)
        plan->values[plan->outputs[i]].consumers++;
    for (int n = 0; n < graph_node_count(plan->graph); n++) {
        const struct node *node = graph_node_at(plan->graph, n);
        if (needed[node->output])
            for (int i = 0; i < node->input_count; i++)
                plan->values[node->inputs[i]].consumers++;
    }
}

/* Gradients are wanted of what is trainable and of all that depends on it. */
static void mark_gradients(struct plan *plan)
{
    if (plan->options.mode != PLAN_TRAIN)
        return;
    for (value_id v = 0; v < graph_value_count(plan->graph); v++) {
        const struct value *value = graph_value(plan->graph, v);
        bool input = value->kind == VALUE_INPUT && value->dtype == DTYPE_F32;
        plan->values[v].wants_gradient =
            (value->kind == VALUE_PARAM && (value->flags & PARAM_TRAINABLE)) ||
            (input && plan->options.want_input_gradient);
    }
    for (int n = 0; n < graph_node_count(plan->graph); n++) {
        const struct node *node = graph_node_at(plan->graph, n);
        for (int i = 0; i < node->input_count; i++)
            if (plan->values[node->inputs[i]].wants_gradient)
                plan->values[node->output].wants_gradient = true;
    }
}

static struct item *item_making(const struct plan *plan, value_id value)
{
    for (int i = plan->item_count - 1; i >= 0; i--)
        if (plan->items[i]->node.output == value)
            return plan->items[i];
    return NULL;
}

static bool used_once(const struct plan *plan, value_id value)
{
    return plan->values[value].consumers == 1;
}

/* x -> relu: into whatever can apply one at its end. */
static bool fuse_relu(struct plan *plan, const struct node *node)
{
    struct item *before = item_making(plan, node->inputs[0]);
    if (node->op != &op_relu || !before || !used_once(plan, node->inputs[0]) || before->node.relu ||
        !(before->node.kernel->relu || before->node.kernel->relu_forward))
        return false;
    before->node.relu = true;
    before->node.output = node->output;
    return true;
}

static bool can_add_residual(const struct plan *plan, const struct op_kernel *kernel)
{
    return kernel->residual || (kernel->residual_serving && plan->options.mode == PLAN_SERVE);
}

/* a + b: into the later of the two, when its kernel can add a residual before it ends. */
static bool fuse_add(struct plan *plan, const struct node *node)
{
    if (node->op != &op_add)
        return false;
    struct item *a = item_making(plan, node->inputs[0]), *b = item_making(plan, node->inputs[1]);
    bool b_is_later = b && (!a || b->node.node->index > a->node.node->index);
    struct item *later = b_is_later ? b : a;
    value_id own = node->inputs[b_is_later ? 1 : 0], other = node->inputs[b_is_later ? 0 : 1];
    if (!later || own == other || !used_once(plan, own) || later->node.relu ||
        later->node.residual >= 0 || !can_add_residual(plan, later->node.kernel))
        return false;
    later->node.residual = other;
    later->node.output = node->output;
    return true;
}

/* Serving: batch norm is a linear map of fixed numbers, so it joins the convolution's weights. */
static bool fold_batch_norm(struct plan *plan, const struct node *node)
{
    struct item *before = item_making(plan, node->inputs[0]);
    if (plan->options.mode != PLAN_SERVE || node->op != &op_batch_norm || !before ||
        before->node.node->op != &op_conv2d || !used_once(plan, node->inputs[0]) ||
        before->node.relu || before->node.residual >= 0 || before->node.folded || before->node.pool)
        return false;
    /* The shift takes the place of the bias, whether the convolution had one or not. */
    value_id *inputs = ARENA_ARRAY(plan->arena, value_id, 3);
    if (!inputs)
        return false;
    inputs[0] = before->node.inputs[0];
    inputs[1] = before->node.inputs[1];
    inputs[2] = node->inputs[BATCH_NORM_SHIFT];
    before->node.inputs = inputs;
    before->node.input_count = 3;
    before->node.folded = node;
    before->node.output = node->output;
    return true;
}

/* max pool: into a kernel that pools what it computes, so that the full picture is never stored.
 * A ReLU in between may stay where it is: the two change places without changing a number. */
static bool fuse_pool(struct plan *plan, const struct node *node)
{
    struct item *before = item_making(plan, node->inputs[0]);
    if (node->op != &op_max_pool || !before || !used_once(plan, node->inputs[0]) ||
        before->node.pool || before->node.residual >= 0 || !before->node.kernel->pools ||
        !before->node.kernel->pools(plan->graph, &before->node, node))
        return false;
    before->node.pool = node;
    before->node.output = node->output;
    return true;
}

/* relu -> max pool: the largest of some numbers cut at zero is the largest, cut at zero, so the
 * ReLU and its gradient can run on the pooled picture, which has a quarter of the elements. */
static void move_relu_behind_pool(struct plan *plan, struct item *pool)
{
    value_id x = pool->node.inputs[0];
    struct item *before = item_making(plan, x);
    if (pool->node.node->op != &op_max_pool || !before || !before->node.relu ||
        !before->node.kernel->relu_forward || !used_once(plan, x))
        return;
    const struct node *relu_node =
        graph_node_at(plan->graph, graph_value(plan->graph, x)->producer);
    value_id *inputs = ARENA_NEW(plan->arena, value_id);
    if (relu_node->op != &op_relu || !inputs)
        return;
    inputs[0] = relu_node->inputs[0];
    before->node.relu = false;
    before->node.output = inputs[0];
    pool->node.inputs = inputs;
    pool->node.relu = true;
}

/* flatten -> dense: the product takes the picture as its kernel left it; no copy to row-major. */
static void look_through_flatten(struct plan *plan, struct item *dense)
{
    value_id x = dense->node.inputs[0];
    if (dense->node.node->op != &op_dense || graph_value(plan->graph, x)->kind != VALUE_RESULT)
        return;
    struct item *flatten = item_making(plan, x);
    if (!flatten || flatten->node.node->op != &op_flatten || !used_once(plan, x))
        return;
    value_id *inputs = ARENA_ARRAY(plan->arena, value_id, dense->node.input_count);
    if (!inputs)
        return;
    memcpy(inputs, dense->node.inputs, sizeof *inputs * (size_t)dense->node.input_count);
    inputs[0] = flatten->node.inputs[0];
    dense->node.inputs = inputs;
    for (int i = 0; i < plan->item_count; i++)
        if (plan->items[i] == flatten)
            memmove(&plan->items[i], &plan->items[i + 1],
                    sizeof(struct item *) * (size_t)(--plan->item_count - i));
}

static int add_item(struct plan *plan, const struct node *node, struct error *err)
{
    struct item *item = ARENA_NEW(plan->arena, struct item);
    if (!item)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    *item = (struct item){.node = {.node = node,
                                   .inputs = node->inputs,
                                   .input_count = node->input_count,
                                   .output = node->output,
                                   .residual = -1},
                          .overwrite = -1,
                          .view = -1,
                          .sparse_input = -1,
                          .workspace = NO_BUFFER,
                          .kept = NO_BUFFER};
    /* First, for kernels differ in whether they can read a picture. */
    if (!plan->options.unfused)
        look_through_flatten(plan, item);
    item->node.kernel = choose_kernel(plan, &item->node);
    if (!item->node.kernel)
        return error_set(err, ERROR_KERNEL, "%s: no kernel of %s fits", node->name, node->op->name);
    item->node.kernel_name = item->node.kernel->name;
    if (!plan->options.unfused)
        move_relu_behind_pool(plan, item);
    plan->items[plan->item_count++] = item;
    return 0;
}

int plan_select_items(struct plan *plan, struct error *err)
{
    bool *needed = ARENA_ARRAY(plan->arena, bool, graph_value_count(plan->graph));
    plan->items = ARENA_ARRAY(plan->arena, struct item *, graph_node_count(plan->graph) + 1);
    if (!needed || !plan->items)
        return error_set(err, ERROR_MEMORY, "no memory for a plan");
    mark_needed(plan, needed);
    count_consumers(plan, needed);
    mark_gradients(plan);
    for (int n = 0; n < graph_node_count(plan->graph); n++) {
        const struct node *node = graph_node_at(plan->graph, n);
        if (!needed[node->output])
            continue;
        bool fused =
            !plan->options.unfused && (fold_batch_norm(plan, node) || fuse_add(plan, node) ||
                                       fuse_relu(plan, node) || fuse_pool(plan, node));
        if (!fused && add_item(plan, node, err) < 0)
            return -1;
    }
    return 0;
}
