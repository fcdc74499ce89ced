#include "support/fake_model.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/memory.h"
#include "convert/imported.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "serve/servable.h"
#include "support/network_text.h"
#include "support/test.h"

static atomic_int alive;

/* --- the gate -------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the three below */
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool closed;
static int standing, passes;

static void pass_gate(void)
{
    pthread_mutex_lock(&lock);
    standing++;
    pthread_cond_broadcast(&moved);
    while (closed && passes == 0)
        pthread_cond_wait(&moved, &lock);
    if (closed)
        passes--;
    standing--;
    pthread_mutex_unlock(&lock);
}

static void set_gate(bool shut, int more)
{
    pthread_mutex_lock(&lock);
    closed = shut;
    passes = shut ? passes + more : 0;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}

void fake_gate_close(void)
{
    set_gate(true, 0);
}

void fake_gate_open(void)
{
    set_gate(false, 0);
}

void fake_gate_pass(int count)
{
    set_gate(true, count);
}

void fake_gate_wait(int count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int status = 0;
    pthread_mutex_lock(&lock);
    while (standing < count && status == 0)
        status = pthread_cond_timedwait(&moved, &lock, &until);
    pthread_mutex_unlock(&lock);
    ASSERT_INT(status, ==, 0);
}

/* --- the network ----------------------------------------------------------------------------- */

struct fake {
    struct imported model; /* first */
    struct arena *arena;
};

static const struct signature_tensor inputs[] = {
    {"x", "serving_default_x:0", DTYPE_F32, {2, {SHAPE_BATCH, FAKE_INPUTS}}},
};
static const struct signature_tensor outputs[] = {
    {"y", "StatefulPartitionedCall:0", DTYPE_F32, {2, {SHAPE_BATCH, FAKE_OUTPUTS}}},
};
/* The same as one text of four numbers, and with scores under the names of a classification. */
static const struct signature_tensor scores[] = {
    {"scores", "scores:0", DTYPE_F32, {2, {SHAPE_BATCH, FAKE_OUTPUTS}}},
    {"first", "first:0", DTYPE_F32, {1, {SHAPE_BATCH}}},
};
static const struct signature signatures[] = {
    {.name = "serving_default",
     .method = "tensorflow/serving/predict",
     .inputs = inputs,
     .outputs = outputs,
     .input_count = 1,
     .output_count = 1},
    {.name = "scored",
     .method = "tensorflow/serving/predict",
     .inputs = inputs,
     .outputs = scores,
     .input_count = 1,
     .output_count = 2},
};
static const struct imported_port in_port = {"x", DTYPE_F32, {2, {SHAPE_BATCH, FAKE_INPUTS}}};
static const struct imported_port out_port = {"y", DTYPE_F32, {2, {SHAPE_BATCH, FAKE_OUTPUTS}}};

static void fake_destroy(struct imported *model)
{
    if (!model)
        return;
    params_destroy(model->params);
    graph_destroy(model->graph);
    memory_free(model);
    atomic_fetch_sub(&alive, 1);
}

static int fill(struct imported *model, uint64_t seed, struct error *err)
{
    struct plan *plan;
    if (network_from_text("input x f32 4\ndense y x units=3\noutput y y\n", &model->graph, err) <
            0 ||
        params_create(model->graph, 0, NULL, &model->params, err) < 0 ||
        plan_create(model->graph, model->params,
                    &(struct plan_options){.mode = PLAN_SERVE, .batch = 1, .threads = 1}, &plan,
                    err) < 0)
        return -1;
    int status = params_initialize(model->params, seed, err);
    plan_destroy(plan);
    return status;
}

static int make(uint64_t seed, struct imported **out, struct error *err)
{
    struct fake *fake = memory_allocate(sizeof *fake);
    struct imported *model = &fake->model;
    *model = (struct imported){.model = "fake",
                               .inputs = &in_port,
                               .outputs = &out_port,
                               .input_count = 1,
                               .output_count = 1,
                               .signatures = signatures,
                               .signature_count = 2};
    atomic_fetch_add(&alive, 1);
    if (fill(model, seed, err) < 0) {
        fake_destroy(model);
        return -1;
    }
    *out = model;
    return 0;
}

struct imported *fake_model_make(uint64_t seed)
{
    struct imported *model = NULL;
    struct error err = {0};
    ASSERT_OK(make(seed, &model, &err), err);
    return model;
}

static int fake_read(const char *directory, struct imported **out, struct error *err)
{
    char path[PATH_MAX], *text, *end;
    size_t bytes;
    snprintf(path, sizeof path, "%s/model.txt", directory);
    if (file_read(path, 100, &text, &bytes, err) < 0)
        return -1;
    unsigned long long seed = strtoull(text, &end, 10);
    bool number = end != text && !*end;
    memory_free(text);
    if (!number)
        return error_set(err, ERROR_FORMAT, "%s: is not a model", path);
    return make(seed, out, err);
}

static int fake_prepare(const struct imported *model, const struct signature *signature,
                        const struct tensor *request, int64_t rows, struct tensor *plan_inputs,
                        int64_t at, struct error *err)
{
    const float *from = request[0].data;
    (void)model, (void)signature;
    pass_gate();
    for (int64_t row = 0; row < rows; row++)
        if (from[row * FAKE_INPUTS] == 666)
            return error_set(err, ERROR_FORMAT, "input 'x', row %" PRId64 ": 666 is a bad value",
                             row);
    memcpy((float *)plan_inputs[0].data + at * FAKE_INPUTS, from,
           sizeof(float) * FAKE_INPUTS * (size_t)rows);
    return 0;
}

static int fake_finish(const struct imported *model, const struct signature *signature,
                       const struct tensor *plan_outputs, int64_t at, int64_t rows,
                       struct arena *arena, struct tensor *reply, struct error *err)
{
    const float *from = (const float *)plan_outputs[0].data + at * FAKE_OUTPUTS;
    (void)model;
    for (int i = 0; i < signature->output_count; i++)
        if (tensor_create(arena, DTYPE_F32, shape_with_batch(signature->outputs[i].shape, rows),
                          &reply[i], err) < 0)
            return -1;
    memcpy(reply[0].data, from, sizeof(float) * FAKE_OUTPUTS * (size_t)rows);
    for (int64_t row = 0; signature->output_count > 1 && row < rows; row++)
        ((float *)reply[1].data)[row] = from[row * FAKE_OUTPUTS];
    return 0;
}

const struct model_calls fake_model_calls = {
    .read = fake_read, .destroy = fake_destroy, .prepare = fake_prepare, .finish = fake_finish};

void fake_model_write(const char *directory, int64_t version, const char *text)
{
    char path[PATH_MAX];
    struct error err = {0};
    snprintf(path, sizeof path, "%s/%" PRId64, directory, version);
    ASSERT_OK(directory_make(path, &err), err);
    snprintf(path, sizeof path, "%s/%" PRId64 "/model.txt", directory, version);
    ASSERT_OK(file_write_atomic(path, text, strlen(text), &err), err);
}

int fake_models_alive(void)
{
    return atomic_load(&alive);
}
