/* The numbers or texts of one tensor while a message's list of them is read. */
#ifndef SERVE_VALUE_LIST_H
#define SERVE_VALUE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"
#include "wire/proto.h"

struct strbuf;

struct value_list {
    enum dtype dtype;
    char *data; /* room for `wanted` values */
    int64_t wanted, filled;
};

/* One field of the list: a text, a number, or several numbers packed together. Values beyond those
 * wanted are passed over, and *over is set; false when the field is of another kind or cut off. */
bool value_list_add(struct value_list *list, const struct proto_reader *reader,
                    const struct proto_field *field, bool *over);
/* False: there was no room. */
bool value_list_add_text(struct value_list *list, const void *bytes, size_t count);

/* Appends the values of a tensor as field `number`, packed. */
void value_list_write(uint32_t number, const struct tensor *tensor, struct strbuf *out);

#endif
