/* tensorflow.TensorProto: how TensorFlow's clients write the tensors of a request and read those of
 * the reply. */
#ifndef SERVE_TENSOR_MESSAGE_H
#define SERVE_TENSOR_MESSAGE_H

#include <stddef.h>

#include "tensor/tensor.h"
#include "wire/proto.h"

struct arena;
struct error;
struct strbuf;

/* The number of tensorflow.DataType, and its name ("DT_FLOAT"), for what we compute with. */
int tensor_message_type(enum dtype dtype);
const char *tensor_message_type_name(enum dtype dtype);

/* Reads a message whose values stand in tensor_content or in the list of its type; a list that is
 * too short is filled with its last value, or with zeros when it is empty, as TensorFlow does.
 * Texts, and numbers where their place allows it, are views into the message; the rest is in the
 * arena. Fails with ERROR_FORMAT; a tensor that would need more than `limit` bytes is refused
 * before anything is taken for it. */
int tensor_message_read(const struct proto_reader *message, size_t limit, struct arena *arena,
                        struct tensor *out, struct error *err);

/* A TensorShapeProto, behind the dimensions that *out has already. */
int tensor_message_read_shape(struct proto_reader *reader, struct shape *out, struct error *err);

/* Appends the fields of the message, the values in the list of their type: clients read `float_val`
 * and its like, so tensor_content, where numbers go `as_content`, looks empty to them. */
void tensor_message_write(const struct tensor *tensor, bool as_content, struct strbuf *out);
/* The fields dtype and tensor_shape of a TensorInfo or TensorProto; SHAPE_BATCH becomes -1. */
void tensor_message_write_shape(uint32_t number, const struct shape *shape, struct strbuf *out);

/* How many values a shape has; fails with ERROR_FORMAT when there are more than `limit`, or when a
 * dimension is negative. */
int shape_values(const struct shape *shape, int64_t limit, int64_t *out, struct error *err);

#endif
