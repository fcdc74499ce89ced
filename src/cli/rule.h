/* The options that choose an update rule and its numbers; for train and bench. */
#ifndef CLI_RULE_H
#define CLI_RULE_H

#include "cli/options.h"
#include "train/optimizer.h"

struct rule_settings {
    const char *optimizer, *lr, *group;
    double momentum, beta1, beta2, epsilon, decay_rate, weight_decay, l1, l2, lr_power, trust;
    bool nesterov;
};

/* Rows of a table whose settings have a `struct rule_settings rule`. */
#define RULE_OPTIONS(settings)                                                                     \
    OPTION_CHOICE(settings, rule.optimizer, "optimizer", .choice_at = rule_optimizer_name,         \
                  .initial = "momentum", .help = "update rule"),                                   \
        OPTION_TEXT(settings, rule.lr, "lr", .value = "X[/B]", .aliases = "learning-rate",         \
                    .initial_note = "the model's, or the optimizer's when another one is chosen",  \
                    .help = "learning rate; X/B grows with the batch: X at a global batch of B"),  \
        OPTION_TEXT(settings, rule.group, "group", .value = "PREFIX=RULE[,NAME=X]...",             \
                    .aliases = "groups", .initial_note = "none",                                   \
                    .help = "another update rule for the parameters whose names start with "       \
                            "PREFIX, with numbers of its own (wide/=ftrl,lr=0.005); several are "  \
                            "separated by semicolons; none turns a model's off"),                  \
        OPTION_NUMBER(settings, rule.weight_decay, "weight-decay", OPTION_AT_LEAST(0),             \
                      .initial = "0", .aliases = "wdecay",                                         \
                      .help = "added to the gradient, times the weight; not for batch "            \
                              "norm"),                                                             \
        OPTION_NUMBER(settings, rule.momentum, "momentum", .aliases = "mom rmsprop-momentum",      \
                      .initial_note = "0.9", .help = "of momentum, rmsprop and lars"),             \
        OPTION_FLAG(settings, rule.nesterov, "nesterov",                                           \
                    .help = "look ahead, with momentum or lars"),                                  \
        OPTION_NUMBER(settings, rule.beta1, "beta1", .aliases = "adam-beta1",                      \
                      .initial_note = "0.9", .help = "adam: what its mean keeps"),                 \
        OPTION_NUMBER(settings, rule.beta2, "beta2", .aliases = "adam-beta2",                      \
                      .initial_note = "0.999", .help = "adam: what its mean square keeps"),        \
        OPTION_NUMBER(settings, rule.epsilon, "epsilon",                                           \
                      .aliases = "adam-epsilon rmsprop-epsilon",                                   \
                      .initial_note = "adam 1e-8, rmsprop 1, else 0",                              \
                      .help = "keeps adam, rmsprop, adagrad and lars from dividing by zero"),      \
        OPTION_NUMBER(settings, rule.decay_rate, "rmsprop-decay", .initial_note = "0.9",           \
                      .help = "rmsprop: what its mean square keeps"),                              \
        OPTION_NUMBER(settings, rule.l1, "l1", .initial_note = "0",                                \
                      .help = "ftrl: pulls to zero"),                                              \
        OPTION_NUMBER(settings, rule.l2, "l2", .initial_note = "0",                                \
                      .help = "ftrl: pulls smaller"),                                              \
        OPTION_NUMBER(settings, rule.lr_power, "lr-power", .initial_note = "-0.5",                 \
                      .help = "ftrl: how the rate falls"),                                         \
        OPTION_NUMBER(settings, rule.trust, "lars-trust", .initial_note = "0.001",                 \
                      .help = "lars: the part of a layer's norm that one step may move")

const char *rule_optimizer_name(int index); /* NULL behind the last */

enum { RULE_MAX_GROUPS = 8, RULE_MAX_PREFIX = 64 };

/* What --optimizer and --group say together. The groups point into it: not to be copied. */
struct rule {
    struct param_group groups[RULE_MAX_GROUPS]; /* the last takes what no other took */
    char prefixes[RULE_MAX_GROUPS][RULE_MAX_PREFIX];
    int group_count;
    float rate; /* of the last group; the others have factors to it, so one schedule does for all */
};
/* The group of what no other took: what --optimizer says. */
const struct param_group *rule_rest(const struct rule *rule);
int rule_resolve_groups(const struct options *options, const struct rule_settings *settings,
                        const char *recipe, int64_t global_batch, struct rule *out,
                        struct error *err);

/* One group for all parameters, and the base rate for this global batch. A setting that the
 * chosen rule does not read is ERROR_USAGE when the user gave it, and left out when a recipe
 * did. */
int rule_resolve(const struct options *options, const struct rule_settings *settings,
                 const char *recipe, int64_t global_batch, struct param_group *out, float *rate,
                 struct error *err);

#endif
