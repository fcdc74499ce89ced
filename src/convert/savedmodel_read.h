/* A SavedModel that TensorFlow made, as far as it is made of operations we have: fully connected and
 * convolutional networks, through function calls and variables, with softmax and argmax at the
 * end. */
#ifndef CONVERT_SAVEDMODEL_READ_H
#define CONVERT_SAVEDMODEL_READ_H

struct error;
struct imported;

/* Fills graph, params, ports and the one signature that is read: serving_default, or the first that
 * takes something. model->memory has an arena. Operations we lack are named all at once. */
int savedmodel_read(const char *directory, struct imported *model, struct error *err);

#endif
