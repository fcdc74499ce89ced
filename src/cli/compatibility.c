/* What becomes of the options and variables that users bring from other programs, as one table. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/foreign_variables.h"
#include "cli/pages.h"
#include "cli/session.h"
#include "cli/variables.h"

/* A spelling and the list of a row it stands in. */
struct spelling {
    const char *word;
    size_t length;
    bool variable; /* of the environment */
};

/* A cell of a Markdown table: a bar would end it. */
static void add_cell(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *text);
    }
}

static bool list_has(const char *list, const struct spelling *spelling)
{
    const char *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;)
        if (length == spelling->length && strncmp(word, spelling->word, length) == 0)
            return true;
    return false;
}

/* Does this command treat the spelling in the same way as `row` says? */
static bool treats_alike(const struct command *command, const struct option *row,
                         const struct spelling *spelling)
{
    for (const struct option *other = command->options; other->type != OPTION_IS_END; other++) {
        if (other->type != row->type || other->type == OPTION_IS_SECTION ||
            strcmp(other->name, row->name) != 0 || strcmp(other->help, row->help) != 0)
            continue;
        return spelling->variable ? list_has(other->environment, spelling)
                                  : option_find(other, spelling->word, spelling->length) == other;
    }
    return false;
}

static void add_outcome(struct strbuf *out, const struct option *row)
{
    if (row->type == OPTION_IS_REFUSED)
        strbuf_add(out, "refused: ");
    else
        strbuf_addf(out, "same as `%s%s`: ", row->type == OPTION_IS_ARGUMENT ? "" : "--",
                    row->name);
    add_cell(out, row->help);
    if (row->accepts)
        strbuf_addf(out, " (passes: %s)", row->accepts);
}

/* One line for all commands that treat the spelling alike, at the first of them. */
static void add_spelling(struct strbuf *out, int place, const struct option *row,
                         const struct spelling *spelling)
{
    for (int i = 0; i < place; i++)
        if (treats_alike(command_that_runs(i), row, spelling))
            return;
    strbuf_addf(out, "| `%s%.*s` | %s", spelling->variable ? "$" : "--", (int)spelling->length,
                spelling->word, command_that_runs(place)->name);
    const struct command *command;
    for (int i = place + 1; (command = command_that_runs(i)); i++)
        if (treats_alike(command, row, spelling))
            strbuf_addf(out, ", %s", command->name);
    strbuf_add(out, " | ");
    add_outcome(out, row);
    strbuf_add(out, " |\n");
}

static void add_list(struct strbuf *out, int place, const struct option *row, const char *list,
                     bool variable)
{
    struct spelling spelling = {.variable = variable};
    while (list && (spelling.length = option_next_word(&list, &spelling.word)) > 0)
        add_spelling(out, place, row, &spelling);
}

static void add_variables(struct strbuf *out)
{
    strbuf_add(out, "\nVariables that belong to no option; those of other programs mean what they "
                    "mean there:\n\n"
                    "| variable | here |\n| --- | --- |\n");
    for (const struct variable *variable = variables_list(); variable->names; variable++) {
        strbuf_add(out, "| `$");
        for (const char *at = variable->names; *at; at++) {
            strbuf_add_char(out, *at);
            if (at[1] == ',')
                strbuf_add_char(out, '`');
            else if (*at == ' ')
                strbuf_add(out, "`$");
        }
        strbuf_add(out, "` | ");
        add_cell(out, variable->help);
        strbuf_add(out, " |\n");
    }
}

static void add_models(struct strbuf *out)
{
    const struct session_model_alias *alias;
    for (int i = 0; (alias = session_model_alias(i)); i++)
        strbuf_addf(out, "| `%s` | train, pipeline, eval, bench | same as `%s` |\n", alias->theirs,
                    alias->ours);
}

static void add_foreign_variables(struct strbuf *out)
{
    const struct foreign_variable *variable;
    for (int i = 0; (variable = foreign_variable_at(i)); i++) {
        const char *list = variable->names, *word, *between = "| ";
        for (size_t length; (length = option_next_word(&list, &word)) > 0; between = " ")
            strbuf_addf(out, "%s`$%.*s`", between, (int)length, word);
        strbuf_addf(out, " | %s | %s |\n", variable->commands, variable->outcome);
    }
}

/* What a script may look for in the output, and where it is or why it is not. */
struct printed {
    const char *line, *from, *here;
};

static const struct printed printed[] = {
    {"Accuracy: X", "Wide & Deep", "train, eval, pipeline: after the last evaluation"},
    {"Total time: X", "Wide & Deep", "train, pipeline: of steps and evaluations, in seconds"},
    {"Target Accuracy: X", "Wide & Deep", "train, pipeline: when there is a target"},
    {"Accuracy of A met the target accuracy of T", "Wide & Deep",
     "the same; `did not meet`, and exit status 1, when A is below T"},
    {"Unable to find accuracy metric in the log file", "Wide & Deep",
     "the same, and exit status 1, when the network has no accuracy"},
    {"Model:       X", "tf_cnn_benchmarks",
     "bench, and train with --display-every: first of the lines that end with `==========`"},
    {"Step\\tImg/sec\\ttotal_loss", "tf_cnn_benchmarks", "the same, after `Done warm up`"},
    {"10\\timages/sec: X +/- Y (jitter = Z)\\tL", "tf_cnn_benchmarks",
     "the same; train counts steps from its first, bench from the end of the warm-up"},
    {"total images/sec: X", "tf_cnn_benchmarks", "the same, at the end"},
    {"Accuracy @ 1 = X Accuracy @ 5 = Y [N examples]", "tf_cnn_benchmarks", "eval"},
    {":::MLPv0.5.0 ... run_final", "resnet50v1_5",
     "not printed: it is a line of MLPerf's rules, by which this program makes no run; the exit "
     "status tells that the training came to its end"},
    {"global_step/sec: X", "tf.estimator", "not printed: --json has examples_per_second"},
    {"  Step Epoch Speed   Loss  FinLoss   LR", "train_imagenet_resnet_hvd",
     "not printed: --display-every has one form of lines, that of tf_cnn_benchmarks"},
};

static void add_printed(struct strbuf *out)
{
    strbuf_add(out, "\n## Lines that scripts look for\n\n"
                    "They go to standard output. When the JSON goes there (`--json -`), train and "
                    "pipeline print them on standard error, eval and bench leave them out.\n\n"
                    "| line | of | here |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++)
        strbuf_addf(out, "| `%s` | %s | %s |\n", printed[i].line, printed[i].from, printed[i].here);
}

void compatibility_page(struct strbuf *out)
{
    strbuf_add(out, "# Compatibility\n\n"
                    "Options and environment variables of other training programs, and what "
                    "becomes of them here.\nNone is accepted and ignored. `-` and `_` are the "
                    "same in every option's name.\n\n"
                    "Made by `lockstep help --compatibility`; `make golden` writes it.\n\n"
                    "| spelling | command | here |\n| --- | --- | --- |\n");
    const struct command *command;
    for (int i = 0; (command = command_that_runs(i)); i++)
        for (const struct option *row = command->options; row->type != OPTION_IS_END; row++) {
            if (row->type == OPTION_IS_REFUSED)
                add_list(out, i, row, row->name, false);
            add_list(out, i, row, row->aliases, false);
            add_list(out, i, row, row->environment, true);
        }
    add_models(out);
    add_foreign_variables(out);
    add_variables(out);
    add_printed(out);
}
