/* From TensorFlow's nodes to a graph of ours: tensors are followed back from the signature's outputs
 * to its inputs, through calls of functions. */
#ifndef CONVERT_TF_IMPORT_H
#define CONVERT_TF_IMPORT_H

#include "convert/signatures.h"
#include "convert/tf_parse.h"
#include "convert/unsupported.h"
#include "graph/graph.h"

enum import_kind {
    IMPORT_NOTHING, /* something on the way was not understood; it is in the list */
    IMPORT_VALUE,   /* of our graph */
    IMPORT_CONSTANT,
    IMPORT_VARIABLE, /* the handle */
    IMPORT_WEIGHTS,  /* what a variable holds */
    IMPORT_PRODUCT,  /* of a convolution or matrix that may still get a bias */
    IMPORT_SCALED,   /* a value times a number per channel, which may still get one added */
    IMPORT_ANSWER,   /* softmax or argmax of a value */
    IMPORT_SHAPE,    /* of a value */
    IMPORT_BATCH,    /* the first dimension of a value */
};

struct import_product;
struct import_numbers;

struct import_value {
    enum import_kind kind;
    value_id id; /* IMPORT_VALUE, IMPORT_ANSWER */
    enum answer_kind answer;
    struct tensor constant;
    const struct tf_def_node *variable;   /* IMPORT_VARIABLE, IMPORT_WEIGHTS... */
    const struct import_numbers *numbers; /* ...or these; of IMPORT_SCALED the factors */
    bool is_vector; /* of weights: seen as [count], however many 1 there are around it */
    struct import_product *product;
    /* Pictures are N, H, W, C in TensorFlow and N, C, H, W here. */
    bool channels_first; /* a Transpose made it as ours */
    int64_t flat[3];     /* height, width, channels that a row was flattened from; 0: as ours */
    int64_t pads[4];     /* zeros around it, not yet added: top, bottom, left, right */
};

/* What is computed from weights alone, as Keras writes out its batch norm: element by element, of
 * vectors and single numbers. */
enum import_sum { SUM_SAME, SUM_ADD, SUM_SUBTRACT, SUM_MULTIPLY, SUM_INVERSE_ROOT };
struct import_numbers {
    enum import_sum sum;
    struct import_value a, b;
    int64_t count;
};

/* Numbers that a parameter gets when the graph is done. */
enum import_turn { TURN_NONE, TURN_CONVOLUTION, TURN_MATRIX, TURN_MATRIX_TRANSPOSED };
struct import_load {
    value_id param;
    struct import_value source;
    enum import_turn turn;
    int64_t flat[3]; /* of a matrix, as above */
};

struct import_frame;

struct import {
    const struct tf_def_model *model;
    struct arena *arena;
    struct graph *graph;
    struct unsupported unsupported;
    struct import_load *loads;
    int load_count, load_room;
    int64_t visits; /* of nodes, through all calls: bounded */
    struct error *err;
    bool failed; /* err says why */
};

/* What a tensor of the main graph is; IMPORT_NOTHING when it cannot be said. */
struct import_value import_tensor(struct import *import, struct import_frame *frame,
                                  const char *tensor);
/* The main graph; in the arena. */
struct import_frame *import_main_frame(struct import *import);
/* Says beforehand what a tensor of the main graph is. */
void import_set(struct import *import, struct import_frame *frame, const char *tensor,
                struct import_value value);
/* A product without a bias becomes a value. */
struct import_value import_settle(struct import *import, struct import_value value);

/* ---- between the walk and the operations ---- */

/* A few bytes may promise any size; nothing that large is followed. */
bool import_is_sensible(const struct shape *shape);
/* Of weights; false when it is not known or not sensible. */
bool import_weights_shape(const struct import_value *value, struct shape *out);
bool import_is_weights(const struct import_value *value);
/* Add, Sub, Mul, Rsqrt where at least one side is weights and none is a product: numbers, or a value
 * scaled and shifted channel by channel. */
struct import_value import_arithmetic(struct import *import, const struct tf_def_node *node,
                                      struct import_value a, struct import_value b);
/* A scaled value that nothing is added to. */
struct import_value import_unshifted(struct import *import, struct import_value value);

struct import_value import_input(struct import *import, struct import_frame *frame,
                                 const struct tf_def_node *node, int input);
/* Converts one node that is no call; its first output. */
struct import_value import_node(struct import *import, struct import_frame *frame,
                                const struct tf_def_node *node);
struct import_value import_refuse(struct import *import, const struct tf_def_node *node);
bool import_add_load(struct import *import, value_id param, const struct import_value *source,
                     enum import_turn turn, const int64_t flat[3]);

#endif
