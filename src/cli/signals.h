/* SIGINT and SIGTERM as a number that long work looks at between two steps. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdatomic.h>

/* From now on the first SIGINT or SIGTERM only sets the number; a second one of its kind ends the
 * process as usual. The number is 0 until then. Open MPI's order to end, which comes before its SIGTERM,
 * counts as one. */
const atomic_int *signals_catch(void);
const atomic_int *signals_number(void); /* the same number; catches nothing */
/* Exit status for a run that a signal ended: 130, 143; 0 when there was none. */
int signals_status(void);

#endif
