#include "cli/rule.h"

#include "base/arena.h"
#include "support/test.h"

struct settings {
    struct rule_settings rule;
};

static const struct option table[] = {RULE_OPTIONS(settings), OPTION_END};

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

/* Reads the words as `train` would, the recipe behind them, and resolves the rule for a global
 * batch of 64. */
static int resolve(const char *recipe, char *const *words, struct param_group *group, float *rate,
                   struct error *err)
{
    struct settings settings = {0};
    struct options options;
    struct arena *arena = arena_create();
    int count = 0;
    while (words[count])
        count++;
    int status = options_parse(table, count, words, no_environment, &settings, &options, err);
    if (status == 0)
        status = options_apply_recipe(&options, recipe, arena, err);
    if (status == 0)
        status = rule_resolve(&options, &settings.rule, recipe, 64, group, rate, err);
    arena_destroy(arena);
    return status;
}

#define WORDS(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
static const char recipe[] = "--optimizer=momentum --lr=0.128/256 --momentum=0.8 "
                             "--weight-decay=1e-4";

TEST(rule, comes_from_the_recipe_when_the_user_is_silent)
{
    struct param_group group;
    float rate;
    struct error err = {0};
    ASSERT_OK(resolve(recipe, WORDS(), &group, &rate, &err), err);
    ASSERT_TEXT(group.optimizer->name, "momentum");
    ASSERT_NEAR(rate, 0.128 / 4, 1e-6, 0);
    ASSERT_NEAR(group.settings.momentum, 0.8, 1e-6, 0);
    ASSERT_NEAR(group.settings.weight_decay, 1e-4, 1e-6, 0);
    ASSERT_FALSE(group.settings.nesterov);
}

TEST(rule, of_the_user_replaces_rate_and_batch_of_the_recipe_together)
{
    struct param_group group;
    float rate;
    struct error err = {0};
    ASSERT_OK(resolve(recipe, WORDS("--lr=0.5", "--nesterov"), &group, &rate, &err), err);
    ASSERT_NEAR(rate, 0.5, 1e-6, 0);
    ASSERT_TRUE(group.settings.nesterov);
    ASSERT_OK(resolve(recipe, WORDS("--lr=0.5/128"), &group, &rate, &err), err);
    ASSERT_NEAR(rate, 0.25, 1e-6, 0);
}

TEST(rule, other_than_the_recipes_brings_its_own_rate_and_numbers)
{
    struct param_group group;
    float rate;
    struct error err = {0};
    ASSERT_OK(resolve(recipe, WORDS("--optimizer=adam"), &group, &rate, &err), err);
    ASSERT_NEAR(rate, 0.001, 1e-6, 0);
    ASSERT_NUMBER(group.settings.momentum, ==, 0);
    ASSERT_NEAR(group.settings.beta2, 0.999, 1e-6, 0);
    ASSERT_OK(resolve(recipe, WORDS("--optimizer=momentum"), &group, &rate, &err), err);
    ASSERT_NEAR(rate, 0.128 / 4, 1e-6, 0);
}

TEST(rule, refuses_a_number_that_means_nothing_to_it)
{
    struct param_group group;
    float rate;
    struct error err = {0};
    ASSERT_FAILS(resolve("", WORDS("--optimizer=adam", "--momentum=0.9"), &group, &rate, &err), err,
                 ERROR_USAGE, "--momentum means nothing to the optimizer adam");
    ASSERT_FAILS(resolve("", WORDS("--optimizer=sgd", "--nesterov"), &group, &rate, &err), err,
                 ERROR_USAGE, "--nesterov");
    ASSERT_FAILS(resolve("", WORDS("--momentum=1.5"), &group, &rate, &err), err, ERROR_USAGE,
                 "--momentum=1.5 is not in [0, 1)");
    ASSERT_FAILS(resolve("", WORDS("--optimizer=adam", "--epsilon=0"), &group, &rate, &err), err,
                 ERROR_USAGE, "divide by 0");
}

TEST(rule, refuses_rates_it_cannot_read)
{
    static char *const wrong[] = {"--lr=",     "--lr=fast",  "--lr=-1",
                                  "--lr=0.1/", "--lr=0.1/0", "--lr=0.1/x",
                                  "--lr=0.1 ", "--lr=1e999", "--lr=nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct param_group group;
        float rate;
        struct error err = {0};
        ASSERT_FAILS(resolve("", WORDS(wrong[i]), &group, &rate, &err), err, ERROR_USAGE, "--lr");
    }
}

TEST(rule, every_number_of_the_table_belongs_to_some_optimizer)
{
    for (const struct optimizer *const *rule = optimizer_list(); *rule; rule++) {
        const char *list = (*rule)->options, *word;
        for (size_t length; (length = option_next_word(&list, &word)) > 0;)
            if (!option_find(table, word, length))
                FAIL("%s reads --%.*s, which is no option", (*rule)->name, (int)length, word);
    }
}

static int resolve_groups(char *const *words, struct rule *rule, struct error *err)
{
    struct settings settings = {0};
    struct options options;
    int count = 0;
    while (words[count])
        count++;
    if (options_parse(table, count, words, no_environment, &settings, &options, err) < 0)
        return -1;
    return rule_resolve_groups(&options, &settings.rule, "", 64, rule, err);
}

TEST(rule, of_a_group_has_its_own_numbers_under_one_schedule)
{
    struct rule rule;
    struct error err = {0};
    ASSERT_OK(resolve_groups(WORDS("--optimizer=adagrad", "--lr=0.001",
                                   "--group=wide/=ftrl,lr=0.005,l1=0.5;deep/x=sgd,lr=0.1/128"),
                             &rule, &err),
              err);
    ASSERT_INT(rule.group_count, ==, 3);
    ASSERT_TEXT(rule.groups[0].prefix, "wide/");
    ASSERT_TEXT(rule.groups[0].optimizer->name, "ftrl");
    ASSERT_NEAR(rule.groups[0].rate_factor, 5, 1e-6, 0);
    ASSERT_NEAR(rule.groups[0].settings.l1, 0.5, 1e-6, 0);
    ASSERT_TEXT(rule.groups[1].prefix, "deep/x");
    ASSERT_NEAR(rule.groups[1].rate_factor, 50, 1e-6, 0);
    ASSERT_TEXT(rule_rest(&rule)->prefix, "");
    ASSERT_TEXT(rule_rest(&rule)->optimizer->name, "adagrad");
    ASSERT_NEAR(rule.rate, 0.001, 1e-6, 0);
}

TEST(rule, of_a_group_that_makes_no_sense_is_refused)
{
    static char *const wrong[] = {"--group=wide/",        "--group==ftrl",
                                  "--group=wide/=nosuch", "--group=wide/=ftrl,beta1=0.5",
                                  "--group=w=ftrl,l1=x",  "--group=w=ftrl,lr=-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rule rule;
        struct error err = {0};
        ASSERT_TRUE(resolve_groups(WORDS("--optimizer=sgd", wrong[i]), &rule, &err) < 0);
        ASSERT_INT(err.code, ==, ERROR_USAGE);
    }
    struct rule rule;
    struct error err = {0};
    ASSERT_OK(resolve_groups(WORDS("--optimizer=sgd", "--group=none"), &rule, &err), err);
    ASSERT_INT(rule.group_count, ==, 1);
}
