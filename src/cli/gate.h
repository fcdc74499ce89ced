/* Whether a training is good enough: the words and the verdict that scripts around the original
 * programs know. */
#ifndef CLI_GATE_H
#define CLI_GATE_H

#include <stdio.h>

#include "cli/options.h"

struct json;
struct report;

struct gate {
    bool set; /* no target, no gate */
    double target;
};

enum gate_verdict {
    GATE_NONE, /* there is no gate */
    GATE_MET,
    GATE_MISSED,
    GATE_UNKNOWN, /* there is no accuracy to compare */
};

/* As --target-accuracy or TARGET_ACCURACY says. */
struct gate gate_from(const struct options *options, double target);
/* By the last evaluation; equal is enough. */
enum gate_verdict gate_judge(const struct gate *gate, const struct report *report);
bool gate_passes(enum gate_verdict verdict);
/* Nothing when there is no gate. */
void gate_print(const struct gate *gate, const struct report *report, FILE *out);
void gate_describe(const struct gate *gate, const struct report *report, struct json *out);

#endif
