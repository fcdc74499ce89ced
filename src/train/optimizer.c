#include "train/optimizer.h"

#include "base/error.h"

#define OPTIMIZER(name) extern const struct optimizer optimizer_##name;
#include "optimizers.list"
#undef OPTIMIZER

static const struct optimizer *const all[] = {
#define OPTIMIZER(name) &optimizer_##name,
#include "optimizers.list"
#undef OPTIMIZER
    NULL,
};

const struct optimizer *const *optimizer_list(void)
{
    return all;
}

const struct optimizer *optimizer_find(const char *name)
{
    for (const struct optimizer *const *optimizer = all; *optimizer; optimizer++)
        if (!strcmp((*optimizer)->name, name))
            return *optimizer;
    return NULL;
}

/* A factor that keeps a part of the past: 1 would forget nothing, more would grow without end. */
static int check_fraction(const char *option, float value, struct error *err)
{
    if (value >= 0 && value < 1)
        return 0;
    return error_set(err, ERROR_USAGE, "--%s=%g is not in [0, 1)", option, (double)value);
}

static int check_not_negative(const char *option, float value, struct error *err)
{
    if (value >= 0)
        return 0;
    return error_set(err, ERROR_USAGE, "--%s=%g is below 0", option, (double)value);
}

/* A rule with an epsilon by default divides by a sum that may be 0. */
static int check_epsilon(const struct optimizer *optimizer, float epsilon, struct error *err)
{
    if (check_not_negative("epsilon", epsilon, err) < 0)
        return -1;
    if (epsilon > 0 || optimizer->defaults.epsilon == 0)
        return 0;
    return error_set(err, ERROR_USAGE, "--epsilon=0 lets %s divide by 0; its default is %g",
                     optimizer->name, (double)optimizer->defaults.epsilon);
}

int optimizer_check(const struct optimizer *optimizer, const struct optimizer_settings *settings,
                    struct error *err)
{
    if (check_fraction("momentum", settings->momentum, err) < 0 ||
        check_fraction("beta1", settings->beta1, err) < 0 ||
        check_fraction("beta2", settings->beta2, err) < 0 ||
        check_fraction("rmsprop-decay", settings->decay_rate, err) < 0 ||
        check_not_negative("weight-decay", settings->weight_decay, err) < 0 ||
        check_not_negative("l1", settings->l1, err) < 0 ||
        check_not_negative("l2", settings->l2, err) < 0 ||
        check_not_negative("lars-trust", settings->trust, err) < 0)
        return -1;
    if (settings->learning_rate_power > 0)
        return error_set(err, ERROR_USAGE, "--lr-power=%g is above 0",
                         (double)settings->learning_rate_power);
    return check_epsilon(optimizer, settings->epsilon, err);
}
