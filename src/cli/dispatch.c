#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/signals.h"

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

const char *command_word(const struct command *command)
{
    const char *blank = strrchr(command->name, ' ');
    return blank ? blank + 1 : command->name;
}

static const struct command *find_among(const struct command *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(command_word(*list), word) == 0)
            return *list;
    return NULL;
}

const struct command *command_find(const char *name)
{
    char group[32];
    const char *blank = strchr(name, ' ');
    if (!blank)
        return find_among(commands, name);
    snprintf(group, sizeof group, "%.*s", (int)(blank - name), name);
    const struct command *found = find_among(commands, group);
    return found && found->parts ? find_among(found->parts, blank + 1) : NULL;
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

const struct command *command_that_runs(int place)
{
    const struct command *command;
    for (int i = 0; (command = command_in_order(i)); i++) {
        if (!command->parts && place-- == 0)
            return command;
        for (int part = 0; command->parts && command->parts[part]; part++)
            if (place-- == 0)
                return command->parts[part];
    }
    return NULL;
}

/* "rank 3: " when this is not the first of several. */
static const char *speaker(void)
{
    static char text[24];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!*text && rank && strtol(rank, NULL, 10) > 0)
        snprintf(text, sizeof text, "rank %ld: ", strtol(rank, NULL, 10));
    return text;
}

static void print_log_line(void *context, enum log_level level, const char *line)
{
    (void)context;
    const char *over = isatty(STDERR_FILENO) ? "\r\033[K" : ""; /* a line that moves */
    fprintf(stderr, "%slockstep: %s%s%s\n", over, speaker(),
            level == LOG_WARNING ? "warning: " : "", line);
}

/* Prints the failure; returns the exit status that goes with it. */
static int report(const char *command, const struct error *err)
{
    fflush(stdout); /* so that what was said before also stands before */
    if (command && err->code == ERROR_USAGE)
        fprintf(stderr, "lockstep %s: %s%s\n", command, speaker(), err->message);
    else if (err->code != ERROR_TOLD)
        fprintf(stderr, "lockstep: %s%s\n", speaker(), err->message);
    if (err->code == ERROR_USAGE)
        return STATUS_USAGE;
    return err->code == ERROR_CANCELLED ? STATUS_INTERRUPTED : STATUS_FAILED;
}

static int unknown_command(const struct command *group, const char *name)
{
    struct nearest nearest;
    struct error err;
    nearest_start(&nearest, name);
    for (const struct command *const *command = group ? group->parts : commands; *command;
         command++)
        nearest_offer(&nearest, command_word(*command));
    if (nearest.best)
        error_set(&err, ERROR_USAGE, "unknown command '%s': did you mean %s?", name, nearest.best);
    else
        error_set(&err, ERROR_USAGE, "unknown command '%s': `lockstep help%s%s` lists them", name,
                  group ? " " : "", group ? group->name : "");
    return report(group ? group->name : NULL, &err);
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

/* How many words are the command's own. */
static int count_own(const struct command *command, int argc, char **argv)
{
    for (int i = 0; command->rest_behind && i < argc; i++)
        if (!strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, command->rest_behind))
            return i + 1;
    return argc;
}

static int run_command(const struct command *command, int argc, char **argv, void *settings,
                       struct error *err)
{
    struct options options;
    int own = count_own(command, argc, argv);
    if (options_parse(command->options, own, argv, getenv, settings, &options, err) < 0)
        return -1;
    options.rest_count = argc - own;
    options.rest = argv + own;
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

/* Nothing was asked for: what there is, to where errors go. */
static int show_choice(const struct command *group)
{
    struct strbuf page;
    strbuf_init(&page);
    if (group)
        help_command(group, &page);
    else
        help_overview(&page);
    fputs(page.text, stderr);
    strbuf_release(&page);
    return STATUS_USAGE;
}

static int run_and_report(const struct command *command, int argc, char **argv)
{
    log_set_sink(print_log_line, NULL);
    struct error err = {0};
    void *settings = memory_allocate(command->settings_size);
    int status = settings ? run_command(command, argc, argv, settings, &err)
                          : error_set(&err, ERROR_MEMORY, "no memory for the settings");
    memory_free(settings);
    status = finish_output(status, &err);
    log_set_sink(NULL, NULL);
    if (status < 0 && err.code == ERROR_CANCELLED && signals_status())
        return signals_status();
    return status < 0 ? report(command->name, &err) : status;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_part(const struct command *group, int argc, char **argv)
{
    if (argc == 0)
        return show_choice(group);
    if (asks_for_help(argv[0])) {
        struct error err = {0};
        int status = finish_output(show_help(group, &err), &err);
        return status < 0 ? report(NULL, &err) : status;
    }
    const struct command *part = find_among(group->parts, argv[0]);
    return part ? run_and_report(part, argc - 1, argv + 1) : unknown_command(group, argv[0]);
}

/* kubectl finds its plugins by their names: kubectl-lockstep is `lockstep k8s`. */
static bool is_plugin(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "kubectl-lockstep") == 0;
}

int cli_main(int argc, char **argv)
{
    if (argc > 0 && is_plugin(argv[0]))
        return run_part(find_among(commands, "k8s"), argc - 1, argv + 1);
    if (argc < 2)
        return show_choice(NULL);
    const char *name = argv[1];
    if (asks_for_help(name))
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *command = find_among(commands, name);
    if (!command)
        return unknown_command(NULL, name);
    return command->parts ? run_part(command, argc - 2, argv + 2)
                          : run_and_report(command, argc - 2, argv + 2);
}
