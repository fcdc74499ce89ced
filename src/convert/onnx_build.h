/* From an ONNX file to a graph, by the same building calls that a model in C makes. */
#ifndef CONVERT_ONNX_BUILD_H
#define CONVERT_ONNX_BUILD_H

#include "convert/onnx_file.h"
#include "graph/graph.h"

struct onnx_build_options {
    /* Inputs and outputs have the file's names, order of dimensions and nothing else; no loss. For
     * those who compute with a network rather than train it. Otherwise a picture is the input
     * "image", channels last, and the first output ends in a loss, as data and trainer want it. */
    bool plain;
    int classes;    /* 0, or how many the last layer is to have: another number starts it afresh */
    int image_size; /* 0, or height and width of the picture that goes in */
    float label_smoothing;
};

/* What was found on the way. */
struct onnx_facts {
    int classes;    /* of the first output; 0: it is no classifier */
    int image_size; /* height of the picture; 0: no picture goes in */
    int channels;   /* of the picture */
};

/* Adds the network to `graph`, whose own failures are in graph_finish. Parameters have the names of
 * the file's tensors and start with their numbers, which must outlive the graph; so must `arena`.
 * Fails with everything that cannot be computed, not with the first thing. */
int onnx_build(const struct onnx_file *file, const struct onnx_build_options *options,
               struct arena *arena, struct graph *graph, struct onnx_facts *facts,
               struct error *err);

/* With onnx_build_options.plain: an output that depends on no input is computed while reading and
 * not part of the graph. NULL: it is part of it, or there is no such output. */
const struct onnx_tensor *onnx_constant_output(const struct onnx_file *file, const char *name,
                                               struct arena *arena, struct error *err);

#endif
