/* How the sums over ranks went: how long they took, what of that was hidden, and when in a step each
 * could begin, began and ended; medians over the last steps with the same buckets. An observer. */
#ifndef CLI_REDUCTIONS_H
#define CLI_REDUCTIONS_H

#include "train/trainer.h"

struct json;
struct reductions;

/* For steps with at most so many parameters. */
int reductions_create(int params, struct reductions **out, struct error *err);
void reductions_destroy(struct reductions *reductions); /* accepts NULL */
/* A train_observer; the context is the struct reductions, or NULL. Allocates nothing. */
void reductions_observe(void *reductions, const struct train_event *event);
/* The field "reductions", when there were enough steps with the last buckets; accepts NULL. */
void reductions_describe(struct reductions *reductions, struct json *out);

#endif
