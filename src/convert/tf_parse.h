/* A SavedModel's message taken apart: nodes, functions and signatures as they stand there, with
 * nothing understood yet. The bytes come from outside: read by the bounded reader, every name
 * checked, every count limited. */
#ifndef CONVERT_TF_PARSE_H
#define CONVERT_TF_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"
#include "wire/proto.h"

struct arena;
struct error;

struct tf_def_node {
    const char *name, *op;
    const char *const *inputs; /* control edges left out */
    int input_count;
    const uint8_t *bytes; /* the message, for its attributes */
    size_t byte_count;
    int index; /* in its graph */
};

struct tf_def_graph {
    struct tf_def_node *nodes;
    int count;
    const struct tf_def_node **sorted; /* by name */
};

struct tf_def_function {
    const char *name;
    struct tf_def_graph body;
    const char **arguments;
    int argument_count;
    const char **outputs; /* names in the signature... */
    const char **results; /* ...and the tensors of the body; NULL: none is given */
    int output_count;
};

struct tf_def_port {
    const char *key, *tensor;
    int type;
    bool known_shape;
    struct shape shape; /* an unknown dimension is -1 */
};

struct tf_def_signature {
    const char *name, *method;
    struct tf_def_port *inputs, *outputs;
    int input_count, output_count;
};

struct tf_def_model {
    struct tf_def_graph graph;
    struct tf_def_function *functions;
    int function_count;
    struct tf_def_signature *signatures;
    int signature_count;
};

/* Of the graph with the tag "serve". `bytes` must stay; texts and lists live in `arena`, `name`
 * goes into messages. */
int tf_parse(const char *name, const void *bytes, size_t count, struct arena *arena,
             struct tf_def_model *out, struct error *err);

const struct tf_def_node *tf_find_node(const struct tf_def_graph *graph, const char *name,
                                       size_t length);
const struct tf_def_function *tf_find_function(const struct tf_def_model *model, const char *name);

/* Attributes of a node; the default when it has none of the name, or of another kind. */
int64_t tf_def_int(const struct tf_def_node *node, const char *name, int64_t missing);
bool tf_def_bool(const struct tf_def_node *node, const char *name, bool missing);
float tf_def_float(const struct tf_def_node *node, const char *name, float missing);
/* Is the text this one? */
bool tf_def_text_is(const struct tf_def_node *node, const char *name, const char *text,
                    bool missing);
/* As many as there are, at most `room`; -1: no such list. */
int tf_def_ints(const struct tf_def_node *node, const char *name, int64_t *out, int room);
/* The function's name in `arena`, or NULL. */
const char *tf_def_function_name(const struct tf_def_node *node, const char *name,
                                 struct arena *arena);
/* A constant; fails for types that are none of ours. Numbers and texts are in `arena`. */
int tf_def_tensor(const struct tf_def_node *node, const char *name, struct arena *arena,
                  struct tensor *out, struct error *err);
/* False: of unknown or too high rank. */
bool tf_read_shape(struct proto_reader reader, struct shape *out);
/* The message of an attribute's value, of the given kind. */
bool tf_def_message(const struct tf_def_node *node, const char *name, uint32_t kind,
                    struct proto_reader *out);
bool tf_def_shape(const struct tf_def_node *node, const char *name, struct shape *out);

#endif
