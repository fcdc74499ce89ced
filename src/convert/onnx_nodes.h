/* An ONNX graph under construction: nodes, small constants, the list of weights that follow them in
 * the file. What the nodes mean is the caller's. */
#ifndef CONVERT_ONNX_NODES_H
#define CONVERT_ONNX_NODES_H

#include "base/strbuf.h"
#include "tensor/tensor.h"

/* onnx.proto: TensorProto.DataType */
enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_BOOL = 9 };

/* Fields of a GraphProto, in any order. */
struct onnx_nodes {
    struct strbuf bytes;
    size_t node; /* of the one that is open */
};

void onnx_begin(struct onnx_nodes *nodes, const char *op, const char *name);
void onnx_input(struct onnx_nodes *nodes, const char *value);
void onnx_output(struct onnx_nodes *nodes, const char *value);
void onnx_attr_int(struct onnx_nodes *nodes, const char *name, int64_t value);
void onnx_attr_float(struct onnx_nodes *nodes, const char *name, float value);
void onnx_attr_ints(struct onnx_nodes *nodes, const char *name, const int64_t *values, int count);
void onnx_end(struct onnx_nodes *nodes);

/* A whole node without attributes, whose value has the node's name. */
void onnx_node(struct onnx_nodes *nodes, const char *op, const char *name,
               const char *const *inputs);
#define ONNX_INPUTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Constants: f32 or i64. */
void onnx_const(struct onnx_nodes *nodes, const char *name, const struct tensor *tensor);
void onnx_const_int(struct onnx_nodes *nodes, const char *name, int64_t value); /* [1] */
void onnx_const_float(struct onnx_nodes *nodes, const char *name, float value); /* scalar */

/* What the graph takes and gives. */
enum { ONNX_GRAPH_INPUT = 11, ONNX_GRAPH_OUTPUT = 12 };
void onnx_port(struct onnx_nodes *nodes, uint32_t field, const char *name, enum dtype dtype,
               const struct shape *shape);

/* The start of an initializer whose `bytes` numbers follow in the file: field, length and all of
 * the tensor but the numbers themselves. */
void onnx_weights_header(struct strbuf *out, const char *name, const struct shape *shape,
                         size_t bytes);

/* The whole model around a graph: what stands in front of the graph's fields when they have
 * `graph_bytes`. */
void onnx_model_header(struct strbuf *out, const char *model, size_t graph_bytes);

#endif
