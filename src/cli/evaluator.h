/* The evaluator of TF_CONFIG: outside the group, it evaluates each checkpoint that the chief saves. */
#ifndef CLI_EVALUATOR_H
#define CLI_EVALUATOR_H

struct error;
struct options;
struct training_settings;

/* Until the checkpoint of the last step is evaluated, or a signal comes. An exit status, or -1. */
int evaluator_run(const struct options *options, const struct training_settings *settings,
                  struct error *err);

#endif
