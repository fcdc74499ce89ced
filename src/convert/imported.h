/* A trained network read from an export, ready to be computed, and how others ask it: a plan knows
 * only its graph's inputs and outputs; clients know signatures, which speak of encoded pictures,
 * columns of a table and names of classes. What lies between the two is done here, row by row, so
 * that every door gives the same answers. */
#ifndef CONVERT_IMPORTED_H
#define CONVERT_IMPORTED_H

#include <stdbool.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct graph;
struct params;
struct question;
struct answer;

/* A tensor that clients see. */
struct signature_tensor {
    const char *key;    /* what clients say: "input_tensor", "I1", "probabilities" */
    const char *tensor; /* in the SavedModel's graph: "input_tensor:0" */
    enum dtype dtype;   /* DTYPE_STRING: encoded pictures, categories, class names */
    struct shape shape; /* SHAPE_BATCH first; the order in memory (pictures: N, H, W, C) */
};

struct signature {
    const char *name;   /* "serving_default", "predict", ... */
    const char *method; /* "tensorflow/serving/predict", ".../classify", ".../regress" */
    const struct signature_tensor *inputs, *outputs;
    int input_count, output_count;
    const struct question *questions; /* how each input is taken: signatures.h */
    const struct answer *answers;     /* how each output is made */
};

/* An input or output of a PLAN_SERVE of the graph, in the plan's order: the shape has SHAPE_BATCH
 * first and is the order in memory. */
struct imported_port {
    const char *name;
    enum dtype dtype;
    struct shape shape;
};

struct imported {
    const char *model; /* its name: resnet50, wide_deep, ...; "" when the export has none */
    bool built_in;     /* it is this program's network of the name, not another one */
    struct graph *graph;
    struct params *params; /* filled; plans made for PLAN_SERVE share it */
    const struct imported_port *inputs, *outputs;
    int input_count, output_count;
    const struct signature *signatures;
    int signature_count;
    const char *const *labels; /* names of the classes, in their order; NULL: none travelled */
    int label_count;
    struct imported_memory *memory; /* what all of this lives in */
};

/* DIRECTORY is one version: saved_model.pb, variables/, assets/, perhaps model.onnx. Ours, or
 * TensorFlow's as far as we have its operators; those we lack are named all at once
 * (ERROR_FORMAT). Trusts nothing that it reads. */
int imported_read(const char *directory, struct imported **out, struct error *err);
/* Or, in place of the directory, an ONNX file: is this one? */
bool imported_is_file(const char *path);
void imported_destroy(struct imported *model); /* accepts NULL */
/* NULL or "" is "serving_default". NULL when there is none of the name. */
const struct signature *imported_signature(const struct imported *model, const char *name);

/* How many classes its logits tell apart; 0 when it has none. */
int imported_classes(const struct imported *model);

/* Writes a request's rows into rows [at, at + rows) of what the plan will compute: `request` has
 * input_count tensors in the order of signature->inputs, whose dtypes and shapes (with `rows` for
 * the batch) the caller has checked; `plan_inputs` are in the order of model->inputs and have room.
 * A bad value (a picture that cannot be decoded) is ERROR_FORMAT naming input and row. Any thread;
 * several at a time. */
int imported_prepare(const struct imported *model, const struct signature *signature,
                     const struct tensor *request, int64_t rows, struct tensor *plan_inputs,
                     int64_t at, struct error *err);
/* From rows [at, at + rows) of the plan's outputs, in the order of model->outputs, to `reply`, in
 * the order of signature->outputs; its tensors' memory comes from `arena`, the bytes of texts live
 * as long as the model. Any thread. */
int imported_finish(const struct imported *model, const struct signature *signature,
                    const struct tensor *plan_outputs, int64_t at, int64_t rows,
                    struct arena *arena, struct tensor *reply, struct error *err);

#endif
