/* Bodies of TF Serving's REST interface: tensors by rows ("instances") or by columns ("inputs"), and
 * the answers to them. */
#ifndef SERVE_REST_PREDICT_H
#define SERVE_REST_PREDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct json_scan;
struct signature;
struct signature_tensor;
struct strbuf;

/* What a body has, found without looking into it. */
struct rest_body {
    struct text_view signature;                            /* count 0: the default */
    struct text_view instances, inputs, examples, context; /* whole values; count 0: not there */
};
int rest_body_read(const char *text, size_t bytes, struct arena *arena, struct rest_body *out,
                   struct error *err);

/* Fills signature->input_count tensors in the arena, and says how many rows they have; *by_rows: in
 * which format the answer must be. Texts may be views into the body. */
int rest_predict_read(const struct rest_body *body, const struct signature *signature,
                      struct arena *arena, struct tensor *inputs, int64_t *rows, bool *by_rows,
                      struct error *err);
/* A tensor from nested lists whose first has the rows (or, `flat`, from one list of all elements, of
 * a shape that the caller knows and set); for this file and the Open Inference Protocol. */
int rest_tensor_read(struct json_scan *scan, const struct signature_tensor *wanted, bool flat,
                     struct arena *arena, struct tensor *out, struct error *err);

void rest_predict_write(const struct signature *signature, const struct tensor *outputs,
                        int64_t rows, bool by_rows, struct strbuf *out);

/* Kinds of numbers as the two protocols name them. */
const char *rest_tf_type(enum dtype dtype); /* "DT_FLOAT" */
const char *rest_v2_type(enum dtype dtype); /* "FP32", "BYTES" */

/* JSON's parts, as TF Serving writes them: 3.0 rather than 3, NaN and Infinity as they are. */
void rest_write_float(struct strbuf *out, float value);
/* What is not UTF-8 becomes U+FFFD. */
void rest_write_text(struct strbuf *out, const char *bytes, size_t count);
/* All elements of rows [row, row + 1) (or, row < 0, of all), nested as the shape says. */
void rest_write_tensor(struct strbuf *out, const struct tensor *tensor, int64_t row, bool binary);
/* The same in one list. */
void rest_write_flat(struct strbuf *out, const struct tensor *tensor);

#endif
