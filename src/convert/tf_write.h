/* TensorFlow's GraphDef under construction: nodes with their inputs and attributes, appended one by
 * one. What they mean is the caller's. A failed allocation stays in the strbuf. */
#ifndef CONVERT_TF_WRITE_H
#define CONVERT_TF_WRITE_H

#include "base/strbuf.h"
#include "convert/tf_types.h"
#include "tensor/tensor.h"

/* Nodes of a graph, or of a function's body, whose field has another number. */
struct tf_nodes {
    struct strbuf bytes;
    uint32_t field;
    size_t node; /* of the one that is open */
};

enum { TF_GRAPH_NODE = 1, TF_FUNCTION_NODE = 3 };

void tf_nodes_init(struct tf_nodes *nodes, uint32_t field);
void tf_nodes_release(struct tf_nodes *nodes);

/* Everything between begin and end belongs to one node. "^NAME" as an input is a control edge. */
void tf_begin(struct tf_nodes *nodes, const char *op, const char *name);
void tf_input(struct tf_nodes *nodes, const char *tensor);
void tf_attr_type(struct tf_nodes *nodes, const char *name, int type);
void tf_attr_int(struct tf_nodes *nodes, const char *name, int64_t value);
void tf_attr_bool(struct tf_nodes *nodes, const char *name, bool value);
void tf_attr_float(struct tf_nodes *nodes, const char *name, float value);
void tf_attr_text(struct tf_nodes *nodes, const char *name, const char *value);
void tf_attr_shape(struct tf_nodes *nodes, const char *name, const struct shape *shape);
void tf_attr_ints(struct tf_nodes *nodes, const char *name, const int64_t *values, int count);
void tf_attr_types(struct tf_nodes *nodes, const char *name, const int *types, int count);
/* `count` times the same; 0: an empty list. */
void tf_attr_shapes(struct tf_nodes *nodes, const char *name, const struct shape *shape, int count);
void tf_attr_function(struct tf_nodes *nodes, const char *name, const char *function);
void tf_attr_tensor(struct tf_nodes *nodes, const char *name, const struct tensor *tensor);
void tf_end(struct tf_nodes *nodes);

/* Whole nodes that come often. Inputs are listed up to the first NULL. */
void tf_node(struct tf_nodes *nodes, const char *op, const char *name, int type,
             const char *const *inputs);
void tf_const(struct tf_nodes *nodes, const char *name, const struct tensor *tensor);
void tf_const_int(struct tf_nodes *nodes, const char *name, int32_t value);
void tf_const_ints(struct tf_nodes *nodes, const char *name, const int32_t *values, int count);
void tf_const_float(struct tf_nodes *nodes, const char *name, float value);
void tf_const_texts(struct tf_nodes *nodes, const char *name, const char *const *texts, int count);

#define TF_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Messages that stand outside nodes, too. */
void tf_put_shape(struct strbuf *out, uint32_t field, const struct shape *shape);
void tf_put_tensor(struct strbuf *out, uint32_t field, const struct tensor *tensor);

#endif
