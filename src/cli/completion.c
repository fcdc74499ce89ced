/* Completion for bash: a function with the tables' words written out, so that a Tab starts no
 * program of ours. */
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/pages.h"

/* Quoted for the shell: choices come from tables, but a table may hold anything. */
static void add_quoted(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            strbuf_add(out, "'\\''");
        else
            strbuf_add_char(out, *text);
    }
}

static void add_choices(struct strbuf *out, const struct option *row)
{
    const char *name;
    for (int i = 0; (name = option_choice(row, i)); i++) {
        strbuf_add(out, i ? " " : "");
        add_quoted(out, name);
    }
}

/* Which of the words a value can be; files and directories by what help calls the value. */
static void add_value_rule(struct strbuf *out, const struct option *row)
{
    const char *value = option_value_name(row);
    bool directory = strstr(value, "DIR"), file = strstr(value, "FILE") || row->open;
    strbuf_addf(out, "words='");
    add_choices(out, row);
    strbuf_addf(out, "' files=%s", directory ? "-d" : file ? "-f" : "");
}

static void add_names(struct strbuf *out, const struct command *const *list)
{
    for (const struct command *const *command = list; *command; command++)
        strbuf_addf(out, "%s%s", command == list ? "" : " ", command_word(*command));
}

static void add_command(struct strbuf *out, const struct command *command)
{
    strbuf_addf(out, "    %s)\n        case $previous in\n", command_word(command));
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_SECTION || row->type == OPTION_IS_ARGUMENT ||
            row->type == OPTION_IS_REFUSED || !option_takes_value(row))
            continue;
        strbuf_addf(out, "        --%s", row->name);
        if (row->letter)
            strbuf_addf(out, " | -%c", row->letter);
        strbuf_add(out, ") ");
        add_value_rule(out, row);
        strbuf_add(out, " ;;\n");
    }
    strbuf_add(out, "        *)\n            case $current in\n            -*) words='--help");
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++)
        if (row->type != OPTION_IS_SECTION && row->type != OPTION_IS_ARGUMENT &&
            row->type != OPTION_IS_REFUSED)
            strbuf_addf(out, " --%s", row->name);
    strbuf_add(out, "' ;;\n");
    for (const struct option *row = command->options; row->type != OPTION_IS_END; row++)
        if (row->type == OPTION_IS_ARGUMENT) {
            strbuf_add(out, "            *) ");
            add_value_rule(out, row);
            strbuf_add(out, " ;;\n");
            break;
        }
    strbuf_add(out, "            esac ;;\n        esac ;;\n");
}

static void add_group(struct strbuf *out, const struct command *group)
{
    strbuf_addf(out, "    %s)\n    if [ \"$COMP_CWORD\" -eq 2 ]; then\n        words='",
                group->name);
    add_names(out, group->parts);
    strbuf_add(out, "'\n    else\n    case ${COMP_WORDS[2]} in\n");
    for (const struct command *const *part = group->parts; *part; part++)
        add_command(out, *part);
    strbuf_add(out, "    esac\n    fi ;;\n");
}

void completion_bash(struct strbuf *out)
{
    strbuf_add(out,
               "# bash completion for lockstep, made by `lockstep help --completion bash`.\n"
               "_lockstep()\n{\n"
               "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
               "    local words= files=\n"
               "    # --name=value comes as three words.\n"
               "    if [ \"$current\" = = ]; then\n"
               "        current=\n"
               "    elif [ \"$previous\" = = ]; then\n"
               "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
               "    fi\n"
               "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    add_names(out, command_list());
    strbuf_add(out, "'\n    else\n    case ${COMP_WORDS[1]} in\n");
    for (const struct command *const *command = command_list(); *command; command++) {
        if ((*command)->parts)
            add_group(out, *command);
        else
            add_command(out, *command);
    }
    strbuf_add(out, "    esac\n    fi\n"
                    "    COMPREPLY=($(compgen -W \"$words\" $files -- \"$current\"))\n"
                    "}\ncomplete -o filenames -o bashdefault -F _lockstep lockstep\n");
}
