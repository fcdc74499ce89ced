#include "cli/rule.h"

#include <errno.h>

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
                         *optimizer->options ? optimizer->options
                                             : "nothing but --lr and "
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

/* "X" or "X/B": 0.128/256 is 0.128 at a global batch of 256 and half of it at 128. */
static int parse_rate(const char *text, int64_t global_batch, float *out, struct error *err)
{
    char *end;
    errno = 0;
    double rate = strtod(text, &end), base = 0;
    bool right = end != text && !errno && rate >= 0;
    if (right && *end == '/') {
        const char *behind = end + 1;
        base = strtod(behind, &end);
        right = end != behind && base > 0;
    }
    if (!right || *end)
        return error_set(err, ERROR_USAGE,
                         "--lr=%s: expected a rate such as 0.1, or RATE/BATCH "
                         "such as 0.1/256",
                         text);
    *out = (float)(base ? rate * (double)global_batch / base : rate);
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

/* --- groups: PREFIX=RULE[,NAME=X]... --- */

/* A setting of a group by its name, or NULL when the rule does not read it. */
static float *group_setting(struct param_group *group, const char *name, size_t length)
{
    struct optimizer_settings *s = &group->settings;
    const struct {
        const char *name;
        float *place;
    } known[] = {{"momentum", &s->momentum},
                 {"beta1", &s->beta1},
                 {"beta2", &s->beta2},
                 {"epsilon", &s->epsilon},
                 {"rmsprop-decay", &s->decay_rate},
                 {"l1", &s->l1},
                 {"l2", &s->l2},
                 {"lr-power", &s->learning_rate_power},
                 {"lars-trust", &s->trust},
                 {"weight-decay", &s->weight_decay}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length && !strncmp(known[i].name, name, length) &&
            (known[i].place == &s->weight_decay ||
             has_word(group->optimizer->options, known[i].name)))
            return known[i].place;
    return NULL;
}

/* One ",NAME=X"; `rate` gets an "lr". */
static int set_in_group(struct param_group *group, const char *text, int64_t global_batch,
                        float *rate, struct error *err)
{
    size_t length = strcspn(text, "=");
    const char *value = text + length + (text[length] == '=');
    if (length == 2 && !strncmp(text, "lr", 2))
        return parse_rate(value, global_batch, rate, err);
    float *place = group_setting(group, text, length);
    if (!place)
        return error_set(err, ERROR_USAGE,
                         "%.*s means nothing to the optimizer %s; it reads lr weight-decay %s",
                         (int)length, text, group->optimizer->name, group->optimizer->options);
    char *end;
    errno = 0;
    *place = strtof(value, &end);
    if (end == value || *end || errno)
        return error_set(err, ERROR_USAGE, "%s: '%s' is not a number", text, value);
    return 0;
}

/* `text` is one group's, to be taken apart. */
static int parse_group(struct rule *rule, char *text, int64_t global_batch, struct error *err)
{
    char *state;
    char *first = strtok_r(text, ",", &state);
    char *equals = first ? strchr(first, '=') : NULL;
    if (!equals || equals == first || equals - first >= RULE_MAX_PREFIX)
        return error_set(err, ERROR_USAGE, "expected PREFIX=RULE, such as wide/=ftrl");
    if (rule->group_count == RULE_MAX_GROUPS - 1)
        return error_set(err, ERROR_USAGE, "more than %d groups", RULE_MAX_GROUPS - 1);
    const struct optimizer *optimizer = optimizer_find(equals + 1);
    if (!optimizer)
        return error_set(err, ERROR_USAGE, "there is no optimizer \"%s\"", equals + 1);
    char *prefix = rule->prefixes[rule->group_count];
    snprintf(prefix, RULE_MAX_PREFIX, "%.*s", (int)(equals - first), first);
    struct param_group group = {
        .prefix = prefix, .optimizer = optimizer, .settings = optimizer->defaults};
    float rate = optimizer->default_rate;
    for (char *word; (word = strtok_r(NULL, ",", &state));)
        if (set_in_group(&group, word, global_batch, &rate, err) < 0)
            return -1;
    if (optimizer_check(optimizer, &group.settings, err) < 0)
        return -1;
    group.rate_factor = rate / rule->rate;
    rule->groups[rule->group_count++] = group;
    return 0;
}

static int parse_groups(struct rule *rule, const char *text, int64_t global_batch,
                        struct error *err)
{
    char copy[512];
    if (!text || !*text || !strcmp(text, "none"))
        return 0;
    if (!(rule->rate > 0))
        return error_set(err, ERROR_USAGE, "the rates of groups are factors to --lr, which is 0");
    if (strlen(text) >= sizeof copy)
        return error_set(err, ERROR_USAGE, "more than %zu characters", sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    char *state;
    for (char *word = strtok_r(copy, ";", &state); word; word = strtok_r(NULL, ";", &state))
        if (parse_group(rule, word, global_batch, err) < 0)
            return -1;
    return 0;
}

const struct param_group *rule_rest(const struct rule *rule)
{
    return &rule->groups[rule->group_count - 1];
}

int rule_resolve_groups(const struct options *options, const struct rule_settings *settings,
                        const char *recipe, int64_t global_batch, struct rule *out,
                        struct error *err)
{
    struct param_group rest;
    *out = (struct rule){0};
    if (rule_resolve(options, settings, recipe, global_batch, &rest, &out->rate, err) < 0)
        return -1;
    if (parse_groups(out, settings->group, global_batch, err) < 0)
        return error_wrap(err, "--group=%s", settings->group);
    out->groups[out->group_count++] = rest;
    return 0;
}

int rule_resolve(const struct options *options, const struct rule_settings *settings,
                 const char *recipe, int64_t global_batch, struct param_group *out, float *rate,
                 struct error *err)
{
    const struct optimizer *optimizer = optimizer_find(settings->optimizer);
    struct param_group group = {
        .prefix = "", .optimizer = optimizer, .rate_factor = 1, .settings = optimizer->defaults};
    float chosen = optimizer->default_rate;
    if (set_numbers(options, settings, optimizer, &group.settings, err) < 0 ||
        optimizer_check(optimizer, &group.settings, err) < 0)
        return -1;
    if (settings->lr && rate_is_for(options, recipe, optimizer) &&
        parse_rate(settings->lr, global_batch, &chosen, err) < 0)
        return -1;
    *out = group;
    *rate = chosen;
    return 0;
}
