/* A network with everything needed to run it, for tests of the engine: graph, parameters, one plan
 * and a batch of drawn inputs. Failures end the running test. */
#ifndef SUPPORT_SUBJECT_H
#define SUPPORT_SUBJECT_H

#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"

enum { SUBJECT_MAX_FIELDS = 16, SUBJECT_MAX_TABLES = 4 };

struct subject {
    struct arena *arena;
    struct graph *graph;
    struct params *params;
    struct plan *plan;
    struct tensor inputs[SUBJECT_MAX_FIELDS], outputs[SUBJECT_MAX_FIELDS];
    struct {
        int param;
        struct tensor gradient; /* of the whole table */
    } tables[SUBJECT_MAX_TABLES];
    int table_count;
};

/* `text` as in network_text.h. Weights and inputs depend on `seed` alone. */
struct subject subject_open(const char *text, struct plan_options options, uint64_t seed);
/* The same for a finished graph, which then belongs to the subject. */
struct subject subject_open_graph(struct graph *graph, struct plan_options options, uint64_t seed);
void subject_close(struct subject *subject);

/* Another plan on the same parameters; the caller's to destroy. */
struct plan *subject_plan(struct subject *subject, struct plan_options options);
/* Draws inputs for any plan of the subject's graph: normal floats, labels 0 and 1. */
void subject_draw_inputs(struct subject *subject, const struct plan *plan, uint64_t seed,
                         struct tensor *inputs);

/* Skips the test where the processor lacks AVX2 and FMA, for which our kernels are, or AVX-512 if it is in
 * the name: to be called before anything is made, for a test that is skipped frees nothing. */
void subject_need_processor(const char *kernel);
/* The plan must have chosen a kernel of this name. */
void subject_need_kernel(const struct subject *subject, const char *name);

/* Runs forward; gives the mean loss, summed in double. */
double subject_loss(struct subject *subject);
/* Forward and backward, with the mean's gradient. */
double subject_gradients(struct subject *subject);

/* Plain copies in the subject's arena; `subject_read` of the weights, or of their gradients. */
struct tensor subject_read(struct subject *subject, int index);
struct tensor subject_read_gradient(struct subject *subject, int index);
void subject_write(struct subject *subject, int index, struct tensor tensor);

#endif
