#include "convert/unsupported.h"

#include "base/error.h"
#include "graph/op.h"

void unsupported_add(struct unsupported *list, const char *op, const char *node)
{
    int listed = list->count < UNSUPPORTED_LISTED ? list->count : UNSUPPORTED_LISTED;
    for (int i = 0; i < listed; i++)
        if (!strncmp(list->names[i], op, sizeof list->names[i] - 1))
            return;
    if (list->count < UNSUPPORTED_LISTED) {
        snprintf(list->names[list->count], sizeof list->names[0], "%s", op);
        snprintf(list->first_nodes[list->count], sizeof list->first_nodes[0], "%s", node);
    }
    list->count++;
}

int unsupported_refuse(const struct unsupported *list, const char *what, struct error *err)
{
    char text[448];
    size_t used = 0;
    if (list->count == 0)
        return 0;
    for (int i = 0; i < list->count && i < UNSUPPORTED_LISTED && used < sizeof text; i++) {
        int added = snprintf(text + used, sizeof text - used, "%s%s (first in %s)", i ? ", " : "",
                             list->names[i], list->first_nodes[i]);
        used += added > 0 ? (size_t)added : 0;
    }
    if (used >= sizeof text - 4)
        memcpy(text + sizeof text - 4, "...", 4);
    return error_set(err, ERROR_FORMAT, "%s %s", what, text);
}

const void *spelling_find(const void *rows, size_t count, size_t row_bytes, const char *op)
{
    for (size_t i = 0; i < count; i++) {
        const void *row = (const char *)rows + i * row_bytes;
        const char *name;
        memcpy(&name, row, sizeof name);
        if (!strcmp(name, op))
            return row;
    }
    return NULL;
}

int spelling_check(const struct graph *graph, const bool *needed,
                   bool (*known)(const struct node *node), const char *what, struct error *err)
{
    struct unsupported list = {0};
    for (int i = 0; i < graph_node_count(graph); i++) {
        const struct node *node = graph_node_at(graph, i);
        if (needed[node->output] && !known(node))
            unsupported_add(&list, node->op->name, node->name);
    }
    return unsupported_refuse(&list, what, err);
}
