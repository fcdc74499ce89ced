/* What the writers of single operations share. Names live in the network's arena; when memory is
 * short they are "" and network->failed is set. */
#ifndef CONVERT_TF_NETWORK_PARTS_H
#define CONVERT_TF_NETWORK_PARTS_H

#include "convert/tf_network.h"

/* "STEM/REST" */
const char *tf_join(struct tf_network *network, const char *stem, const char *rest);
/* The stem of a node's names. */
const char *tf_stem(struct tf_network *network, const struct node *node);
/* The tensor that is the node's input. */
const char *tf_tensor(const struct tf_network *network, const struct node *node, int input);

const struct shape *tf_shape_of(const struct tf_network *network, const struct node *node,
                                int input);

/* Writes what a node computes and returns the name of the result. */
typedef const char *tf_write_fn(struct tf_network *network, const struct node *node);
tf_write_fn tf_write_arithmetic, tf_write_clip, tf_write_embedding, tf_write_new_shape,
    tf_write_softmax, tf_write_unary;

/* Each writes nodes and returns the name of the result. */
const char *tf_write_bias(struct tf_network *network, const struct node *node, const char *x,
                          int input); /* x itself when the node has no such input */
const char *tf_write_reshape(struct tf_network *network, const char *stem, const char *x,
                             const int32_t *dims, int count);
const char *tf_write_concat(struct tf_network *network, const char *stem, const char *const *parts,
                            int count, int axis);
const char *tf_write_transpose(struct tf_network *network, const char *stem, const char *x,
                               const int32_t *order, int count);
/* A node of the same inputs in the same order. */
const char *tf_write_simple(struct tf_network *network, const struct node *node, const char *op);

#endif
