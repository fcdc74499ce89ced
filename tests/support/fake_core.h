/* A server's core without a network in it: models whose answers are simple functions of what was
 * asked, given by one thread that waits when it is told to. For tests of the doors. */
#ifndef TESTS_SUPPORT_FAKE_CORE_H
#define TESTS_SUPPORT_FAKE_CORE_H

#include <stdbool.h>

#include "serve/grpc_door.h"

struct fake_core;

/* Models, all version 7 (label "stable"):
 *   "sums": serving_default x f32 [N, 3] -> sum f32 [N], doubled f32 [N, 3], count i64 [N],
 *           text string [N] ("row 0" ...); signature "bytes": u8 [N, 4], i32 [N], text [N] -> the
 *           same back
 *   "wide-deep-large-ds-fp32-training": predict I1..I13 f32 [N], C1..C26 string [N] ->
 *           probabilities f32 [N, 2]: 1 - I1, I1; class_ids i64 [N, 1]: 1 when I1 > 0.5; classes
 *           string [N, 1]
 *   "resnet50": serving_default input_tensor f32 [N, 224, 224, 3] -> probabilities f32 [N, 10]:
 *           0.5 at the class that the first pixel says
 * Any other model is SERVE_NOT_FOUND; "loading" is SERVE_UNAVAILABLE. */
struct fake_core *fake_core_create(void);
void fake_core_destroy(struct fake_core *core);
struct grpc_backend fake_core_backend(struct fake_core *core);

/* While it is held nothing is answered; what waits is, when it is let go. */
void fake_core_hold(struct fake_core *core, bool held);
void fake_core_set_delay(struct fake_core *core, double seconds); /* per question */
void fake_core_set_ready(struct fake_core *core, bool ready);
void fake_core_set_token(struct fake_core *core, const char *token); /* NULL: all may ask */
void fake_core_set_limit(struct fake_core *core, int waiting);       /* more are SERVE_EXHAUSTED */
int fake_core_waiting(struct fake_core *core);
int fake_core_answered(struct fake_core *core); /* SERVE_OK */
int fake_core_given_up(struct fake_core *core);
/* Of those that wait: cancelled, or past their deadline. A client knows a moment earlier. */
int fake_core_hopeless(struct fake_core *core);    /* cancelled or too late when their turn came */
int fake_core_held_models(struct fake_core *core); /* by calls in flight */
/* Of the last question: its deadline, as seconds from when it was asked; 0: none. */
double fake_core_last_deadline(struct fake_core *core);
const char *fake_core_configured(struct fake_core *core); /* names of the last configuration */

#endif
