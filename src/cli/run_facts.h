/* What can be told of a run before it starts, as plain text and numbers, for those who show it. */
#ifndef CLI_RUN_FACTS_H
#define CLI_RUN_FACTS_H

#include "watch/record.h"

struct arena;
struct options;
struct watchers_run;

/* The texts are in `arena`, or as long-lived as the run. */
int run_facts(const struct watchers_run *run, struct arena *arena, struct record_facts *out,
              struct error *err);

/* An option's value as the user would write it, or NULL when it has none. */
struct option;
const char *run_setting_text(const struct option *option, const void *settings,
                             struct arena *arena);

#endif
