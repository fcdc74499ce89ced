#include <errno.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/pages.h"

#define COMMAND(name) extern const struct command command_##name;
#include "commands.list"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(name) &command_##name,
#include "commands.list"
#undef COMMAND
    NULL,
};

const struct command *const *command_list(void)
{
    return commands;
}

const struct command *command_find(const char *name)
{
    for (const struct command *const *command = commands; *command; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

static bool comes_before(int a, int b)
{
    return commands[a]->order < commands[b]->order ||
           (commands[a]->order == commands[b]->order && a < b);
}

const struct command *command_in_order(int place)
{
    for (int i = 0; commands[i]; i++) {
        int before = 0;
        for (int j = 0; commands[j]; j++)
            before += comes_before(j, i);
        if (before == place)
            return commands[i];
    }
    return NULL;
}

static void print_log_line(void *context, enum log_level level, const char *line)
{
    (void)context;
    fprintf(stderr, "lockstep: %s%s\n", level == LOG_WARNING ? "warning: " : "", line);
}

/* Prints the failure; returns the exit status that goes with it. */
static int report(const char *command, const struct error *err)
{
    fflush(stdout); /* so that what was said before also stands before */
    if (command && err->code == ERROR_USAGE)
        fprintf(stderr, "lockstep %s: %s\n", command, err->message);
    else
        fprintf(stderr, "lockstep: %s\n", err->message);
    if (err->code == ERROR_USAGE)
        return STATUS_USAGE;
    return err->code == ERROR_CANCELLED ? STATUS_INTERRUPTED : STATUS_FAILED;
}

static int unknown_command(const char *name)
{
    struct nearest nearest;
    struct error err;
    nearest_start(&nearest, name);
    for (const struct command *const *command = commands; *command; command++)
        nearest_offer(&nearest, (*command)->name);
    if (nearest.best)
        error_set(&err, ERROR_USAGE, "unknown command '%s': did you mean %s?", name, nearest.best);
    else
        error_set(&err, ERROR_USAGE, "unknown command '%s': `lockstep help` lists them", name);
    return report(NULL, &err);
}

static int show_help(const struct command *command, struct error *err)
{
    struct strbuf page;
    strbuf_init(&page);
    help_command(command, &page);
    int status = output_text(&page, err);
    strbuf_release(&page);
    return status;
}

static int run_command(const struct command *command, int argc, char **argv, void *settings,
                       struct error *err)
{
    struct options options;
    if (options_parse(command->options, argc, argv, getenv, settings, &options, err) < 0)
        return -1;
    return options.help ? show_help(command, err) : command->run(&options, settings, err);
}

/* A full disk behind standard output must not look like success. */
static int finish_output(int status, struct error *err)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (status == 0)
            return error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
    }
    return status;
}

static int no_command(void)
{
    struct strbuf page;
    strbuf_init(&page);
    help_overview(&page);
    fputs(page.text, stderr);
    strbuf_release(&page);
    return STATUS_USAGE;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2)
        return no_command();
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command)
        return unknown_command(name);
    log_set_sink(print_log_line, NULL);
    struct error err = {0};
    void *settings = memory_allocate(command->settings_size);
    int status = settings ? run_command(command, argc - 2, argv + 2, settings, &err)
                          : error_set(&err, ERROR_MEMORY, "no memory for the settings");
    memory_free(settings);
    status = finish_output(status, &err);
    log_set_sink(NULL, NULL);
    return status < 0 ? report(command->name, &err) : status;
}
