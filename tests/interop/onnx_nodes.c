/* Runs tests as the ONNX project keeps them: a directory with model.onnx and, in test_data_set_N,
 * input_I.pb and output_I.pb.
 *
 *   onnx_nodes DIRECTORY...        one line each: "passed NAME", "refused NAME: why", "failed ..."
 *
 * Such a model gets its weights as inputs, and no input says which dimension is the batch. So each
 * test is tried in up to three ways, and the first that can be read counts: all inputs as values
 * with a batch in front, only the first, or none, which leaves the answer to be computed while
 * reading. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/onnx_build.h"
#include "exec/params.h"
#include "exec/plan.h"

enum { MAX_PORTS = 16, WAYS = 3 };

struct test {
    const char *directory;
    struct arena *arena;
    struct onnx_file file;
    struct onnx_tensor inputs[MAX_PORTS], outputs[MAX_PORTS];
    bool given[MAX_PORTS]; /* an optional input may be missing */
    int64_t batch;
};

static int read_tensor(const struct test *test, const char *kind, int number,
                       struct onnx_tensor *out, bool *found, struct error *err)
{
    char path[PATH_MAX], *bytes;
    size_t count;
    snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", test->directory, kind, number);
    *found = access(path, F_OK) == 0;
    if (!*found)
        return 0;
    if (file_read(path, 1 << 28, &bytes, &count, err) < 0)
        return -1;
    /* What is parsed may point into the bytes. */
    void *kept = arena_take(test->arena, count + 1);
    if (kept)
        memcpy(kept, bytes, count);
    memory_free(bytes);
    return kept ? onnx_parse_tensor(kept, count, test->arena, out, err)
                : error_set(err, ERROR_MEMORY, "no memory for %s", path);
}

static int read_test(struct test *test, struct error *err)
{
    char path[PATH_MAX], *bytes;
    size_t count;
    bool found;
    snprintf(path, sizeof path, "%s/model.onnx", test->directory);
    if (file_read(path, 1 << 28, &bytes, &count, err) < 0)
        return -1;
    void *kept = arena_take(test->arena, count + 1);
    if (kept)
        memcpy(kept, bytes, count);
    memory_free(bytes);
    if (!kept)
        return error_set(err, ERROR_MEMORY, "no memory for %s", path);
    if (onnx_parse(kept, count, test->arena, &test->file, err) < 0)
        return -1;
    if (test->file.input_count > MAX_PORTS || test->file.output_count > MAX_PORTS)
        return error_set(err, ERROR_FORMAT, "more than %d inputs or outputs", MAX_PORTS);
    for (int i = 0; i < test->file.input_count; i++)
        if (read_tensor(test, "input", i, &test->inputs[i], &test->given[i], err) < 0)
            return -1;
    for (int i = 0; i < test->file.output_count; i++) {
        if (read_tensor(test, "output", i, &test->outputs[i], &found, err) < 0)
            return -1;
        if (!found)
            return error_set(err, ERROR_FORMAT, "no output_%d.pb that is read", i);
    }
    return 0;
}

/* --- Ways to see it --- */

/* Which inputs are values of the network; the others become its tensors. False: no such way. */
static bool choose(struct test *test, int way, bool value[MAX_PORTS])
{
    int values = 0;
    test->batch = -1;
    for (int i = 0; i < test->file.input_count; i++) {
        const struct onnx_tensor *tensor = &test->inputs[i];
        bool can = test->given[i] && tensor->floats && tensor->ndim > 0 && tensor->count > 0;
        value[i] = can && (way == 0 || (way == 1 && values == 0));
        if (!value[i])
            continue;
        if (test->batch >= 0 && tensor->dim[0] != test->batch)
            return false;
        test->batch = tensor->dim[0];
        values++;
    }
    return way == 2 ? true : way == 1 ? values == 1 : values > 1;
}

/* The same file with some inputs as tensors. Where the data is known, so are the shapes. */
static int bind(struct test *test, const bool value[MAX_PORTS], struct onnx_file *out,
                struct error *err)
{
    const struct onnx_file *file = &test->file;
    struct onnx_tensor *tensors =
        ARENA_ARRAY(test->arena, struct onnx_tensor, file->tensor_count + MAX_PORTS);
    struct onnx_port *inputs = ARENA_ARRAY(test->arena, struct onnx_port, MAX_PORTS);
    if (!tensors || !inputs)
        return error_set(err, ERROR_MEMORY, "no memory for the test");
    *out = *file;
    out->input_count = 0;
    for (int i = 0; i < file->tensor_count; i++)
        tensors[i] = file->tensors[i];
    for (int i = 0; i < file->input_count; i++) {
        const struct onnx_tensor *tensor = &test->inputs[i];
        if (!test->given[i])
            return error_set(err, ERROR_FORMAT, "no input_%d.pb that is read", i);
        if (file->inputs[i].type != (int)tensor->type)
            return error_set(err, ERROR_FORMAT, "input_%d.pb is not of the type of the input", i);
        if (!value[i]) {
            tensors[out->tensor_count] = *tensor;
            tensors[out->tensor_count++].name = file->inputs[i].name;
            continue;
        }
        struct onnx_port port = {
            .name = file->inputs[i].name, .type = tensor->type, .ndim = tensor->ndim};
        for (int d = 0; d < tensor->ndim; d++)
            port.dim[d] = tensor->dim[d];
        inputs[out->input_count++] = port;
    }
    out->tensors = tensors;
    out->inputs = inputs;
    return 0;
}

/* --- Comparing, as the project's own runner does: 1e-3 of the value, 1e-7 at least --- */

static bool near(double got, double wanted)
{
    if (isnan(wanted) || isinf(wanted))
        return isnan(wanted) ? isnan(got) : got == wanted;
    return fabs(got - wanted) <= 1e-7 + 1e-3 * fabs(wanted);
}

static double element(const struct onnx_tensor *tensor, int64_t index)
{
    return tensor->floats ? (double)tensor->floats[index] : (double)tensor->integers[index];
}

static bool same_shape(const struct onnx_tensor *tensor, int ndim, const int64_t *dim)
{
    bool same = tensor->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = tensor->dim[i] == dim[i];
    return same;
}

static int compare_constant(const struct onnx_tensor *got, const struct onnx_tensor *wanted,
                            struct error *err)
{
    if (!same_shape(wanted, got->ndim, got->dim))
        return error_set(err, ERROR_NUMERIC, "another shape");
    for (int64_t i = 0; i < wanted->count; i++)
        if (!near(element(got, i), element(wanted, i)))
            return error_set(err, ERROR_NUMERIC, "element %lld is %g, expected %g", (long long)i,
                             element(got, i), element(wanted, i));
    return 0;
}

static int compare_value(const struct tensor *got, const struct onnx_tensor *wanted,
                         struct error *err)
{
    char text[96];
    if (!same_shape(wanted, got->shape.ndim, got->shape.dim))
        return error_set(err, ERROR_NUMERIC, "shape %s, not the expected one",
                         shape_text(&got->shape, text, sizeof text));
    for (int64_t i = 0; i < wanted->count; i++)
        if (!near((double)((const float *)got->data)[i], element(wanted, i)))
            return error_set(err, ERROR_NUMERIC, "element %lld is %g, expected %g", (long long)i,
                             (double)((const float *)got->data)[i], element(wanted, i));
    return 0;
}

/* --- Running --- */

static const struct onnx_tensor *find_input(const struct test *test, const char *name)
{
    for (int i = 0; i < test->file.input_count; i++)
        if (!strcmp(test->file.inputs[i].name, name))
            return &test->inputs[i];
    return NULL;
}

static int compare_outputs(const struct test *test, const struct plan *plan,
                           const struct tensor *outputs, struct error *err)
{
    for (int o = 0; o < test->file.output_count; o++)
        for (int i = 0; i < plan_output_count(plan); i++)
            if (!strcmp(plan_output_name(plan, i), test->file.outputs[o].name) &&
                compare_value(&outputs[i], &test->outputs[o], err) < 0)
                return -1;
    return 0;
}

static int run_plan(const struct test *test, const struct graph *graph, enum plan_mode mode,
                    struct error *err)
{
    struct plan_options options = {.mode = mode, .batch = (int)test->batch};
    struct params *params = NULL;
    struct plan *plan = NULL;
    struct tensor inputs[MAX_PORTS], outputs[MAX_PORTS];
    int status = -1;
    if (params_create(graph, 0, NULL, &params, err) < 0 ||
        plan_create(graph, params, &options, &plan, err) < 0 ||
        params_initialize(params, 1, err) < 0 || plan_refresh_weights(plan, err) < 0)
        goto out;
    for (int i = 0; i < plan_input_count(plan); i++) {
        const struct onnx_tensor *tensor = find_input(test, plan_input_name(plan, i));
        value_id input = graph_find_input(graph, plan_input_name(plan, i));
        inputs[i] = (struct tensor){DTYPE_F32,
                                    shape_with_batch(graph_value(graph, input)->shape, test->batch),
                                    (void *)(uintptr_t)tensor->floats};
    }
    plan_forward(plan, inputs, outputs);
    status = compare_outputs(test, plan, outputs, err);
out:
    plan_destroy(plan);
    params_destroy(params);
    return status;
}

/* All outputs must be known; that needs no plan. */
static int check_constants(const struct test *test, const struct onnx_file *file, struct error *err)
{
    for (int o = 0; o < file->output_count; o++) {
        struct error ignored = {0};
        const struct onnx_tensor *got =
            onnx_constant_output(file, file->outputs[o].name, test->arena, &ignored);
        if (!got)
            return error_set(err, ERROR_FORMAT, "%s",
                             ignored.code ? ignored.message : "not known while reading");
        if (compare_constant(got, &test->outputs[o], err) < 0)
            return -1;
    }
    return 0;
}

static int try_way(struct test *test, const struct onnx_file *file, struct error *err)
{
    static const struct onnx_build_options plain = {.plain = true};
    if (!file->input_count)
        return check_constants(test, file, err);
    struct graph *graph = graph_create();
    if (!graph)
        return error_set(err, ERROR_MEMORY, "no memory for a graph");
    int status = onnx_build(file, &plain, test->arena, graph, NULL, err);
    if (status == 0)
        status = graph_finish(graph, err);
    if (status == 0 && graph_output_count(graph) != file->output_count)
        status = error_set(err, ERROR_FORMAT, "some outputs depend on no input");
    if (status == 0)
        status = run_plan(test, graph, PLAN_SERVE, err);
    if (status == 0)
        status = run_plan(test, graph, PLAN_EVALUATE, err);
    graph_destroy(graph);
    return status;
}

/* The first way that is not refused decides. */
static int check(struct test *test, struct error *err)
{
    struct error first = {0};
    bool value[MAX_PORTS] = {false};
    struct onnx_file file;
    for (int way = 0; way < WAYS; way++) {
        *err = (struct error){0};
        if (!choose(test, way, value))
            continue;
        int status = bind(test, value, &file, err);
        if (status == 0)
            status = try_way(test, &file, err);
        if (status == 0 || err->code == ERROR_NUMERIC)
            return status;
        if (!first.code)
            first = *err;
    }
    *err = first;
    return -1;
}

static void judge(const char *directory)
{
    struct error err = {0};
    const char *slash = strrchr(directory, '/'), *name = slash ? slash + 1 : directory;
    struct test test = {.directory = directory, .arena = arena_create()};
    int status = test.arena ? read_test(&test, &err) : -1;
    if (status == 0)
        status = check(&test, &err);
    if (status == 0)
        printf("passed %s\n", name);
    else
        printf("%s %s: %s\n", err.code == ERROR_NUMERIC ? "failed" : "refused", name, err.message);
    fflush(stdout);
    arena_destroy(test.arena);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        judge(argv[i]);
    return 0;
}
