/* Classify and Regress: tf.Examples as the inputs of a signature, and its outputs as labels and
 * scores. Both doors use it. */
#ifndef SERVE_EXAMPLES_H
#define SERVE_EXAMPLES_H

#include <stdint.h>

#include "serve/status.h"
#include "tensor/tensor.h"

struct arena;
struct error;
struct imported;
struct signature;

enum { EXAMPLES_MAX = 65536 };

/* The signature that a Classify or Regress with this name means ("" or NULL: serving_default). A
 * signature whose method is neither classify nor regress will do when its outputs fit. NULL: none, or
 * its outputs are not of that kind. */
const struct signature *examples_signature(const struct imported *model, const char *name,
                                           bool regress, enum serve_status *status,
                                           struct error *err);
/* `examples`: serialized tf.Example messages, `context` (count 0: none) another one whose features
 * all of them have, too. A signature with one text input gets them as they are (with the context
 * appended); one with feature inputs gets each feature by its key. Fills input_count tensors in the
 * arena; views point into the messages. */
int examples_to_inputs(const struct signature *signature, const struct text_view *examples,
                       int64_t count, struct text_view context, struct arena *arena,
                       struct tensor *inputs, struct error *err);

/* Of `rows` answers, `classes` labels (or NULL) and scores each: row r's are at [r * classes]. */
struct classification {
    int64_t rows, classes;
    const struct text_view *labels; /* NULL: there are none */
    const float *scores;            /* NULL: there are none */
};
int examples_classification(const struct signature *signature, const struct tensor *outputs,
                            struct arena *arena, struct classification *out, struct error *err);
/* One number a row. */
int examples_regression(const struct signature *signature, const struct tensor *outputs,
                        const float **out, int64_t *rows, struct error *err);

#endif
