/* inference.ModelInferRequest and its relatives: the Open Inference Protocol over gRPC, as KServe
 * and Triton's clients speak it. */
#ifndef SERVE_INFER_MESSAGE_H
#define SERVE_INFER_MESSAGE_H

#include "serve/model_spec.h"

struct imported;
struct signature;
struct signature_tensor;

enum { INFER_MAX_TENSORS = 4096 };

struct infer_tensor {
    const char *name, *datatype;
    struct shape shape;
    bool has_contents;
    struct proto_reader contents; /* InferTensorContents */
};

/* Views into the message, and what is in the arena. */
struct infer_request {
    struct model_spec spec; /* the version's text is a number or a label; the signature comes from
                             * the parameter "signature_name" */
    const char *id;
    struct infer_tensor *inputs;
    int input_count;
    const char **outputs; /* asked for; none: all */
    int output_count;
    struct text_view *raw; /* bytes of the inputs, in their order; none: they are in `contents` */
    int raw_count;
};

int infer_request_read(const void *message, size_t bytes, struct arena *arena,
                       struct infer_request *out, struct error *err);
/* As predict_request_inputs and predict_request_outputs. */
int infer_request_inputs(const struct infer_request *request, const struct signature *signature,
                         size_t limit, struct arena *arena, struct tensor **out, struct error *err);
int infer_request_outputs(const struct infer_request *request, const struct signature *signature,
                          struct arena *arena, bool **wanted, struct error *err);
/* Raw when the request was. */
void infer_reply_write(const struct infer_request *request, const struct signature *signature,
                       int64_t version, const struct tensor *outputs, const bool *wanted,
                       struct strbuf *out);

/* ModelReadyRequest and ModelMetadataRequest: name and version. */
int infer_name_read(const void *message, size_t bytes, struct arena *arena, struct model_spec *out,
                    struct error *err);
/* ModelMetadataResponse, of one version. */
void infer_metadata_write(const char *model, int64_t version, const struct signature *signature,
                          struct strbuf *out);
const char *infer_datatype(enum dtype dtype); /* "FP32" */

#endif
