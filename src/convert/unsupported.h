/* Operations that one side does not have, named all at once: who has to change a network wants to
 * know everything that is in the way. */
#ifndef CONVERT_UNSUPPORTED_H
#define CONVERT_UNSUPPORTED_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct graph;
struct node;

enum { UNSUPPORTED_LISTED = 16 };

struct unsupported {
    int count; /* of different operations */
    char names[UNSUPPORTED_LISTED][48], first_nodes[UNSUPPORTED_LISTED][64];
};

/* `node` is where it was met. */
void unsupported_add(struct unsupported *list, const char *op, const char *node);
/* 0 when the list is empty; else ERROR_FORMAT: "WHAT: A (first in x), B (first in y)". */
int unsupported_refuse(const struct unsupported *list, const char *what, struct error *err);

/* Tables of operations begin their rows with the name, a `const char *`: the row of this one, or
 * NULL. */
const void *spelling_find(const void *rows, size_t count, size_t row_bytes, const char *op);
/* Of the nodes that are needed, names those that cannot be said. */
int spelling_check(const struct graph *graph, const bool *needed,
                   bool (*known)(const struct node *node), const char *what, struct error *err);

#endif
