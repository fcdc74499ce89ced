/* Variables of the environment that users bring from other programs and that no option reads. */
#ifndef CLI_FOREIGN_VARIABLES_H
#define CLI_FOREIGN_VARIABLES_H

#include <stdbool.h>

struct foreign_variable {
    const char *names; /* separated by blanks */
    const char *commands, *outcome;
    bool said; /* it would have changed a run elsewhere, so a run here says that it does not */
};

const struct foreign_variable *foreign_variable_at(int index); /* NULL behind the last */

/* One line in the log for each kind of those that are set and have no effect. `environment` looks a
 * variable up: getenv, or a test's own. */
void foreign_variables_tell(char *(*environment)(const char *name));

#endif
