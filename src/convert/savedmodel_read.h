/* A SavedModel that TensorFlow made, as far as it is made of operations we have: fully connected and
 * convolutional networks, through function calls and variables, with softmax and argmax at the
 * end. */
#ifndef CONVERT_SAVEDMODEL_READ_H
#define CONVERT_SAVEDMODEL_READ_H

#include <stddef.h>

struct error;
struct imported;

/* Fills graph, params, ports and the one signature that is read: serving_default, or the first that
 * takes something. model->memory has an arena. Operations we lack are named all at once. */
int savedmodel_read(const char *directory, struct imported *model, struct error *err);
/* The part of it that comes before the weights, from the bytes of saved_model.pb. `name` goes into
 * messages. */
int savedmodel_read_graph(const char *name, const void *bytes, size_t count, struct imported *model,
                          struct error *err);

#endif
