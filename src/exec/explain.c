/* What a plan does, for people: each step's kernel, layout, bytes and share of the time. */
#include "base/strbuf.h"
#include "exec/kernel_rules.h"
#include "exec/plan_internal.h"

static const char *pass_name(const struct step *step)
{
    static const char *const names[] = {"forward", "backward weights", "backward", "recompute"};
    return names[step->pass];
}

int plan_step_count(const struct plan *plan)
{
    return plan->step_count;
}

/* Of a table a step reads a few rows only, and what it writes of them is as large. */
static bool is_table(const struct plan *plan, const struct buffer *buffer)
{
    return buffer->kind == BUFFER_WEIGHT &&
           (params_range(plan->params, buffer->index).flags & PARAM_SPARSE);
}

/* What the step moves through memory, each buffer once. */
static size_t step_bytes(const struct plan *plan, const struct step *step)
{
    size_t bytes = 0;
    for (int b = 0; b < step->bound_count; b++) {
        const struct buffer *buffer = &plan->buffers[step->bounds[b].buffer];
        bytes += is_table(plan, buffer) ? 0 : buffer->bytes;
    }
    return bytes;
}

static const char *fused_text(const struct step *step)
{
    if (!step->item)
        return "";
    const struct plan_node *node = &step->item->node;
    if (node->pool)
        return node->relu ? "+relu+pool" : "+pool";
    if (node->residual >= 0)
        return node->relu ? "+add+relu" : "+add";
    return node->relu ? "+relu" : "";
}

struct plan_step_info plan_step(const struct plan *plan, int index)
{
    const struct step *step = &plan->steps[index];
    static const char *const kinds[] = {"", "reorder", "sum", "relu", "loss", "copy"};
    return (struct plan_step_info){
        .node = step->name,
        .op = step->item ? step->item->node.node->op->name : kinds[step->kind],
        .pass = pass_name(step),
        .kernel = step->kernel,
        .reorder = step->kind == STEP_REORDER,
        .bytes = step_bytes(plan, step),
        .flops = step->flops,
        .seconds = step->seconds,
        .runs = plan->profiled_runs,
        .start = step->start,
        .end = step->end,
        .fused = fused_text(step),
    };
}

static void explain_step(const struct plan *plan, int index, double total, struct strbuf *out)
{
    const struct step *step = &plan->steps[index];
    struct plan_step_info info = plan_step(plan, index);
    char layout[32] = "", op[48];
    if (step->layout)
        layout_text(step->layout, layout, sizeof layout);
    snprintf(op, sizeof op, "%s%s", info.op, info.fused);
    strbuf_addf(out, "%-26s %-24s %-17s %-26s %-8s %9.2f", info.node, op, info.pass, info.kernel,
                layout, (double)info.bytes / 1e6);
    if (total > 0) {
        strbuf_addf(out, " %9.3f %6.2f", info.seconds * 1e3 / plan->profiled_runs,
                    100 * info.seconds / total);
        if (info.flops > 0)
            strbuf_addf(out, " %8.1f", info.flops * plan->profiled_runs / info.seconds / 1e9);
    }
    strbuf_add_char(out, '\n');
}

void plan_explain(const struct plan *plan, struct strbuf *out)
{
    double total = 0;
    for (int s = 0; s < plan->step_count; s++)
        total += plan->steps[s].seconds;
    strbuf_addf(out, "%-26s %-24s %-17s %-26s %-8s %9s", "node", "op", "pass", "kernel", "layout",
                "MB");
    if (total > 0)
        strbuf_addf(out, " %9s %6s %8s", "ms", "%", "GFLOP/s");
    strbuf_add_char(out, '\n');
    for (int s = 0; s < plan->step_count; s++)
        explain_step(plan, s, total, out);
    struct plan_memory memory;
    plan_memory(plan, &memory);
    strbuf_addf(out,
                "memory, MB: parameters %.1f, gradients %.1f, optimizer slots %.1f, activations "
                "%.1f (saved for backward %.1f; %.1f without reuse)",
                (double)memory.parameters / 1e6, (double)memory.gradients / 1e6,
                (double)memory.slots / 1e6, (double)memory.peak / 1e6, (double)memory.saved / 1e6,
                (double)memory.sum / 1e6);
    if (plan->options.recompute)
        strbuf_addf(out, ", recomputed in backward %.1f", (double)memory.recomputed / 1e6);
    strbuf_add_char(out, '\n');
    if (plan->options.kernels)
        strbuf_addf(out, "kernels: %d of %d convolutions as %s says, the others by the fixed rule\n",
                    plan->kernels.told - plan->kernels.unfit, plan->kernels.nodes,
                    kernel_rules_name(plan->options.kernels));
}
