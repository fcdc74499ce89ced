/* A graph of ours as TensorFlow's nodes. Pictures are N, H, W, C there, as TensorFlow's kernels for
 * processors want them; parameters are resource variables. */
#ifndef CONVERT_TF_NETWORK_H
#define CONVERT_TF_NETWORK_H

#include "convert/tf_write.h"
#include "graph/graph.h"

struct arena;

/* The tensor of each value, by value_id: the caller fills in those of the inputs ("input_tensor"),
 * whose categories are texts [N, columns], not fingerprints; tf_network_write the others. */
struct tf_network {
    const struct graph *graph;
    const bool *needed; /* as signatures_needed gives it */
    const char **tensors;
    struct arena *arena;
    struct tf_nodes *nodes;
    bool failed; /* memory was short */
};

/* Writes the variables and all that the outputs need. Operations that TensorFlow has no word for
 * are named all at once. */
int tf_network_write(struct tf_network *network, struct error *err);

/* A parameter as TensorFlow stores it: weights of a convolution are height, width, in, out there,
 * all others as we have them. */
struct tf_variable {
    const char *name;
    struct shape shape;
    bool convolution;
};
struct tf_variable tf_variable_of(const struct graph *graph, value_id param, struct arena *arena);
/* From our order to TensorFlow's, or back. */
void tf_variable_turn(const struct shape *ours, const float *in, float *out);
void tf_variable_turn_back(const struct shape *ours, const float *in, float *out);

/* A name that TensorFlow allows. */
const char *tf_name(const char *name, struct arena *arena);

#endif
