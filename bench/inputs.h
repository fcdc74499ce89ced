/* Something to compute with, for benchmarks that drive plans themselves. */
#ifndef BENCH_INPUTS_H
#define BENCH_INPUTS_H

#include "base/error.h"
#include "base/memory.h"
#include "exec/plan.h"
#include "graph/graph.h"

/* Some numbers for each input: what they are does not matter to the time. The memory is the process's. */
static inline int fill_inputs(const struct graph *graph, const struct plan *plan,
                              struct tensor *inputs, struct error *err)
{
    for (int i = 0; i < plan_input_count(plan); i++) {
        const struct value *value =
            graph_value(graph, graph_find_input(graph, plan_input_name(plan, i)));
        inputs[i] = (struct tensor){.dtype = value->dtype, .shape = value->shape};
        inputs[i].shape.dim[0] = plan_batch(plan);
        inputs[i].data = memory_allocate(tensor_bytes(&inputs[i]));
        if (!inputs[i].data)
            return error_set(err, ERROR_MEMORY, "no memory for the inputs");
        for (int64_t k = 0; value->dtype == DTYPE_F32 && k < shape_count(&inputs[i].shape); k++)
            ((float *)inputs[i].data)[k] = (float)(k * 7919 % 255) - 127;
    }
    return 0;
}

#endif
