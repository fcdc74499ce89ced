/* Variables of the environment that belong to no option: those are in the commands' tables. */
#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H

struct variable {
    const char *names; /* separated by ", " */
    const char *help;
};

const struct variable *variables_list(void); /* ends with a row without names */

#endif
