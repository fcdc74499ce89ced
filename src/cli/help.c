/* Help for a terminal of 80 columns or more. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"

enum { WIDTH = 80, HELP_COLUMN = 28 };

static void blanks(struct strbuf *out, int count)
{
    while (count-- > 0)
        strbuf_add_char(out, ' ');
}

void wrap_text(struct strbuf *out, const char *text, int column, int indent, int width)
{
    bool first = true;
    while (*text) {
        text += strspn(text, " \n");
        int length = (int)strcspn(text, " \n");
        if (length == 0)
            break;
        if (!first && column + 1 + length > width) {
            strbuf_add_char(out, '\n');
            blanks(out, indent);
            column = indent;
            first = true;
        }
        if (!first) {
            strbuf_add_char(out, ' ');
            column++;
        }
        strbuf_add_bytes(out, text, (size_t)length);
        column += length;
        text += length;
        first = false;
    }
}

/* Paragraphs are separated by an empty line. */
static void add_paragraphs(struct strbuf *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t length = end ? (size_t)(end - text) : strlen(text);
        struct strbuf paragraph;
        strbuf_init(&paragraph);
        strbuf_add_bytes(&paragraph, text, length);
        wrap_text(out, paragraph.text, 0, 0, WIDTH);
        strbuf_add(out, "\n\n");
        strbuf_release(&paragraph);
        text += length + (end ? 2 : 0);
    }
}

static void add_list(struct strbuf *out, const char *before, const char *list, const char *each)
{
    const char *word;
    bool first = true;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0; first = false)
        strbuf_addf(out, "%s%s%.*s", first ? before : ", ", each, (int)length, word);
}

static void add_choices(struct strbuf *out, const struct option *option)
{
    const char *name;
    for (int i = 0; (name = option_choice(option, i)); i++)
        strbuf_addf(out, "%s%s", i ? ", " : "; one of ", name);
    if (option->open && option_choice(option, 0))
        strbuf_add(out, ", or a path");
}

/* "examples per rank and step [default: 32]; environment: BATCH; also --batch" */
static void add_row_text(struct strbuf *out, const struct option *option)
{
    strbuf_add(out, option->help);
    add_choices(out, option);
    if (option->initial_note)
        strbuf_addf(out, " [default: %s]", option->initial_note);
    else if (option->initial && option->type != OPTION_IS_FLAG)
        strbuf_addf(out, " [default: %s]", option->initial);
    else if (option->initial && strcmp(option->initial, "true") == 0)
        strbuf_add(out, " [default: on]");
    add_list(out, "; environment: ", option->environment, "");
    add_list(out, "; also ", option->aliases, "--");
}

static void add_row(struct strbuf *out, const struct option *option)
{
    struct strbuf left, right;
    strbuf_init(&left);
    strbuf_init(&right);
    if (option->type == OPTION_IS_ARGUMENT)
        strbuf_addf(&left, "  %s", option->name);
    else if (option->letter)
        strbuf_addf(&left, "  -%c, --%s", option->letter, option->name);
    else
        strbuf_addf(&left, "  --%s", option->name);
    if (option->type != OPTION_IS_ARGUMENT && option_takes_value(option))
        strbuf_addf(&left, " %s", option_value_name(option));
    add_row_text(&right, option);
    strbuf_add(out, left.text);
    if (left.length + 2 > HELP_COLUMN) {
        strbuf_add_char(out, '\n');
        blanks(out, HELP_COLUMN);
    } else {
        blanks(out, HELP_COLUMN - (int)left.length);
    }
    wrap_text(out, right.text, HELP_COLUMN, HELP_COLUMN, WIDTH);
    strbuf_add_char(out, '\n');
    strbuf_release(&left);
    strbuf_release(&right);
}

static int count_rows(const struct option *table, enum option_type type)
{
    int count = 0;
    for (; table->type != OPTION_IS_END; table++)
        count += table->type == type;
    return count;
}

/* "Usage: lockstep train [OPTIONS] MODEL" */
static void add_usage(struct strbuf *out, const struct command *command)
{
    strbuf_addf(out, "Usage: lockstep %s [OPTIONS]", command->name);
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++)
        if (row->type == OPTION_IS_ARGUMENT)
            strbuf_addf(out, row->required ? " %s" : " [%s]", row->name);
    strbuf_add(out, "\n\n");
}

static void add_options(struct strbuf *out, const struct option *table)
{
    bool heading = false;
    for (const struct option *row = table; row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_REFUSED)
            continue;
        if (row->type == OPTION_IS_SECTION)
            strbuf_addf(out, "%s%s:\n", heading ? "\n" : "", row->name);
        else if (!heading)
            strbuf_addf(out, "%s:\n", row->type == OPTION_IS_ARGUMENT ? "Arguments" : "Options");
        heading = true;
        if (row->type != OPTION_IS_SECTION)
            add_row(out, row);
    }
    strbuf_addf(out, "%s  -h, --help", heading ? "" : "Options:\n");
    blanks(out, HELP_COLUMN - 12);
    strbuf_add(out, "show this page\n");
}

static void add_examples(struct strbuf *out, const char *examples)
{
    strbuf_add(out, "\nExamples:\n");
    for (const char *line = examples; *line; line += strcspn(line, "\n"), line += *line == '\n')
        strbuf_addf(out, "  %.*s\n", (int)strcspn(line, "\n"), line);
}

static void add_parts(struct strbuf *out, const struct command *group)
{
    strbuf_addf(out, "Usage: lockstep %s COMMAND [OPTIONS]\n\n", group->name);
    add_paragraphs(out, group->description);
    strbuf_add(out, "Commands:\n");
    for (const struct command *const *part = group->parts; *part; part++)
        strbuf_addf(out, "  %-10s  %s\n", command_word(*part), (*part)->summary);
    strbuf_addf(out, "\n`lockstep help %s COMMAND` explains one of them.\n", group->name);
}

void help_command(const struct command *command, struct strbuf *out)
{
    strbuf_addf(out, "lockstep %s: %s\n\n", command->name, command->summary);
    if (command->parts) {
        add_parts(out, command);
        if (command->examples)
            add_examples(out, command->examples);
        return;
    }
    add_usage(out, command);
    add_paragraphs(out, command->description);
    add_options(out, command->options);
    if (command->examples)
        add_examples(out, command->examples);
    if (count_rows(command->options, OPTION_IS_REFUSED))
        strbuf_addf(out,
                    "\nOptions of other programs that cannot be honoured are refused with the "
                    "reason:\n`lockstep help --man %s | man -l -` lists them.\n",
                    command->name);
}

void help_overview(struct strbuf *out)
{
    strbuf_add(out, "lockstep trains reference deep-learning models on CPUs.\n\n"
                    "Usage: lockstep COMMAND [OPTIONS]\n\nCommands:\n");
    const struct command *command;
    for (int i = 0; (command = command_in_order(i)); i++)
        strbuf_addf(out, "  %-10s  %s\n", command->name, command->summary);
    strbuf_add(out,
               "\n`lockstep help COMMAND` explains one of them. To begin:\n"
               "  lockstep train mnist_custom --data digits   a network learns; no files needed\n"
               "  lockstep models                             what can be trained\n"
               "  lockstep doctor                             what this machine will use\n");
}
