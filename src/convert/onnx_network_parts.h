/* What the writers of single operations share. Names live in the network's arena; when memory is
 * short they are "" and network->failed is set. */
#ifndef CONVERT_ONNX_NETWORK_PARTS_H
#define CONVERT_ONNX_NETWORK_PARTS_H

#include "convert/onnx_network.h"

struct error;

/* "STEM/REST" */
const char *onnx_join(struct onnx_network *network, const char *stem, const char *rest);
/* The value that is the node's input. */
const char *onnx_name_of(const struct onnx_network *network, const struct node *node, int input);

/* A node of the same inputs in the same order: still open, or whole. */
const char *onnx_begin_like(struct onnx_network *network, const struct node *node, const char *op);
const char *onnx_write_simple(struct onnx_network *network, const struct node *node,
                              const char *op);

/* Writes what a node computes and returns the name of the result, or NULL with `err` filled. */
typedef const char *onnx_write_fn(struct onnx_network *network, const struct node *node,
                                  struct error *err);
onnx_write_fn onnx_write_arithmetic, onnx_write_clip, onnx_write_reshape, onnx_write_softmax,
    onnx_write_unary;

#endif
