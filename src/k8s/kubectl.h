/* kubectl, as the user has it: its context, its rights. No shell is between. */
#ifndef K8S_KUBECTL_H
#define K8S_KUBECTL_H

#include <stddef.h>

struct error;

/* Gets what kubectl prints as it comes. */
typedef void kubectl_sink(void *context, const char *bytes, size_t count);

struct kubectl_call {
    const char *program;      /* NULL: kubectl, from the PATH */
    const char *const *words; /* behind its name, NULL-terminated */
    const char *input;        /* for its standard input; NULL: nothing */
    kubectl_sink *output;     /* NULL: it prints where we do */
    void *output_context;
    kubectl_sink *errors; /* the same for standard error */
    void *errors_context;
};

/* Runs it and waits for its end. *status is its exit status, or 128 and the signal
 * that ended it. Fails when it cannot be started. */
int kubectl_run(const struct kubectl_call *call, int *status, struct error *err);

#endif
