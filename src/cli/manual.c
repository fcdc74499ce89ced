/* Manual pages in roff, one for the program and one for each command. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"
#include "cli/variables.h"

/* Text inside a line: what roff would read as its own is escaped. */
static void add_text(struct strbuf *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            strbuf_add(out, "\\e");
        else if (text[i] == '-')
            strbuf_add(out, "\\-");
        else
            strbuf_add_char(out, text[i]);
    }
}

/* Whole lines: a leading dot or quote would be a request. */
static void add_lines(struct strbuf *out, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (*text == '.' || *text == '\'')
            strbuf_add(out, "\\&");
        if (length)
            add_text(out, text, length);
        else
            strbuf_add(out, ".PP");
        strbuf_add_char(out, '\n');
        text += length + (text[length] == '\n');
    }
}

static void add_word(struct strbuf *out, const char *font, const char *before, const char *word,
                     size_t length)
{
    strbuf_addf(out, "\\f%s", font);
    add_text(out, before, strlen(before));
    add_text(out, word, length);
    strbuf_add(out, "\\fR");
}

static void add_names(struct strbuf *out, const char *before, const char *list, const char *each)
{
    const char *word;
    bool first = true;
    for (size_t length; list && (length = option_next_word(&list, &word)) > 0; first = false) {
        strbuf_add(out, first ? before : ", ");
        add_word(out, "B", each, word, length);
    }
    if (!first)
        strbuf_add(out, ".\n");
}

static void add_tag(struct strbuf *out, const struct option *row)
{
    strbuf_add(out, ".TP\n");
    if (row->type == OPTION_IS_ARGUMENT) {
        add_word(out, "I", "", row->name, strlen(row->name));
    } else {
        if (row->letter) {
            add_word(out, "B", "-", &row->letter, 1);
            strbuf_add(out, ", ");
        }
        add_word(out, "B", "--", row->name, strlen(row->name));
        if (option_takes_value(row)) {
            strbuf_add_char(out, ' ');
            add_word(out, "I", "", option_value_name(row), strlen(option_value_name(row)));
        }
    }
    strbuf_add_char(out, '\n');
}

/* Help rows are fragments; on this page more sentences follow them. */
static void add_sentence(struct strbuf *out, const char *text)
{
    add_text(out, text, strlen(text));
    strbuf_add(out, ".\n");
}

static void add_row(struct strbuf *out, const struct option *row)
{
    add_tag(out, row);
    add_sentence(out, row->help);
    const char *name;
    for (int i = 0; (name = option_choice(row, i)); i++) {
        strbuf_add(out, i ? ", " : "One of ");
        add_word(out, "B", "", name, strlen(name));
    }
    if (option_choice(row, 0))
        strbuf_add(out, row->open ? ", or a path.\n" : ".\n");
    const char *initial = row->initial_note ? row->initial_note : row->initial;
    if (initial && (row->initial_note || row->type != OPTION_IS_FLAG)) {
        strbuf_add(out, "Default: ");
        add_text(out, initial, strlen(initial));
        strbuf_add(out, ".\n");
    }
    add_names(out, "Environment: ", row->environment, "");
    add_names(out, "Also ", row->aliases, "--");
}

static void add_refused(struct strbuf *out, const struct option *table)
{
    bool first = true;
    for (const struct option *row = table; row->type != OPTION_IS_END; row++) {
        if (row->type != OPTION_IS_REFUSED)
            continue;
        if (first)
            strbuf_add(out, ".SH NOT SUPPORTED\nKnown from other programs; refused, with this "
                            "reason:\n");
        first = false;
        add_tag(out, row);
        add_sentence(out, row->help);
        add_names(out, "Accepted: ", row->accepts, "");
        add_names(out, "Also ", row->aliases, "--");
    }
}

static void add_examples(struct strbuf *out, const char *examples)
{
    strbuf_add(out, ".SH EXAMPLES\n.nf\n");
    add_lines(out, examples);
    strbuf_add(out, ".fi\n");
}

static void add_statuses(struct strbuf *out)
{
    static const char *const lines[][2] = {
        {"0", "done"},
        {"1", "failed, or an accuracy target was not met"},
        {"2", "the command line is wrong"},
        {"130", "interrupted"},
        {"143", "terminated, after saving"},
    };
    strbuf_add(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        strbuf_addf(out, ".TP\n%s\n%s\n", lines[i][0], lines[i][1]);
}

static void add_environment(struct strbuf *out)
{
    strbuf_add(out, ".SH ENVIRONMENT\n");
    for (const struct variable *variable = variables_list(); variable->names; variable++)
        strbuf_addf(out, ".TP\n\\fB%s\\fR\n%s\n", variable->names, variable->help);
}

static void add_head(struct strbuf *out, const char *name, const char *summary)
{
    strbuf_add(out, ".TH ");
    for (const char *at = name; *at; at++)
        strbuf_add_char(out, *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at);
    strbuf_addf(out, " 1 \"\" \"lockstep %s\" \"lockstep\"\n.SH NAME\n", LOCKSTEP_VERSION);
    add_text(out, name, strlen(name));
    strbuf_add(out, " \\- ");
    add_text(out, summary, strlen(summary));
    strbuf_add_char(out, '\n');
}

/* "lockstep-data-convert" */
static const char *page_name(const struct command *command, char *name, size_t bytes)
{
    snprintf(name, bytes, "lockstep-%s", command->name);
    for (char *at = name; *at; at++)
        if (*at == ' ')
            *at = '-';
    return name;
}

/* An entry of a list of commands: the name of its page, and what it is for. */
static void add_reference(struct strbuf *out, const struct command *command)
{
    char name[64];
    strbuf_add(out, ".TP\n");
    page_name(command, name, sizeof name);
    add_word(out, "B", "", name, strlen(name));
    strbuf_add(out, "(1)\n");
    add_lines(out, command->summary);
}

static void program_page(struct strbuf *out)
{
    add_head(out, "lockstep", "trains reference deep-learning models on CPUs");
    strbuf_add(out, ".SH SYNOPSIS\n\\fBlockstep\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
                    ".SH COMMANDS\n");
    const struct command *command;
    for (int i = 0; (command = command_in_order(i)); i++)
        add_reference(out, command);
    add_environment(out);
    add_statuses(out);
}

static void group_page(const struct command *group, struct strbuf *out)
{
    strbuf_addf(out, ".SH SYNOPSIS\n\\fBlockstep %s\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n",
                group->name);
    strbuf_add(out, ".SH DESCRIPTION\n");
    add_lines(out, group->description);
    strbuf_add(out, ".SH COMMANDS\n");
    for (const struct command *const *part = group->parts; *part; part++)
        add_reference(out, *part);
}

static void options_page(const struct command *command, struct strbuf *out)
{
    strbuf_addf(out, ".SH SYNOPSIS\n\\fBlockstep %s\\fR [\\fIOPTIONS\\fR]", command->name);
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++)
        if (row->type == OPTION_IS_ARGUMENT)
            strbuf_addf(out, row->required ? " \\fI%s\\fR" : " [\\fI%s\\fR]", row->name);
    strbuf_add(out, "\n.SH DESCRIPTION\n");
    add_lines(out, command->description);
    strbuf_add(out, ".SH OPTIONS\n");
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_SECTION)
            strbuf_addf(out, ".SS %s\n", row->name);
        else if (row->type != OPTION_IS_REFUSED)
            add_row(out, row);
    }
    strbuf_add(out, ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nshow a short form of this page\n");
}

void manual_page(const struct command *command, struct strbuf *out)
{
    if (!command) {
        program_page(out);
        return;
    }
    char name[64];
    add_head(out, page_name(command, name, sizeof name), command->summary);
    if (command->parts)
        group_page(command, out);
    else
        options_page(command, out);
    if (command->examples)
        add_examples(out, command->examples);
    if (command->options)
        add_refused(out, command->options);
    add_statuses(out);
    strbuf_add(out, ".SH SEE ALSO\n\\fBlockstep\\fR(1)\n");
}
