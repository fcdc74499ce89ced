#include "store/saver.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "exec/params.h"
#include "store/checkpoints.h"

/* One tensor of the checkpoint. */
struct item {
    const char *name;
    int param, slot; /* slot -1: the parameter itself; param -1: the step */
    struct shape shape;
    size_t first, bytes; /* in the snapshot */
};

enum state { IDLE, WRITING, ENDED, STOPPING };

struct saver {
    struct saver_options options;
    struct arena *arena;
    struct item *items;
    int item_count;
    size_t bytes, largest;
    double best_score, score; /* of those on the disk; of the last one that was started */
    struct slab memory;       /* the snapshot, or room for the largest tensor */
    bool snapshot;

    /* Belong to the thread while state is WRITING, else to the caller. */
    int64_t step;
    struct manifest manifest;
    double started;
    struct saver_result result;

    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards `state`; never held while something is written */
    pthread_cond_t changed;
    enum state state;
};

/* --- what is saved -------------------------------------------------------------------------- */

static int add_item(struct saver *saver, const char *name, int param, int slot,
                    const struct shape *shape, struct error *err)
{
    size_t size = param < 0 ? sizeof(int64_t) : (size_t)shape_count(shape) * sizeof(float);
    struct item *item = &saver->items[saver->item_count++];
    if (!name)
        return error_set(err, ERROR_MEMORY, "no memory for the names of a checkpoint");
    *item = (struct item){name, param, slot, *shape, saver->bytes, size};
    saver->bytes += (size + 63) & ~(size_t)63;
    saver->largest = size > saver->largest ? size : saver->largest;
    return 0;
}

static int add_param(struct saver *saver, int param, struct error *err)
{
    const struct saver_options *options = &saver->options;
    struct param_range range = params_range(options->params, param);
    if (add_item(saver, range.name, param, -1, &range.shape, err) < 0)
        return -1;
    for (int slot = 0; slot < params_slots(options->params); slot++) {
        float initial;
        const char *word = options->slots.describe(options->slots.context, param, slot, &initial);
        if (word && add_item(saver,
                             arena_format(saver->arena, "%s%s/%s", checkpoint_optimizer_folder,
                                          range.name, word),
                             param, slot, &range.shape, err) < 0)
            return -1;
    }
    return 0;
}

static int list_items(struct saver *saver, struct error *err)
{
    const struct params *params = saver->options.params;
    int most = params_count(params) * (1 + params_slots(params)) + 1;
    saver->items = ARENA_ARRAY(saver->arena, struct item, most);
    if (!saver->items)
        return error_set(err, ERROR_MEMORY, "no memory for %d tensors", most);
    for (int i = 0; i < params_count(params); i++)
        if (add_param(saver, i, err) < 0)
            return -1;
    return add_item(saver, checkpoint_step_tensor, -1, -1, &(struct shape){0}, err);
}

/* --- the numbers ---------------------------------------------------------------------------- */

static int read_item(const struct saver *saver, const struct item *item, void *to,
                     struct error *err)
{
    const struct params *params = saver->options.params;
    struct tensor tensor = {.dtype = DTYPE_F32, .shape = item->shape, .data = to};
    if (item->param < 0) {
        memcpy(to, &saver->step, sizeof saver->step);
        return 0;
    }
    return item->slot < 0 ? params_read(params, item->param, &tensor, err)
                          : params_read_slot(params, item->param, item->slot, &tensor, err);
}

static int take_snapshot(struct saver *saver, struct error *err)
{
    for (int i = 0; i < saver->item_count; i++)
        if (read_item(saver, &saver->items[i], (char *)saver->memory.data + saver->items[i].first,
                      err) < 0)
            return -1;
    return 0;
}

static int get_tensor(void *context, int index, const char **name, struct tensor *out,
                      struct error *err)
{
    struct saver *saver = context;
    const struct item *item = &saver->items[index];
    char *data = (char *)saver->memory.data + (saver->snapshot ? item->first : 0);
    if (!saver->snapshot && read_item(saver, item, data, err) < 0)
        return -1;
    *name = item->name;
    *out = (struct tensor){
        .dtype = item->param < 0 ? DTYPE_I64 : DTYPE_F32, .shape = item->shape, .data = data};
    return 0;
}

/* --- writing -------------------------------------------------------------------------------- */

/* The checkpoint is whole when only tidying failed; it is tried again after the next. */
static void tidy(const struct saver *saver)
{
    const struct saver_options *options = &saver->options;
    struct error failure = {0};
    if (checkpoints_tidy(options->directory, saver->step, options->keep, &failure) < 0)
        log_line(LOG_WARNING, "the checkpoint of step %" PRId64 " is saved, but: %s", saver->step,
                 failure.message);
}

static void write_checkpoint(struct saver *saver)
{
    const struct saver_options *options = &saver->options;
    struct checkpoint_tensors tensors = {saver->item_count, get_tensor, saver};
    struct saver_result *result = &saver->result;
    struct error *err = &result->error;
    *result = (struct saver_result){.step = saver->step, .started = saver->started};
    if ((!options->lock || checkpoints_check_held(options->directory, options->lock, err) == 0) &&
        checkpoint_write(options->directory, &saver->manifest, &tensors, result->path, err) == 0)
        tidy(saver);
    result->seconds = clock_seconds() - saver->started;
}

static void set_state(struct saver *saver, enum state state)
{
    pthread_mutex_lock(&saver->lock);
    saver->state = state;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

static void *run(void *context)
{
    struct saver *saver = context;
    /* The training's threads come first; what is written can wait for them. */
    enum { NICE = 10 };
    thread_step_back(NICE);
    for (;;) {
        pthread_mutex_lock(&saver->lock);
        while (saver->state != WRITING && saver->state != STOPPING)
            pthread_cond_wait(&saver->changed, &saver->lock);
        enum state state = saver->state;
        pthread_mutex_unlock(&saver->lock);
        if (state == STOPPING)
            return NULL;
        write_checkpoint(saver);
        set_state(saver, ENDED);
    }
}

static int start_thread(struct saver *saver, struct error *err)
{
    int failure = thread_start(&saver->thread, run, saver);
    if (failure)
        return error_set(err, ERROR_MEMORY, "no thread to write checkpoints: %s",
                         strerror(failure));
    saver->running = true;
    return 0;
}

/* --- for the training ----------------------------------------------------------------------- */

static int choose_memory(struct saver *saver, struct error *err)
{
    size_t most = saver->options.most_snapshot_bytes;
    most = most ? most : memory_available_bytes() / 2;
    saver->snapshot = saver->bytes <= most;
    return slab_create(saver->snapshot ? saver->bytes : saver->largest, "saving checkpoints",
                       &saver->memory, err);
}

int saver_create(const struct saver_options *options, struct saver **out, struct error *err)
{
    struct saver *saver = memory_allocate(sizeof *saver);
    if (!saver)
        return error_set(err, ERROR_MEMORY, "no memory to save checkpoints");
    saver->options = *options;
    saver->best_score = saver->score = checkpoints_best_score(options->directory);
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    saver->arena = arena_create();
    int status = saver->arena ? 0 : error_set(err, ERROR_MEMORY, "no memory to save checkpoints");
    if (status < 0 || list_items(saver, err) < 0 || choose_memory(saver, err) < 0 ||
        (saver->snapshot && start_thread(saver, err) < 0)) {
        saver_destroy(saver);
        return -1;
    }
    *out = saver;
    return 0;
}

void saver_destroy(struct saver *saver)
{
    if (!saver)
        return;
    if (saver->running) {
        saver_wait(saver);
        set_state(saver, STOPPING);
        pthread_join(saver->thread, NULL);
    }
    slab_release(&saver->memory);
    arena_destroy(saver->arena);
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    memory_free(saver);
}

double saver_best_score(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    bool pending = saver->state == WRITING || saver->state == ENDED;
    pthread_mutex_unlock(&saver->lock);
    return pending ? fmax(saver->best_score, saver->score) : saver->best_score;
}

bool saver_busy(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    bool busy = saver->state == WRITING;
    pthread_mutex_unlock(&saver->lock);
    return busy;
}

void saver_wait(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->state == WRITING)
        pthread_cond_wait(&saver->changed, &saver->lock);
    pthread_mutex_unlock(&saver->lock);
}

bool saver_take(struct saver *saver, struct saver_result *out)
{
    pthread_mutex_lock(&saver->lock);
    bool ended = saver->state == ENDED;
    if (ended)
        saver->state = IDLE;
    pthread_mutex_unlock(&saver->lock);
    if (!ended)
        return false;
    *out = saver->result;
    if (out->error.code == ERROR_NONE)
        saver->best_score = fmax(saver->best_score, saver->score);
    return true;
}

static void describe_moment(struct saver *saver, const struct saver_moment *moment)
{
    struct manifest *manifest = &saver->manifest;
    int64_t length = saver->options.manifest.steps_per_epoch;
    *manifest = saver->options.manifest;
    manifest->step = moment->step;
    manifest->goal = moment->goal;
    manifest->origin = moment->origin;
    manifest->finished = moment->finished;
    manifest->bucket_bytes = moment->bucket_bytes;
    manifest->epoch = length ? moment->step / length : 0;
    manifest->epoch_step = length ? moment->step % length : 0;
    manifest->evaluated = moment->evaluated;
    manifest->loss = moment->loss;
    manifest->accuracy = moment->accuracy;
    manifest->saved_at = clock_wall_seconds();
    saver->step = moment->step;
    saver->score = manifest_score(manifest); /* fmax passes NaN over */
}

int saver_start(struct saver *saver, const struct saver_moment *moment, struct error *err)
{
    struct saver_result untold;
    saver_wait(saver);
    saver_take(saver, &untold);
    saver->started = clock_seconds();
    describe_moment(saver, moment);
    if (!saver->snapshot) {
        write_checkpoint(saver);
        set_state(saver, ENDED);
        return 0;
    }
    if (take_snapshot(saver, err) < 0)
        return -1;
    set_state(saver, WRITING);
    return 0;
}
