/* A graph of ours as ONNX nodes. */
#ifndef CONVERT_ONNX_NETWORK_H
#define CONVERT_ONNX_NETWORK_H

#include "convert/onnx_nodes.h"
#include "graph/graph.h"

struct arena;
struct params;

/* The name of each value, by value_id: the caller fills in those of the inputs, onnx_network_write
 * the others. A parameter without a name is written by its operation and not among the weights. */
struct onnx_network {
    const struct graph *graph;
    const struct params *params;
    const bool *needed; /* as signatures_needed gives it */
    const char **names;
    struct arena *arena;
    struct onnx_nodes nodes;
    bool failed; /* memory was short */
};

int onnx_network_write(struct onnx_network *network, struct error *err);

#endif
