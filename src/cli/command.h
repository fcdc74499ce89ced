/* A subcommand. Each file cmd_<name>.c defines one, named command_<name>; the build lists them. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stddef.h>

#include "cli/options.h"

struct error;

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1, /* also: an accuracy target that was not met */
    STATUS_USAGE = 2,
    STATUS_INTERRUPTED = 130, /* SIGINT */
    STATUS_TERMINATED = 143,  /* SIGTERM, after saving */
};

struct command {
    const char *name;        /* of a part: behind its group's, as in "data convert" */
    int order;               /* place in the overview: smaller first, then by name */
    const char *summary;     /* a few words, without a full stop */
    const char *description; /* paragraphs, separated by an empty line */
    const char *examples;    /* lines: "# what it does", then a command line */
    const struct option *options;
    const char *rest_behind; /* a flag: the words behind it are not options of this command, but
                              * options->rest; NULL: none */
    size_t settings_size;    /* of the structure that the options' fields are in */
    /* `settings` is the filled structure, zeroed before. Returns an exit status, or -1 with `err`
     * filled, which is printed as "lockstep: ...". */
    int (*run)(struct options *options, void *settings, struct error *err);
    /* A group: NULL-terminated commands, one of which the next word names. It has itself no
     * options and no run. */
    const struct command *const *parts;
};

const struct command *const *command_list(void); /* NULL-terminated, by name */
/* The one at this place of the overview, or NULL behind the last. */
const struct command *command_in_order(int place);
const struct command *command_find(const char *name); /* or NULL; "data convert" finds a part */
/* Commands that run, in the order of the overview, the parts in their group's place; NULL behind
 * the last. */
const struct command *command_that_runs(int place);
const char *command_word(const struct command *command); /* the last word of its name */

/* The whole program, without a process around it: finds the command, reads its options, runs it,
 * prints the failure, if any, to standard error. Returns the exit status. */
int cli_main(int argc, char **argv);

#endif
