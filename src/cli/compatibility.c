/* What becomes of the options and variables that users bring from other programs, as one table. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"

/* A cell of a Markdown table: a bar would end it. */
static void add_cell(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *text);
    }
}

static void add_mapped(struct strbuf *out, const struct command *command, const struct option *row,
                       const char *list, const char *before)
{
    const char *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;) {
        strbuf_addf(out, "| `%s%.*s` | %s | same as `%s%s`: ", before, (int)length, word,
                    command->name, row->type == OPTION_IS_ARGUMENT ? "" : "--", row->name);
        add_cell(out, row->help);
        strbuf_add(out, " |\n");
    }
}

static void add_refused(struct strbuf *out, const struct command *command,
                        const struct option *row, const char *name, int length)
{
    strbuf_addf(out, "| `--%.*s` | %s | refused: ", length, name, command->name);
    add_cell(out, row->help);
    if (row->accepts)
        strbuf_addf(out, " (accepted: %s)", row->accepts);
    strbuf_add(out, " |\n");
}

static void add_row(struct strbuf *out, const struct command *command, const struct option *row)
{
    if (row->type == OPTION_IS_SECTION)
        return;
    if (row->type != OPTION_IS_REFUSED) {
        add_mapped(out, command, row, row->aliases, "--");
        add_mapped(out, command, row, row->environment, "$");
        return;
    }
    add_refused(out, command, row, row->name, (int)strlen(row->name));
    const char *list = row->aliases, *word;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0;)
        add_refused(out, command, row, word, (int)length);
}

void compatibility_page(struct strbuf *out)
{
    strbuf_add(out, "# Compatibility\n\n"
                    "Options and environment variables of other training programs, and what "
                    "becomes of them here.\nNone is accepted and ignored. `-` and `_` are the "
                    "same in every option's name.\n\n"
                    "Made by `lockstep help --compatibility`.\n\n"
                    "| spelling | command | here |\n| --- | --- | --- |\n");
    for (const struct command *const *command = command_list(); *command; command++)
        for (const struct option *row = (*command)->options; row->type != OPTION_IS_END; row++)
            add_row(out, *command, row);
}
