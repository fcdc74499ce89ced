#include "base/arena.h"
#include "base/error.h"
#include "ops/weighted.h"

struct state {
    struct dnn_call *calls[PASS_COUNT];
    const void *own;
};

enum { MOST_ARGUMENTS = 4 };

/* Which argument of each pass's primitive is which buffer of the node; the bias comes last. */
static const struct {
    int count;
    enum dnn_argument arguments[MOST_ARGUMENTS];
    int roles[MOST_ARGUMENTS];
} bindings[PASS_COUNT] = {
    [PASS_FORWARD] = {4,
                      {DNN_SRC, DNN_WEIGHTS, DNN_DST, DNN_BIAS},
                      {ROLE_INPUT + WEIGHTED_X, ROLE_INPUT + WEIGHTED_WEIGHTS, ROLE_OUTPUT,
                       ROLE_INPUT + WEIGHTED_BIAS}},
    [PASS_BACKWARD_WEIGHTS] = {4,
                               {DNN_SRC, DNN_DIFF_DST, DNN_DIFF_WEIGHTS, DNN_DIFF_BIAS},
                               {ROLE_INPUT + WEIGHTED_X, ROLE_GRADIENT,
                                ROLE_GRADIENT_OF_INPUT + WEIGHTED_WEIGHTS,
                                ROLE_GRADIENT_OF_INPUT + WEIGHTED_BIAS}},
    [PASS_BACKWARD] = {3,
                       {DNN_DIFF_DST, DNN_WEIGHTS, DNN_DIFF_SRC},
                       {ROLE_GRADIENT, ROLE_INPUT + WEIGHTED_WEIGHTS,
                        ROLE_GRADIENT_OF_INPUT + WEIGHTED_X}},
};

int weighted_bind(struct plan_builder *builder, struct plan_node *node,
                  const struct weighted *weighted, struct error *err)
{
    struct state *state = ARENA_NEW(builder_arena(builder), struct state);
    if (!state)
        return error_set(err, ERROR_MEMORY, "no memory for a layer");
    node->state = state;
    state->own = weighted->own;
    struct layout output = dnn_layout(weighted->passes[PASS_FORWARD], DNN_DST);
    builder_output(builder, node, &output);
    bool bias = node->input_count > WEIGHTED_BIAS;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        if (!weighted->passes[pass])
            continue;
        int count = bindings[pass].count - (bindings[pass].count == MOST_ARGUMENTS && !bias);
        state->calls[pass] =
            builder_call(builder, node, (enum op_pass)pass, weighted->passes[pass], count,
                         bindings[pass].arguments, bindings[pass].roles, err);
        if (!state->calls[pass])
            return -1;
    }
    const struct dnn_primitive *const passes[PASS_COUNT] = {weighted->passes[PASS_FORWARD],
                                                            weighted->passes[PASS_BACKWARD_WEIGHTS],
                                                            weighted->passes[PASS_BACKWARD]};
    builder_kernel_names(builder, node, passes);
    return 0;
}

const void *weighted_own(const struct op_run *run)
{
    return ((const struct state *)run->state)->own;
}

static void run_pass(const struct op_run *run, enum op_pass pass)
{
    dnn_call_run(((const struct state *)run->state)->calls[pass]);
}

void weighted_forward(const struct op_run *run)
{
    run_pass(run, PASS_FORWARD);
}

void weighted_backward_weights(const struct op_run *run)
{
    run_pass(run, PASS_BACKWARD_WEIGHTS);
}

void weighted_backward(const struct op_run *run)
{
    run_pass(run, PASS_BACKWARD);
}
