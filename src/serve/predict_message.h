/* tensorflow.serving.PredictRequest and PredictResponse. */
#ifndef SERVE_PREDICT_MESSAGE_H
#define SERVE_PREDICT_MESSAGE_H

#include "serve/model_spec.h"

struct signature;

enum { PREDICT_MAX_TENSORS = 4096 }; /* inputs, or outputs asked for, in one request */

/* Views into the message, and what is in the arena. */
struct predict_request {
    struct model_spec spec;
    struct message_entry *inputs; /* TensorProtos, not read yet: that takes the signature */
    int input_count;
    struct text_view *filter; /* outputs that are wanted; none: all */
    int filter_count;
};

/* Fails with ERROR_FORMAT and the offset. The message must outlive the result. */
int predict_request_read(const void *message, size_t bytes, struct arena *arena,
                         struct predict_request *out, struct error *err);
/* The inputs in the signature's order; more than `limit` bytes together are refused. Fails with
 * ERROR_FORMAT in the words of TensorFlow Serving where it has some. */
int predict_request_inputs(const struct predict_request *request, const struct signature *signature,
                           size_t limit, struct arena *arena, struct tensor **out,
                           struct error *err);
/* Which outputs of the signature are wanted: *wanted [output_count], NULL for all. */
int predict_request_outputs(const struct predict_request *request,
                            const struct signature *signature, struct arena *arena, bool **wanted,
                            struct error *err);

/* The other side's half, for clients; numbers go as tensor_content, as TensorFlow's clients write
 * them. */
void predict_request_begin(const char *model, const char *signature, int64_t version,
                           struct strbuf *out); /* version 0: the newest */
void predict_request_add(const char *input, const struct tensor *tensor, struct strbuf *out);

/* `outputs` in the signature's order; `as_content` as in tensor_message_write. */
void predict_reply_write(const char *model, const struct signature *signature, int64_t version,
                         const struct tensor *outputs, const bool *wanted, bool as_content,
                         struct strbuf *out);
/* The reply's tensor of this name. Fails when it has none. */
int predict_reply_find(const void *message, size_t bytes, const char *output, size_t limit,
                       struct arena *arena, struct tensor *out, struct error *err);

#endif
