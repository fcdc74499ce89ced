#include <inttypes.h>

#include "base/strbuf.h"
#include "graph/graph.h"
#include "graph/op.h"

static void print_inputs(const struct graph *graph, const struct node *node, struct strbuf *out)
{
    const char *separator = "";
    for (int i = 0; i < node->input_count; i++) {
        const struct value *value = graph_value(graph, node->inputs[i]);
        if (value->kind == VALUE_PARAM)
            continue;
        strbuf_addf(out, "%s%s", separator, value->name);
        separator = ", ";
    }
}

static int64_t node_parameters(const struct graph *graph, const struct node *node)
{
    int64_t count = 0;
    for (int i = 0; i < node->input_count; i++) {
        const struct value *value = graph_value(graph, node->inputs[i]);
        if (value->kind == VALUE_PARAM && (value->flags & PARAM_TRAINABLE))
            count += shape_count(&value->shape);
    }
    return count;
}

void graph_print(const struct graph *graph, struct strbuf *out)
{
    char shape[96];
    for (int i = 0; i < graph_input_count(graph); i++) {
        const struct value *value = graph_value(graph, graph_input_value(graph, i));
        strbuf_addf(out, "%-28s %-22s %-24s %s%s\n", value->name, "input",
                    shape_text(&value->shape, shape, sizeof shape), dtype_name(value->dtype),
                    value->channels_last ? ", channels last" : "");
    }
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        const struct value *value = graph_value(graph, node->output);
        strbuf_addf(out, "%-28s %-22s %-24s ", node->name, node->op->name,
                    shape_text(&value->shape, shape, sizeof shape));
        int64_t parameters = node_parameters(graph, node);
        if (parameters)
            strbuf_addf(out, "%12" PRId64 "  ", parameters);
        else
            strbuf_addf(out, "%12s  ", "");
        print_inputs(graph, node, out);
        strbuf_add_char(out, '\n');
    }
    strbuf_addf(out, "%" PRId64 " trainable parameters\n", graph_parameter_elements(graph));
}
