/* Update rules over flat arrays: no knowledge of layers or layouts. Each file in
 * train/optimizers/ defines one, named optimizer_<file name>. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/params.h"

struct error;
struct saver_moment;
struct sparse_rows;
struct state;

/* One set of numbers for all rules, so that a table of options can fill it; a rule reads those
 * it names in its file. In every rule weight decay joins the gradient first (the gradient of
 * decay/2 * w^2), as in the published ResNet-50 recipe; decoupled decay would be another rule. */
struct optimizer_settings {
    float momentum;     /* momentum, rmsprop, lars */
    float beta1, beta2; /* adam */
    float epsilon;      /* rmsprop, adam, adagrad, lars: where, says the rule */
    float decay_rate;   /* rmsprop: of the mean square */
    float weight_decay;
    float l1, l2;              /* ftrl */
    float learning_rate_power; /* ftrl: not above 0 */
    float trust;               /* lars */
    bool nesterov;             /* momentum, lars */
};

/* `count` elements of one range. Reads `weights` and `slots`, writes `new_weights` and
 * `new_slots`, which may be the same memory (one generation) or not (two); the gradients
 * overlap nothing. */
struct optimizer_range {
    size_t count;
    const float *weights, *gradients;
    float *new_weights;
    const float *slots[PARAMS_MAX_SLOTS];
    float *new_slots[PARAMS_MAX_SLOTS];
    /* Euclidean norms of the whole parameter this range is a piece of, for rules that ask for
     * them; both 0 for those LARS leaves out: biases and batch norm. */
    double weight_norm, gradient_norm;
};

struct optimizer {
    const char *name, *summary;
    const char *options; /* names of the settings it reads, beside weight decay */
    float default_rate;  /* when neither the user nor the model's recipe has one */
    int slot_count;
    const char *slot_names[PARAMS_MAX_SLOTS]; /* in checkpoints */
    float slot_initial[PARAMS_MAX_SLOTS];     /* Adagrad: 0.1 */
    bool needs_norms;                         /* fill the range's norms before each step (LARS) */
    struct optimizer_settings defaults;
    /* `step` counts from 1. Elementwise: may be called on disjoint pieces from several threads
     * at once, and a weight of 0 whose gradients are all 0 stays 0 (padding relies on it). */
    void (*step)(const struct optimizer_settings *settings, float rate, int64_t step,
                 const struct optimizer_range *range);
};

const struct optimizer *const *optimizer_list(void); /* NULL-terminated, generated */
const struct optimizer *optimizer_find(const char *name);
/* Refuses settings that would divide by zero or diverge at once, naming the option to change. */
int optimizer_check(const struct optimizer *optimizer, const struct optimizer_settings *settings,
                    struct error *err);

/* A group of parameters with its own rule, rate and decay (Wide & Deep: FTRL and Adagrad). */
struct param_group {
    const char *prefix; /* of the parameters' names; "" takes what no other group took */
    const struct optimizer *optimizer;
    struct optimizer_settings settings;
    float rate_factor;
};

/* Weights and slots of one generation. */
struct updater_memory {
    float *weights;
    float *slots[PARAMS_MAX_SLOTS];
};

/* Applies each group's rule to its trainable parameters, in one vectorised pass over the slab on
 * all threads. Made once: neighbouring ranges with the same settings are joined. The work is cut
 * into pieces of fixed size, so the bits do not depend on the number of threads. `params` must
 * have its layout (a plan was made) and outlive the updater; the groups are copied, the
 * optimizers and prefixes are not. For one thread at a time.
 *
 * Of a table (PARAM_SPARSE) only the rows with a gradient are touched. For sgd, adagrad and ftrl
 * (from weights of 0) that is what a dense update does, bit by bit; for momentum, adam and rmsprop it is the variant
 * called lazy: a row rests, with its slots, until it is read again. lars, which wants the norm of
 * the whole table, is refused. Weight decay does not apply to tables. */
struct updater;
int updater_create(struct params *params, const struct param_group *groups, int group_count,
                   int threads, struct updater **out, struct error *err);
void updater_destroy(struct updater *updater); /* accepts NULL */
/* Slots that `groups` need of params_create. */
int updater_slots_needed(const struct param_group *groups, int group_count);
/* What the rule of a parameter calls its slot, or NULL when it has no such slot, and the value it
 * starts with; for checkpoints, hence the void. */
const char *updater_describe_slot(void *updater, int param, int slot, float *initial);
/* Sets the slots to the rules' initial values. */
void updater_initialize_slots(struct updater *updater);
/* The gradients of the tables, for the following questions and the next step; `lists` is read then,
 * not kept longer. A table without a list is left as it is. */
void updater_give_rows(struct updater *updater, const struct sparse_rows *lists, int count);
/* One step in place, on the slabs of `params`. `step` counts from 1. */
void updater_step(struct updater *updater, float rate, int64_t step);
/* The same, reading one generation and writing another; both have the layout of `params`. The rows
 * of a table that were not touched are not copied. */
void updater_step_between(struct updater *updater, const struct updater_memory *from,
                          const struct updater_memory *to, float rate, int64_t step);

/* --- steps that survive the process (updater_kept.c) --- */

/* From now on, by updater_step_kept, steps are applied so that another process can finish them from
 * `state`, in whose memory the params live. `lists`: the tables as the plan has them. ERROR_FORMAT
 * when what lies in the state was made for another network. */
int updater_keep(struct updater *updater, struct state *state, const struct sparse_rows *lists,
                 int list_count, struct error *err);
/* As updater_step, with the bits of it; `moment` and `statistics` are what the state holds then. */
void updater_step_kept(struct updater *updater, const struct saver_moment *moment, float rate,
                       const float *statistics);
/* Finishes the step that an earlier process had begun to apply, if any. */
int updater_recover(struct updater *updater, struct error *err);

/* --- questions --- */

/* What decay adds to the loss: the sum of decay/2 * w^2. */
double updater_decay_loss(struct updater *updater);
/* Whether every gradient, or weight, is a finite number. */
bool updater_gradients_finite(struct updater *updater);
bool updater_weights_finite(struct updater *updater);
/* Is this the name of a parameter? */
bool updater_has_param(const struct updater *updater, const char *name);

#endif
