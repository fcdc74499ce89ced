#include "base/error.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/pages.h"

struct help_settings {
    const char *command, *part, *completion;
    bool manual, compatibility;
};

static const char *command_name(int index)
{
    const struct command *command = command_list()[index];
    return command ? command->name : NULL;
}

static const char *const shells[] = {"bash", NULL};

static const struct option options[] = {
    OPTION_ARGUMENT(help_settings, command, "COMMAND", .choice_at = command_name,
                    .help = "what to explain; without it, an overview"),
    OPTION_ARGUMENT(help_settings, part, "PART",
                    .help = "of a command that is a group, such as data: which part of it"),
    OPTION_SECTION("Other forms"),
    OPTION_FLAG(help_settings, manual, "man", .help = "print the manual page, in roff"),
    OPTION_CHOICE(help_settings, completion, "completion", .value = "SHELL", .choices = shells,
                  .help = "print a script that completes command lines"),
    OPTION_FLAG(help_settings, compatibility, "compatibility",
                .help = "print, in Markdown, what becomes of the options and variables of other "
                        "training programs"),
    OPTION_END};

static int find_command(const struct help_settings *wanted, const struct command **out,
                        struct error *err)
{
    char name[64];
    *out = wanted->command ? command_find(wanted->command) : NULL;
    if (!wanted->part)
        return 0;
    snprintf(name, sizeof name, "%s %s", wanted->command, wanted->part);
    *out = command_find(name);
    return *out ? 0 : error_set(err, ERROR_USAGE, "there is no command '%s'", name);
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    (void)parsed;
    const struct help_settings *wanted = settings;
    const struct command *command;
    if (find_command(wanted, &command, err) < 0)
        return -1;
    struct strbuf page;
    strbuf_init(&page);
    if (wanted->completion)
        completion_bash(&page);
    else if (wanted->compatibility)
        compatibility_page(&page);
    else if (wanted->manual)
        manual_page(command, &page);
    else if (command)
        help_command(command, &page);
    else
        help_overview(&page);
    int status = output_text(&page, err);
    strbuf_release(&page);
    return status;
}

const struct command command_help = {
    .name = "help",
    .order = 140,
    .summary = "explain the program or one of its commands",
    .description = "Everything shown is made from the tables that the program itself reads its "
                   "options by, so it cannot be out of date.",
    .examples = "# all options of train\n"
                "lockstep help train\n"
                "# the manual page\n"
                "lockstep help --man train | man -l -\n"
                "# complete command lines in this shell\n"
                "source <(lockstep help --completion bash)\n",
    .options = options,
    .settings_size = sizeof(struct help_settings),
    .run = run,
};
