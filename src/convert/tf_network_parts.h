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

/* Each writes nodes and returns the name of the result. */
const char *tf_write_bias(struct tf_network *network, const struct node *node, const char *x,
                          int input); /* x itself when the node has no such input */
const char *tf_write_reshape(struct tf_network *network, const char *stem, const char *x,
                             const int32_t *dims, int count);
const char *tf_write_concat(struct tf_network *network, const char *stem, const char *const *parts,
                            int count, int axis);
const char *tf_write_embedding(struct tf_network *network, const struct node *node);

#endif
