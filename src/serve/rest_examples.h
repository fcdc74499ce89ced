/* Bodies of classify and regress: a list of JSON objects as tf.Examples, and labels with scores. */
#ifndef SERVE_REST_EXAMPLES_H
#define SERVE_REST_EXAMPLES_H

#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct classification;
struct error;
struct rest_body;
struct strbuf;

/* Serialized tf.Examples in the arena; `context` has count 0 when there is none. */
int rest_examples_read(const struct rest_body *body, struct arena *arena,
                       struct text_view **examples, int64_t *count, struct text_view *context,
                       struct error *err);
void rest_classification_write(const struct classification *result, struct strbuf *out);
void rest_regression_write(const float *values, int64_t rows, struct strbuf *out);

#endif
