/* Training from a program of your own: make a network, open its data, and write the loop. The
 * `lockstep` program is built from the same parts. Link with `pkg-config --libs lockstep`.
 *
 *     struct lockstep_network *network = lockstep_network_create(model, &options, &error);
 *     struct lockstep_data *data = lockstep_data_open(network, "mnist:DIR", LOCKSTEP_TRAIN, &error);
 *     for (int step = 0; step < 1000; step++)
 *         if (lockstep_data_next(data, &error) < 0 ||
 *             lockstep_forward(network, data, &result, &error) < 0 ||
 *             lockstep_backward(network, &error) < 0 || lockstep_update(network, 1e-3f, &error) < 0)
 *             return fail(error.message);
 *
 * A step is these four calls in this order; a call out of order fails and changes nothing.
 * Calls that can fail return -1 (or NULL) and describe why in `error`, which may be NULL. One
 * network and its data belong to one thread at a time; several networks may live side by side. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/model.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lockstep_network;
struct lockstep_data;

struct lockstep_error {
    char message[512];
};

struct lockstep_options {
    int batch;             /* examples per step; needed */
    int threads;           /* 0: all that the process may use */
    uint64_t seed;         /* of weights, order and dropout */
    const char *optimizer; /* NULL: "sgd"; else a name from `lockstep help train` */
    float momentum;        /* 0: the optimizer's own */
    float weight_decay;
    int classes, image_size; /* 0: the model's own */
    float label_smoothing;
};

struct lockstep_result {
    int64_t examples;
    double loss, accuracy, accuracy_top_5; /* means over the examples */
};

enum lockstep_split { LOCKSTEP_TRAIN, LOCKSTEP_EVALUATE };

LOCKSTEP_API const char *lockstep_version(void);

/* A network of the program's own list ("resnet50"), or one in a shared object or an ONNX file. The
 * result lives as long as the process. */
LOCKSTEP_API const struct model *lockstep_model_open(const char *name_or_path,
                                                     struct lockstep_error *error);

/* Builds the network, chooses kernels, takes all memory and draws the first weights. */
LOCKSTEP_API struct lockstep_network *
lockstep_network_create(const struct model *model, const struct lockstep_options *options,
                        struct lockstep_error *error);
LOCKSTEP_API void lockstep_network_destroy(struct lockstep_network *network); /* accepts NULL */

/* `spec` as --data takes it: "digits", "mnist:DIR", "synthetic". Training data comes shuffled,
 * epoch after epoch; evaluation data in order. Close it before its network. */
LOCKSTEP_API struct lockstep_data *lockstep_data_open(struct lockstep_network *network,
                                                      const char *spec, enum lockstep_split split,
                                                      struct lockstep_error *error);
LOCKSTEP_API void lockstep_data_close(struct lockstep_data *data); /* accepts NULL */
LOCKSTEP_API int64_t lockstep_data_steps_per_epoch(const struct lockstep_data *data);
/* The next batch: how many examples it has; 0 at the end of evaluation data. */
LOCKSTEP_API int lockstep_data_next(struct lockstep_data *data, struct lockstep_error *error);

/* Runs the network on the data's current batch, in training mode. */
LOCKSTEP_API int lockstep_forward(struct lockstep_network *network, struct lockstep_data *data,
                                  struct lockstep_result *result, struct lockstep_error *error);
/* The gradient of the mean loss of the last forward. */
LOCKSTEP_API int lockstep_backward(struct lockstep_network *network, struct lockstep_error *error);
/* One step of the optimizer at this rate; ends the step. Fails, and changes nothing, when loss or
 * gradients are not finite. */
LOCKSTEP_API int lockstep_update(struct lockstep_network *network, float rate,
                                 struct lockstep_error *error);
/* One pass over evaluation data, from its start, with running statistics and without dropout. */
LOCKSTEP_API int lockstep_evaluate(struct lockstep_network *network, struct lockstep_data *data,
                                   struct lockstep_result *result, struct lockstep_error *error);

/* Parameters by position: weights and running statistics, as plain row-major floats. */
LOCKSTEP_API int lockstep_parameter_count(const struct lockstep_network *network);
LOCKSTEP_API const char *lockstep_parameter_name(const struct lockstep_network *network, int index);
LOCKSTEP_API struct shape lockstep_parameter_shape(const struct lockstep_network *network,
                                                   int index);
LOCKSTEP_API int lockstep_parameter_read(const struct lockstep_network *network, int index,
                                         float *out, struct lockstep_error *error);
LOCKSTEP_API int lockstep_parameter_read_gradient(const struct lockstep_network *network, int index,
                                                  float *out, struct lockstep_error *error);
LOCKSTEP_API int lockstep_parameter_write(struct lockstep_network *network, int index,
                                          const float *in, struct lockstep_error *error);

/* All parameters and statistics as a safetensors file, written whole or not at all. */
LOCKSTEP_API int lockstep_save(const struct lockstep_network *network, const char *path,
                               struct lockstep_error *error);
LOCKSTEP_API int lockstep_load(struct lockstep_network *network, const char *path,
                               struct lockstep_error *error);

#ifdef __cplusplus
}
#endif
#endif
