/* The requests that send tf.Examples: tensorflow.serving.ClassificationRequest, RegressionRequest
 * and MultiInferenceRequest, and their replies. */
#ifndef SERVE_EXAMPLE_MESSAGE_H
#define SERVE_EXAMPLE_MESSAGE_H

#include "serve/model_spec.h"

struct classification;

enum { EXAMPLE_MAX_TASKS = 64 };

#define CLASSIFY_METHOD "tensorflow/serving/classify"
#define REGRESS_METHOD "tensorflow/serving/regress"

struct example_task {
    struct model_spec spec;
    const char *method; /* of a MultiInferenceRequest's task; otherwise "" */
};

/* Views into the message, and what is in the arena. */
struct example_request {
    struct example_task *tasks; /* one, except in a MultiInferenceRequest */
    int task_count;
    struct text_view *examples; /* serialized */
    int example_count;
    struct text_view context; /* another one, whose features all have, too; count 0: none */
};

/* ClassificationRequest and RegressionRequest have the same fields. Fails with ERROR_FORMAT. */
int example_request_read(const void *message, size_t bytes, struct arena *arena,
                         struct example_request *out, struct error *err);
int multi_request_read(const void *message, size_t bytes, struct arena *arena,
                       struct example_request *out, struct error *err);

/* Appends a ClassificationResult or RegressionResult as field `number`. */
void classify_result_write(uint32_t number, const struct classification *result,
                           struct strbuf *out);
void regress_result_write(uint32_t number, const float *values, int64_t rows, struct strbuf *out);

#endif
