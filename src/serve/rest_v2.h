/* Bodies of the Open Inference Protocol's infer, with its extension for tensors as bytes behind the
 * JSON, which Triton's clients use unless told otherwise. */
#ifndef SERVE_REST_V2_H
#define SERVE_REST_V2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct error;
struct signature;
struct strbuf;

enum { REST_V2_MAX_OUTPUTS = 64 };

struct rest_v2_request {
    struct text_view id;   /* count 0: none */
    struct tensor *inputs; /* signature->input_count */
    int64_t rows;
    int outputs[REST_V2_MAX_OUTPUTS]; /* of the signature, as asked for */
    bool binary[REST_V2_MAX_OUTPUTS];
    int output_count;
};

/* `json_bytes` of the body are JSON, the rest belongs to inputs with a binary_data_size. Tensors lie
 * in the arena or are views into the body. */
int rest_v2_read(const char *body, size_t bytes, size_t json_bytes,
                 const struct signature *signature, struct arena *arena,
                 struct rest_v2_request *out, struct error *err);
/* Appends the answer; returns how many bytes of it are JSON (all, when nothing is binary). */
size_t rest_v2_write(const char *model, int64_t version, const struct signature *signature,
                     const struct rest_v2_request *request, const struct tensor *outputs,
                     struct strbuf *out);

#endif
