/* How a run ended, for those who tell others. */
#ifndef WATCH_OUTCOME_H
#define WATCH_OUTCOME_H

enum run_outcome {
    RUN_FINISHED,
    RUN_FAILED,
    RUN_INTERRUPTED, /* by a signal */
};

#endif
