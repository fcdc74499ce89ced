/* What becomes of the options and variables that users bring from other programs, as one table. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"
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
    add_variables(out);
}
