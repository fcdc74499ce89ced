/* Operations that one side does not have, named all at once: who has to change a network wants to
 * know everything that is in the way. */
#ifndef CONVERT_UNSUPPORTED_H
#define CONVERT_UNSUPPORTED_H

struct error;

enum { UNSUPPORTED_LISTED = 16 };

struct unsupported {
    int count; /* of different operations */
    char names[UNSUPPORTED_LISTED][48], first_nodes[UNSUPPORTED_LISTED][64];
};

/* `node` is where it was met. */
void unsupported_add(struct unsupported *list, const char *op, const char *node);
/* 0 when the list is empty; else ERROR_FORMAT: "WHAT: A (first in x), B (first in y)". */
int unsupported_refuse(const struct unsupported *list, const char *what, struct error *err);

#endif
