#include "support/fake_core.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "convert/imported.h"
#include "net/token.h"

enum { MODELS = 3, VERSION = 7 };

/* A model in the core: the door sees it only as a pointer. */
struct fake_model {
    const char *name;
    struct imported imported;
    struct fake_core *core;
};

struct fake_core {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct inference *first, *last;
    int waiting, limit, answered, given_up, held_models;
    bool held, ready, ending;
    double delay, last_deadline;
    char token[64], configured[512];
    struct fake_model models[MODELS];
    struct arena *arena;
};

/* ---- what is asked -------------------------------------------------------------------------- */

static struct signature_tensor *tensors(struct arena *arena, int count)
{
    return ARENA_ARRAY(arena, struct signature_tensor, count);
}

static struct signature_tensor tensor(struct arena *arena, const char *key, enum dtype dtype,
                                      struct shape shape)
{
    return (struct signature_tensor){key, arena_format(arena, "%s:0", key), dtype, shape};
}

static void fill_sums(struct arena *arena, struct signature *out)
{
    struct signature_tensor *inputs = tensors(arena, 1), *outputs = tensors(arena, 4);
    struct signature_tensor *raw = tensors(arena, 3);
    inputs[0] = tensor(arena, "x", DTYPE_F32, SHAPE(SHAPE_BATCH, 3));
    outputs[0] = tensor(arena, "sum", DTYPE_F32, SHAPE(SHAPE_BATCH));
    outputs[1] = tensor(arena, "doubled", DTYPE_F32, SHAPE(SHAPE_BATCH, 3));
    outputs[2] = tensor(arena, "count", DTYPE_I64, SHAPE(SHAPE_BATCH));
    outputs[3] = tensor(arena, "text", DTYPE_STRING, SHAPE(SHAPE_BATCH));
    raw[0] = tensor(arena, "bytes", DTYPE_U8, SHAPE(SHAPE_BATCH, 4));
    raw[1] = tensor(arena, "number", DTYPE_I32, SHAPE(SHAPE_BATCH));
    raw[2] = tensor(arena, "name", DTYPE_STRING, SHAPE(SHAPE_BATCH));
    out[0] = (struct signature){.name = "serving_default",
                                .method = "tensorflow/serving/predict",
                                .inputs = inputs,
                                .input_count = 1,
                                .outputs = outputs,
                                .output_count = 4};
    out[1] = (struct signature){.name = "bytes",
                                .method = "tensorflow/serving/predict",
                                .inputs = raw,
                                .input_count = 3,
                                .outputs = raw,
                                .output_count = 3};
}

static void fill_wide_deep(struct arena *arena, struct signature *out)
{
    struct signature_tensor *inputs = tensors(arena, 39), *outputs = tensors(arena, 3);
    for (int i = 0; i < 39; i++)
        inputs[i] =
            tensor(arena, arena_format(arena, i < 13 ? "I%d" : "C%d", i < 13 ? i + 1 : i - 12),
                   i < 13 ? DTYPE_F32 : DTYPE_STRING, SHAPE(SHAPE_BATCH));
    outputs[0] = tensor(arena, "probabilities", DTYPE_F32, SHAPE(SHAPE_BATCH, 2));
    outputs[1] = tensor(arena, "class_ids", DTYPE_I64, SHAPE(SHAPE_BATCH, 1));
    outputs[2] = tensor(arena, "classes", DTYPE_STRING, SHAPE(SHAPE_BATCH, 1));
    out[0] = (struct signature){.name = "predict",
                                .method = "tensorflow/serving/predict",
                                .inputs = inputs,
                                .input_count = 39,
                                .outputs = outputs,
                                .output_count = 3};
}

static void fill_pictures(struct arena *arena, struct signature *out)
{
    struct signature_tensor *inputs = tensors(arena, 1), *outputs = tensors(arena, 1);
    inputs[0] = tensor(arena, "input_tensor", DTYPE_F32, SHAPE(SHAPE_BATCH, 224, 224, 3));
    outputs[0] = tensor(arena, "probabilities", DTYPE_F32, SHAPE(SHAPE_BATCH, 10));
    out[0] = (struct signature){.name = "serving_default",
                                .method = "tensorflow/serving/predict",
                                .inputs = inputs,
                                .input_count = 1,
                                .outputs = outputs,
                                .output_count = 1};
}

static void make_model(struct fake_core *core, int index, const char *name, int signatures,
                       void (*fill)(struct arena *arena, struct signature *out))
{
    struct signature *list = ARENA_ARRAY(core->arena, struct signature, signatures);
    fill(core->arena, list);
    core->models[index] = (struct fake_model){
        .name = name,
        .core = core,
        .imported = {.model = name, .signatures = list, .signature_count = signatures}};
}

/* ---- what is answered ----------------------------------------------------------------------- */

static void answer_sums(const struct inference *asked, struct tensor *outputs)
{
    const float *x = asked->inputs[0].data;
    for (int64_t row = 0; row < asked->rows; row++) {
        ((float *)outputs[0].data)[row] = x[3 * row] + x[3 * row + 1] + x[3 * row + 2];
        ((int64_t *)outputs[2].data)[row] = asked->rows - 2 * row;
        char *text = arena_format(asked->arena, "row %d", (int)row);
        ((struct text_view *)outputs[3].data)[row] = (struct text_view){text, strlen(text)};
        for (int i = 0; i < 3; i++)
            ((float *)outputs[1].data)[3 * row + i] = 2 * x[3 * row + i];
    }
}

static void answer_wide_deep(const struct inference *asked, struct tensor *outputs)
{
    const float *numbers = asked->inputs[0].data;
    for (int64_t row = 0; row < asked->rows; row++) {
        bool yes = numbers[row] > 0.5f;
        ((float *)outputs[0].data)[2 * row] = 1 - numbers[row];
        ((float *)outputs[0].data)[2 * row + 1] = numbers[row];
        ((int64_t *)outputs[1].data)[row] = yes;
        ((struct text_view *)outputs[2].data)[row] = (struct text_view){yes ? "1" : "0", 1};
    }
}

static void answer_pictures(const struct inference *asked, struct tensor *outputs)
{
    const float *pixels = asked->inputs[0].data;
    for (int64_t row = 0; row < asked->rows; row++) {
        int class = (int)pixels[row * 224 * 224 * 3];
        if (class >= 0 && class < 10)
            ((float *)outputs[0].data)[10 * row + class] = 0.5f;
    }
}

static void compute(struct inference *asked)
{
    const struct signature *signature = asked->signature;
    struct tensor *outputs = ARENA_ARRAY(asked->arena, struct tensor, signature->output_count);
    for (int i = 0; i < signature->output_count; i++)
        tensor_create(asked->arena, signature->outputs[i].dtype,
                      shape_with_batch(signature->outputs[i].shape, asked->rows), &outputs[i],
                      NULL);
    if (strcmp(signature->name, "bytes") == 0)
        memcpy(outputs, asked->inputs, 3 * sizeof *outputs);
    else if (signature->input_count == 39)
        answer_wide_deep(asked, outputs);
    else if (strcmp(signature->inputs[0].key, "x") == 0)
        answer_sums(asked, outputs);
    else
        answer_pictures(asked, outputs);
    asked->outputs = outputs;
    asked->batch = (int)asked->rows;
}

/* ---- the thread that answers ---------------------------------------------------------------- */

static bool is_late(const struct inference *asked)
{
    return asked->deadline != 0 && asked->deadline < clock_seconds();
}

static void decide(struct fake_core *core, struct inference *asked)
{
    if (atomic_load(&asked->cancelled))
        asked->status = SERVE_CANCELLED;
    else if (is_late(asked))
        asked->status = SERVE_DEADLINE;
    else
        compute(asked);
    if (asked->status != SERVE_OK)
        error_set(&asked->error, ERROR_CANCELLED, "given up");
    pthread_mutex_lock(&core->lock);
    *(asked->status == SERVE_OK ? &core->answered : &core->given_up) += 1;
    pthread_mutex_unlock(&core->lock);
}

static void *work(void *context)
{
    struct fake_core *core = context;
    pthread_mutex_lock(&core->lock);
    for (;;) {
        while ((!core->first || core->held) && !core->ending)
            pthread_cond_wait(&core->changed, &core->lock);
        if (!core->first)
            break;
        struct inference *asked = core->first;
        double delay = core->delay;
        core->first = asked->next;
        core->waiting--;
        pthread_mutex_unlock(&core->lock);
        if (delay > 0)
            nanosleep(&(struct timespec){(time_t)delay, (long)(fmod(delay, 1) * 1e9)}, NULL);
        decide(core, asked);
        asked->done(asked);
        pthread_mutex_lock(&core->lock);
    }
    pthread_mutex_unlock(&core->lock);
    return NULL;
}

static bool shape_fits(const struct shape *expected, const struct shape *given)
{
    bool fits = expected->ndim == given->ndim;
    for (int i = 1; fits && i < given->ndim; i++)
        fits = expected->dim[i] == given->dim[i];
    return fits;
}

static bool inputs_fit(const struct inference *asked)
{
    for (int i = 0; i < asked->signature->input_count; i++)
        if (asked->inputs[i].dtype != asked->signature->inputs[i].dtype ||
            !shape_fits(&asked->signature->inputs[i].shape, &asked->inputs[i].shape) ||
            asked->inputs[i].shape.dim[0] != asked->rows)
            return false;
    return asked->rows > 0;
}

static void ask(void *context, struct inference *asked)
{
    struct fake_core *core = context;
    pthread_mutex_lock(&core->lock);
    core->last_deadline = asked->deadline == 0 ? 0 : asked->deadline - clock_seconds();
    bool full = core->waiting >= core->limit, fits = inputs_fit(asked);
    asked->next = NULL;
    if (fits && !full) {
        if (core->first)
            core->last->next = asked;
        else
            core->first = asked;
        core->last = asked;
        core->waiting++;
        pthread_cond_broadcast(&core->changed);
    }
    pthread_mutex_unlock(&core->lock);
    if (fits && !full)
        return;
    asked->status = fits ? SERVE_EXHAUSTED : SERVE_INVALID;
    error_set(&asked->error, ERROR_FORMAT, fits ? "the queue is full" : "the inputs do not fit");
    asked->done(asked);
}

/* ---- the door's other questions ------------------------------------------------------------- */

static struct servable *hold(void *context, const struct serve_target *target,
                             enum serve_status *status, struct error *err)
{
    struct fake_core *core = context;
    *status = strcmp(target->model, "loading") == 0 ? SERVE_UNAVAILABLE : SERVE_NOT_FOUND;
    for (int i = 0; i < MODELS; i++) {
        bool version = target->version == SERVE_NO_VERSION || target->version == VERSION;
        bool label = !target->label || strcmp(target->label, "stable") == 0;
        if (strcmp(core->models[i].name, target->model) != 0 || !version || !label)
            continue;
        pthread_mutex_lock(&core->lock);
        core->held_models++;
        pthread_mutex_unlock(&core->lock);
        return (struct servable *)&core->models[i];
    }
    error_set(err, ERROR_ABSENT, "Servable not found for request: Latest(%s)", target->model);
    return NULL;
}

static void release(struct servable *servable)
{
    struct fake_core *core = ((struct fake_model *)servable)->core;
    pthread_mutex_lock(&core->lock);
    core->held_models--;
    pthread_mutex_unlock(&core->lock);
}

static const struct imported *model(const struct servable *servable)
{
    return &((const struct fake_model *)servable)->imported;
}

static int64_t version(const struct servable *servable)
{
    (void)servable;
    return VERSION;
}

static enum serve_status status_of(void *context, const struct serve_target *target,
                                   struct arena *arena, struct model_status *out, struct error *err)
{
    enum serve_status status = SERVE_OK;
    struct servable *held = hold(context, target, &status, err);
    if (!held)
        return status;
    release(held);
    struct version_status *versions = ARENA_ARRAY(arena, struct version_status, 2);
    versions[0] = (struct version_status){
        .version = VERSION, .state = VERSION_AVAILABLE, .message = "", .labels = "stable"};
    versions[1] = (struct version_status){.version = 6,
                                          .state = VERSION_END,
                                          .code = SERVE_INTERNAL,
                                          .message = "broken",
                                          .labels = ""};
    *out = (struct model_status){.name = target->model,
                                 .base_path = "/models",
                                 .versions = versions,
                                 .count = target->version == SERVE_NO_VERSION ? 2 : 1};
    return SERVE_OK;
}

static int configure(void *context, const struct model_list *models, struct error *err)
{
    struct fake_core *core = context;
    (void)err;
    pthread_mutex_lock(&core->lock);
    core->configured[0] = '\0';
    for (int i = 0; i < models->count; i++) {
        size_t used = strlen(core->configured);
        snprintf(core->configured + used, sizeof core->configured - used, "%s%s=%s", i ? " " : "",
                 models->models[i].name, models->models[i].base_path);
    }
    pthread_mutex_unlock(&core->lock);
    return 0;
}

static bool admits(void *context, const char *authorization)
{
    struct fake_core *core = context;
    pthread_mutex_lock(&core->lock);
    bool may = !core->token[0] || token_equal(core->token, token_from_authorization(authorization));
    pthread_mutex_unlock(&core->lock);
    return may;
}

static bool ready(void *context)
{
    struct fake_core *core = context;
    pthread_mutex_lock(&core->lock);
    bool is = core->ready;
    pthread_mutex_unlock(&core->lock);
    return is;
}

static void count(void *context, enum serve_api api, const char *name, int64_t number,
                  enum serve_status status, double seconds)
{
    (void)context, (void)api, (void)name, (void)number, (void)status, (void)seconds;
}

static void refused(void *context)
{
    (void)context;
}

struct grpc_backend fake_core_backend(struct fake_core *core)
{
    return (struct grpc_backend){.context = core,
                                 .hold = hold,
                                 .release = release,
                                 .model = model,
                                 .version = version,
                                 .ask = ask,
                                 .status = status_of,
                                 .configure = configure,
                                 .admits = admits,
                                 .ready = ready,
                                 .count = count,
                                 .refused = refused};
}

/* ---- under the test's control --------------------------------------------------------------- */

struct fake_core *fake_core_create(void)
{
    struct fake_core *core = memory_allocate(sizeof *core);
    pthread_mutex_init(&core->lock, NULL);
    pthread_cond_init(&core->changed, NULL);
    core->arena = arena_create();
    core->limit = 1000;
    core->ready = true;
    make_model(core, 0, "sums", 2, fill_sums);
    make_model(core, 1, "wide-deep-large-ds-fp32-training", 1, fill_wide_deep);
    make_model(core, 2, "resnet50", 1, fill_pictures);
    thread_start(&core->thread, work, core);
    return core;
}

void fake_core_destroy(struct fake_core *core)
{
    pthread_mutex_lock(&core->lock);
    core->ending = true;
    pthread_cond_broadcast(&core->changed);
    pthread_mutex_unlock(&core->lock);
    pthread_join(core->thread, NULL);
    arena_destroy(core->arena);
    memory_free(core);
}

void fake_core_hold(struct fake_core *core, bool held)
{
    pthread_mutex_lock(&core->lock);
    core->held = held;
    pthread_cond_broadcast(&core->changed);
    pthread_mutex_unlock(&core->lock);
}

void fake_core_set_delay(struct fake_core *core, double seconds)
{
    pthread_mutex_lock(&core->lock);
    core->delay = seconds;
    pthread_mutex_unlock(&core->lock);
}

void fake_core_set_ready(struct fake_core *core, bool is)
{
    pthread_mutex_lock(&core->lock);
    core->ready = is;
    pthread_mutex_unlock(&core->lock);
}

void fake_core_set_token(struct fake_core *core, const char *token)
{
    pthread_mutex_lock(&core->lock);
    snprintf(core->token, sizeof core->token, "%s", token ? token : "");
    pthread_mutex_unlock(&core->lock);
}

void fake_core_set_limit(struct fake_core *core, int waiting)
{
    pthread_mutex_lock(&core->lock);
    core->limit = waiting;
    pthread_mutex_unlock(&core->lock);
}

static int look(struct fake_core *core, const int *number)
{
    pthread_mutex_lock(&core->lock);
    int value = *number;
    pthread_mutex_unlock(&core->lock);
    return value;
}

int fake_core_waiting(struct fake_core *core)
{
    return look(core, &core->waiting);
}

int fake_core_answered(struct fake_core *core)
{
    return look(core, &core->answered);
}

int fake_core_given_up(struct fake_core *core)
{
    return look(core, &core->given_up);
}

int fake_core_hopeless(struct fake_core *core)
{
    int count = 0;
    pthread_mutex_lock(&core->lock);
    for (const struct inference *asked = core->first; asked; asked = asked->next)
        count += atomic_load(&asked->cancelled) || is_late(asked);
    pthread_mutex_unlock(&core->lock);
    return count;
}

int fake_core_held_models(struct fake_core *core)
{
    return look(core, &core->held_models);
}

double fake_core_last_deadline(struct fake_core *core)
{
    pthread_mutex_lock(&core->lock);
    double value = core->last_deadline;
    pthread_mutex_unlock(&core->lock);
    return value;
}

const char *fake_core_configured(struct fake_core *core)
{
    pthread_mutex_lock(&core->lock); /* after whoever wrote it, who has answered by now */
    pthread_mutex_unlock(&core->lock);
    return core->configured;
}
