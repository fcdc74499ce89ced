/* An ONNX file taken apart: its nodes, tensors, inputs and outputs, as they stand there. What they
 * mean is in onnx_build.h. */
#ifndef CONVERT_ONNX_FILE_H
#define CONVERT_ONNX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;
struct proto_field;
struct proto_reader;

enum {
    ONNX_MAX_DIMS = 8,
    ONNX_MAX_NODES = 10000, /* and as many tensors; the largest networks have a few thousand */
    ONNX_MAX_PORTS = 1000,  /* inputs, outputs or attributes of one node, or of the file */
};

/* TensorProto.DataType */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16,
};

/* Numbers, row-major. Whatever the file's type, they are floats or integers here. */
struct onnx_tensor {
    const char *name;
    enum onnx_type type; /* in the file */
    int ndim;            /* 0: a single number */
    int64_t dim[ONNX_MAX_DIMS];
    int64_t count;
    const float *floats;     /* of the floating-point types, else NULL... */
    const int64_t *integers; /* ...then these */
};

struct onnx_attribute {
    const char *name;
    int64_t integer;
    float number;
    const char *text;                 /* NULL: none */
    const struct onnx_tensor *tensor; /* likewise */
    int integer_count, number_count;
    const int64_t *integers;
    const float *numbers;
};

struct onnx_node {
    const char *op, *name, *domain;
    int input_count, output_count, attribute_count;
    const char *const *inputs; /* "" where an optional one is left out */
    const char *const *outputs;
    const struct onnx_attribute *attributes;
};

/* An input or output of the whole. */
struct onnx_port {
    const char *name;
    int type;                   /* enum onnx_type; 0: not a tensor, or not said */
    int ndim;                   /* -1: not said */
    int64_t dim[ONNX_MAX_DIMS]; /* -1: any */
};

struct onnx_file {
    int64_t opset;
    bool own; /* this program wrote it */
    int node_count, tensor_count, input_count, output_count;
    const struct onnx_node *nodes; /* in an order in which they can be computed */
    const struct onnx_tensor *tensors;
    const struct onnx_port *inputs, *outputs;
};

/* Trusts nothing. Everything lives in `arena`, but for large tensors, which may stay in `bytes`. */
int onnx_parse(const void *bytes, size_t count, struct arena *arena, struct onnx_file *out,
               struct error *err);
/* A TensorProto on its own, as files of test data are. */
int onnx_parse_tensor(const void *bytes, size_t count, struct arena *arena, struct onnx_tensor *out,
                      struct error *err);

/* For onnx_file.c: the tensor in a field of `outer`. */
int onnx_take_tensor(const struct proto_reader *outer, const struct proto_field *field,
                     struct arena *arena, struct onnx_tensor *out, struct error *err);
/* A text of the message, copied; NULL when memory is short. */
char *onnx_take_text(const struct proto_field *field, struct arena *arena);
/* Appends the integers, or floats, of a field, packed or single; counts only where `out` is NULL. */
int onnx_take_integers(const struct proto_reader *reader, const struct proto_field *field,
                       int64_t *out, int64_t *count, int64_t limit, struct error *err);
int onnx_take_floats(const struct proto_reader *reader, const struct proto_field *field, float *out,
                     int64_t *count, int64_t limit, struct error *err);

#endif
