/* Update rules over flat arrays: no knowledge of layers or layouts. Each file in
 * train/optimizers/ defines one, named optimizer_<file name>. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/params.h"

struct error;

struct optimizer_settings {
    float momentum, beta1, beta2, epsilon, decay_rate;   /* decay_rate: RMSProp's */
    float weight_decay;         /* 0 for ranges that are excluded */
    float l1, l2;               /* FTRL */
    float learning_rate_power;  /* FTRL: -0.5 */
    float trust;                /* LARS: 0.001 */
    bool nesterov, centered;
};

/* `count` elements of one range. Reads `weights` and `slots`, writes `new_weights` and
 * `new_slots`, which may be the same memory (one generation) or not (two). */
struct optimizer_range {
    size_t count;
    const float *weights, *gradients;
    float *new_weights;
    const float *slots[PARAMS_MAX_SLOTS];
    float *new_slots[PARAMS_MAX_SLOTS];
};

struct optimizer {
    const char *name, *summary;
    int slot_count;
    float slot_initial[PARAMS_MAX_SLOTS];   /* Adagrad: 0.1 */
    bool per_tensor;            /* needs each parameter by itself (LARS) */
    struct optimizer_settings defaults;
    /* `step` counts from 1. May be called on disjoint pieces from several threads at once,
     * unless per_tensor. */
    void (*step)(const struct optimizer_settings *settings, float rate, int64_t step,
                 const struct optimizer_range *range);
};

const struct optimizer *const *optimizer_list(void);    /* NULL-terminated, generated */
const struct optimizer *optimizer_find(const char *name);

/* A group of parameters with its own rule, rate and decay (Wide & Deep: FTRL and Adagrad). */
struct param_group {
    const char *prefix;         /* of the parameters' names; "" takes what no other group took */
    const struct optimizer *optimizer;
    struct optimizer_settings settings;
    float rate_factor;
};

/* Applies each group's rule to its parameters, in one vectorised pass over the slab on all
 * threads. Made once: neighbouring ranges with the same settings are joined. */
struct updater;
int updater_create(struct params *params, const struct param_group *groups, int group_count,
                   int threads, struct updater **out, struct error *err);
void updater_destroy(struct updater *updater);      /* accepts NULL */
/* Sets the slots to the rules' initial values. */
void updater_initialize_slots(struct updater *updater);
void updater_step(struct updater *updater, float rate, int64_t step);
/* Half the weighted sum of squares that decay adds to the loss: sum of decay/2 * w^2. */
double updater_decay_loss(const struct updater *updater);

#endif
