#include "cli/rule.h"

#include "base/error.h"

const char *rule_optimizer_name(int index)
{
    const struct optimizer *optimizer = optimizer_list()[index];
    return optimizer ? optimizer->name : NULL;
}

/* Whether a list of words separated by blanks has this one. */
static bool has_word(const char *list, const char *wanted)
{
    const char *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;)
        if (length == strlen(wanted) && !strncmp(word, wanted, length))
            return true;
    return false;
}

static int set_number(const struct options *options, const struct optimizer *optimizer,
                      const char *name, double value, float *out, struct error *err)
{
    enum option_source source = options_source(options, name);
    if (has_word(optimizer->options, name)) {
        if (source > OPTION_FROM_TABLE)
            *out = (float)value;
        return 0;
    }
    if (source > OPTION_FROM_RECIPE)
        return error_set(err, ERROR_USAGE, "--%s means nothing to the optimizer %s; it reads %s",
                         name, optimizer->name,
                         *optimizer->options ? optimizer->options : "nothing but --lr and "
                                                                    "--weight-decay");
    return 0;
}

static int set_numbers(const struct options *options, const struct rule_settings *from,
                       const struct optimizer *rule, struct optimizer_settings *to,
                       struct error *err)
{
    float nesterov = to->nesterov;
    if (set_number(options, rule, "momentum", from->momentum, &to->momentum, err) < 0 ||
        set_number(options, rule, "nesterov", from->nesterov, &nesterov, err) < 0 ||
        set_number(options, rule, "beta1", from->beta1, &to->beta1, err) < 0 ||
        set_number(options, rule, "beta2", from->beta2, &to->beta2, err) < 0 ||
        set_number(options, rule, "epsilon", from->epsilon, &to->epsilon, err) < 0 ||
        set_number(options, rule, "rmsprop-decay", from->decay_rate, &to->decay_rate, err) < 0 ||
        set_number(options, rule, "l1", from->l1, &to->l1, err) < 0 ||
        set_number(options, rule, "l2", from->l2, &to->l2, err) < 0 ||
        set_number(options, rule, "lr-power", from->lr_power, &to->learning_rate_power, err) < 0 ||
        set_number(options, rule, "lars-trust", from->trust, &to->trust, err) < 0)
        return -1;
    to->nesterov = nesterov != 0;
    to->weight_decay = (float)from->weight_decay;
    return 0;
}

/* A recipe's rate belongs to the recipe's rule: with another rule it would be a wild guess. */
static bool rate_is_for(const struct options *options, const char *recipe,
                        const struct optimizer *optimizer)
{
    char word[64];
    snprintf(word, sizeof word, "--optimizer=%s", optimizer->name);
    return options_source(options, "lr") != OPTION_FROM_RECIPE ||
           options_source(options, "optimizer") <= OPTION_FROM_RECIPE || has_word(recipe, word);
}

/* The batch that a recipe's rate is meant for says nothing about a rate of the user's. */
static float scaled_rate(const struct options *options, const struct rule_settings *settings,
                         int64_t global_batch)
{
    bool applies = options_source(options, "lr-reference-batch") != OPTION_FROM_RECIPE ||
                   options_source(options, "lr") == OPTION_FROM_RECIPE;
    double scale = settings->reference_batch && applies
                       ? (double)global_batch / settings->reference_batch
                       : 1;
    return (float)(settings->lr * scale);
}

int rule_resolve(const struct options *options, const struct rule_settings *settings,
                 const char *recipe, int64_t global_batch, struct param_group *out, float *rate,
                 struct error *err)
{
    const struct optimizer *optimizer = optimizer_find(settings->optimizer);
    struct param_group group = {.prefix = "", .optimizer = optimizer, .rate_factor = 1,
                                .settings = optimizer->defaults};
    if (set_numbers(options, settings, optimizer, &group.settings, err) < 0 ||
        optimizer_check(optimizer, &group.settings, err) < 0)
        return -1;
    bool has_rate = options_source(options, "lr") && rate_is_for(options, recipe, optimizer);
    *out = group;
    *rate = has_rate ? scaled_rate(options, settings, global_batch) : optimizer->default_rate;
    return 0;
}
