#include "cli/saving.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cli/session.h"
#include "exec/kernel_rules.h"
#include "exec/plan.h"
#include "store/checkpoint.h"
#include "store/saver.h"
#include "train/optimizer.h"

/* What decides about the numbers. Model and tensors are checked one by one when they are loaded. */
static const char *const compared[] = {
    "data",
    "examples",
    "classes",
    "image-size",
    "embedding-rows",
    "embedding-dim",
    "hidden",
    "dropout",
    "kernels",
    "scaling",
    "pixels",
    "label-smoothing",
    "global-batch-size",
    "shards",
    "shard-threads",
    "accumulate",
    "schedule",
    "warmup-epochs",
    "optimizer",
    "lr",
    "group",
    "weight-decay",
    "momentum",
    "nesterov",
    "beta1",
    "beta2",
    "epsilon",
    "rmsprop-decay",
    "l1",
    "l2",
    "lr-power",
    "lars-trust",
    "seed",
    "threads",
    "skip-bad-records",
};
enum { COMPARED = sizeof compared / sizeof *compared };

/* --- where and when ------------------------------------------------------------------------- */

static int read_interval(struct saving *saving, const struct options *options, struct error *err)
{
    const struct saving_settings *settings = saving->settings;
    char *end;
    if (options_source(options, "save-model-secs") > OPTION_FROM_TABLE) {
        if (options_source(options, "checkpoint-every") > OPTION_FROM_TABLE)
            return error_set(err, ERROR_USAGE,
                             "--checkpoint-every and --save-model-secs exclude each other");
        saving->every_seconds = settings->seconds;
        return 0;
    }
    errno = 0;
    long long steps = strtoll(settings->every, &end, 10);
    if (end != settings->every && !*end && !errno && steps >= 0) {
        saving->every_steps = steps;
        return 0;
    }
    size_t length = strlen(settings->every);
    if (length == 0 || strchr("0123456789.", settings->every[length - 1]))
        return error_set(err, ERROR_USAGE,
                         "--checkpoint-every=%s: write steps (500) or a time with its unit (90s, "
                         "10m)",
                         settings->every);
    const struct option seconds = {.type = OPTION_IS_SECONDS, .name = "checkpoint-every"};
    return option_set(&seconds, "--checkpoint-every", settings->every, &saving->every_seconds, err);
}

static int refuse_without_directory(const struct options *options, struct error *err)
{
    static const char *const words[] = {"checkpoint-every", "save-model-secs", "keep", "fresh"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (options_source(options, words[i]) > OPTION_FROM_TABLE)
            return error_set(err, ERROR_USAGE,
                             "--%s says how checkpoints are saved: give --checkpoint-dir=DIR, too",
                             words[i]);
    return 0;
}

int saving_refuse_bucket(const char *option, const char *directory, struct error *err)
{
    if (strncmp(directory, "s3://", 5) != 0)
        return 0;
    return error_set(err, ERROR_USAGE,
                     "--%s=%s: weights and checkpoints need a file system, for S3 can neither "
                     "rename nor flush; write to a directory and copy it when the run has ended",
                     option, directory);
}

/* Not before everything else is checked: who wrote something wrong keeps what there is. */
static int start_over(const struct saving *saving, struct error *err)
{
    char aside[PATH_MAX];
    bool moved;
    if (!saving->settings->fresh || saving->from_memory)
        return 0;
    if (checkpoints_move_aside(saving->settings->directory, -1, aside, &moved, err) < 0)
        return error_wrap(err, "--fresh");
    if (moved)
        log_line(LOG_INFO, "earlier checkpoints are now in %s", aside);
    return 0;
}

static int find(struct saving *saving, const char *model, struct error *err)
{
    const char *directory = saving->settings->directory;
    struct manifest *manifest = &saving->manifest;
    if (checkpoints_find_newest(directory, saving->arena, manifest, saving->path, &saving->resumed,
                                err) < 0)
        return -1;
    if (saving->resumed && strcmp(manifest->model, model) != 0)
        return error_set(err, ERROR_USAGE,
                         "%s is a checkpoint of %s, not of %s: give --checkpoint-dir another "
                         "directory, or --fresh to move it aside",
                         saving->path, manifest->model, model);
    return 0;
}

struct arena *saving_arena(struct saving *saving, struct error *err)
{
    if (!saving->arena)
        saving->arena = arena_create();
    if (!saving->arena)
        error_set(err, ERROR_MEMORY, "no memory to look for checkpoints");
    return saving->arena;
}

void saving_return(struct saving *saving, const struct manifest *manifest)
{
    saving->checkpoint_step = saving->resumed ? saving->manifest.step : 0;
    saving->checkpoint_saved = saving->resumed ? saving->manifest.saved_at : 0;
    saving->manifest = *manifest;
    saving->resumed = saving->from_memory = true;
}

int saving_open(struct saving *saving, const struct options *options,
                const struct saving_settings *settings, const char *model, struct error *err)
{
    saving->settings = settings;
    if (!settings->directory)
        return refuse_without_directory(options, err);
    if (!saving_arena(saving, err))
        return -1;
    if (saving_refuse_bucket("checkpoint-dir", settings->directory, err) < 0 ||
        read_interval(saving, options, err) < 0)
        return -1;
    if (checkpoints_take(settings->directory, &saving->lock, err) < 0)
        return error_wrap(err, "--checkpoint-dir");
    return settings->fresh ? 0 : find(saving, model, err);
}

void saving_close(struct saving *saving)
{
    saver_destroy(saving->saver);
    checkpoints_let_go(&saving->lock);
    arena_destroy(saving->arena);
    *saving = SAVING_NONE;
}

/* What is told; the names of settings are not needed there. */
struct shared {
    int64_t step, goal, origin, threads, bucket_bytes;
    double loss, accuracy;
    bool resumed, finished, evaluated;
};

int saving_share(struct saving *saving, struct comm *comm, struct error *err)
{
    struct manifest *manifest = &saving->manifest;
    struct shared shared = {.step = manifest->step,
                            .goal = manifest->goal,
                            .origin = manifest->origin,
                            .bucket_bytes = manifest->bucket_bytes,
                            .threads = saving_earlier(saving, "threads", 0),
                            .loss = manifest->loss,
                            .accuracy = manifest->accuracy,
                            .resumed = saving->resumed,
                            .finished = manifest->finished,
                            .evaluated = manifest->evaluated};
    if (comm_broadcast(comm, &shared, sizeof shared, 0, err) < 0)
        return -1;
    if (comm_rank(comm) == 0)
        return 0;
    manifest->step = shared.step;
    manifest->goal = shared.goal;
    manifest->origin = shared.origin;
    manifest->bucket_bytes = shared.bucket_bytes;
    manifest->finished = shared.finished;
    manifest->evaluated = shared.evaluated;
    manifest->loss = shared.loss;
    manifest->accuracy = shared.accuracy;
    saving->resumed = shared.resumed;
    saving->earlier_threads = shared.threads;
    return 0;
}

/* --- going on ------------------------------------------------------------------------------- */

int64_t saving_earlier(const struct saving *saving, const char *setting, int64_t missing)
{
    if (saving->earlier_threads && !strcmp(setting, "threads"))
        return saving->earlier_threads;
    const char *text = saving->resumed ? manifest_setting(&saving->manifest, setting) : NULL;
    return text ? strtoll(text, NULL, 10) : missing;
}

int64_t saving_origin(const struct saving *saving)
{
    if (!saving->resumed)
        return 0;
    return saving->manifest.finished && !saving->from_memory ? saving->manifest.step
                                                             : saving->manifest.origin;
}

int64_t saving_goal(const struct saving *saving, int64_t steps)
{
    const struct manifest *manifest = &saving->manifest;
    if (!saving->resumed)
        return steps;
    if (saving->from_memory) /* of this very run */
        return manifest->goal;
    if (manifest->finished)
        return manifest->step + steps;
    if (steps != manifest->goal - manifest->origin)
        log_line(LOG_INFO,
                 "the run that was cut short is finished first, to its goal of %" PRId64
                 " steps; run again for %" PRId64 " more, or start over with --fresh",
                 manifest->goal, steps);
    return manifest->goal;
}

/* --- what the run was told ------------------------------------------------------------------ */

/* The option's value, or what became of it where the program resolved it further. Nothing when it
 * is the model's own: the tensors' shapes and its name tell that. */
static void describe(const struct saving_run *run, const char *name, struct strbuf *out)
{
    const struct option *option = option_find(run->options->table, name, strlen(name));
    strbuf_clear(out);
    if (!strcmp(name, "data"))
        strbuf_add(out, run->data);
    else if (!strcmp(name, "threads") && run->sharded)
        return;
    else if (!strcmp(name, "threads"))
        strbuf_addf(out, "%d", run->session->threads);
    else if (!strcmp(name, "global-batch-size"))
        strbuf_addf(out, "%" PRId64, run->global_batch);
    else if (!strcmp(name, "kernels") && run->session->kernels)
        strbuf_addf(out, "the rules %016" PRIx64,
                    kernel_rules_fingerprint(run->session->kernels));
    else if (!strcmp(name, "lr"))
        strbuf_addf(out, "%.9g", run->rate);
    else if (option && options_source(run->options, name) != OPTION_FROM_NOTHING)
        option_text(option, run->options->settings, out);
}

static int list_settings(struct saving *saving, const struct saving_run *run,
                         struct manifest *manifest, struct error *err)
{
    struct manifest_setting *list = ARENA_ARRAY(saving->arena, struct manifest_setting, COMPARED);
    struct strbuf value;
    int count = 0;
    strbuf_init(&value);
    for (int i = 0; list && i < COMPARED; i++) {
        describe(run, compared[i], &value);
        if (!value.length)
            continue;
        list[count].name = compared[i];
        list[count].value = arena_copy_text(saving->arena, value.text);
        list = list[count++].value ? list : NULL;
    }
    if (value.failed)
        list = NULL;
    strbuf_release(&value);
    manifest->settings = list;
    manifest->setting_count = count;
    return list ? 0 : error_set(err, ERROR_MEMORY, "no memory for the manifest");
}

/* What a rule keeps means nothing to another, even where the tensors are alike. */
static int refuse_other_rule(const struct saving *saving, const struct manifest *now,
                             struct error *err)
{
    static const char *const names[] = {"optimizer", "group"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *before = manifest_setting(&saving->manifest, names[i]);
        const char *value = manifest_setting(now, names[i]);
        if (before && value && strcmp(before, value) != 0)
            return error_set(err, ERROR_USAGE,
                             "--%s is %s; %s was made with %s: give the same, or --checkpoint-dir "
                             "another directory, or --fresh to move it aside",
                             names[i], value, saving->path, before);
    }
    return 0;
}

static const char *told(const struct manifest *manifest, const char *name)
{
    const char *value = manifest_setting(manifest, name);
    return value ? value : "as the model or the rule has it";
}

static void warn_of_changes(const struct saving *saving, const struct manifest *now)
{
    for (int i = 0; i < COMPARED; i++) {
        const char *before = told(&saving->manifest, compared[i]);
        const char *value = told(now, compared[i]);
        if (strcmp(before, value) != 0)
            log_line(LOG_WARNING,
                     "--%s is %s; it was %s in the run that is resumed, so the result is not that "
                     "of one run",
                     compared[i], value, before);
    }
    if (now->fingerprint != saving->manifest.fingerprint)
        log_line(LOG_WARNING, "other kernels or layouts than in the run that is resumed: the last "
                              "bits may differ");
}

/* Those after the one that is resumed are damaged. Under their names they would count as kept, and
 * one that only could not be read for a moment would be taken for this run's next time. */
static int set_damaged_aside(const struct saving *saving, struct error *err)
{
    char aside[PATH_MAX];
    bool moved;
    if (checkpoints_move_aside(saving->settings->directory, saving->manifest.step, aside, &moved,
                               err) < 0)
        return error_wrap(err, "a damaged checkpoint");
    if (moved)
        log_line(LOG_WARNING, "damaged checkpoints are now in %s", aside);
    return 0;
}

static int load(const struct saving *saving, const struct saving_run *run, struct error *err)
{
    struct checkpoint_slots slots = {updater_describe_slot, run->updater};
    if (checkpoint_load(saving->path, run->params, &slots, err) < 0)
        return error_wrap(err, "resume from step %" PRId64, saving->manifest.step);
    return 0;
}

static int go_on(const struct saving *saving, const struct saving_run *run,
                 const struct manifest *now, struct error *err)
{
    if (!saving->resumed)
        return 0;
    if (refuse_other_rule(saving, now, err) < 0 ||
        (!saving->from_memory && load(saving, run, err) < 0))
        return -1;
    warn_of_changes(saving, now);
    return set_damaged_aside(saving, err);
}

int saving_describe(struct saving *saving, const struct saving_run *run, struct manifest *out,
                    struct error *err)
{
    *out = (struct manifest){.version = LOCKSTEP_VERSION,
                             .model = run->session->model->name,
                             .goal = run->goal,
                             .steps_per_epoch = run->steps_per_epoch,
                             .fingerprint = plan_fingerprint(run->plan)};
    return saving_arena(saving, err) ? list_settings(saving, run, out, err) : -1;
}

int saving_start(struct saving *saving, const struct saving_run *run, struct error *err)
{
    struct saver_options options = {
        .directory = saving->settings->directory,
        .lock = &saving->lock,
        .keep = saving->settings->keep,
        .params = run->params,
        .slots = {updater_describe_slot, run->updater},
    };
    if (!saving->settings->directory)
        return 0;
    if (saving_describe(saving, run, &options.manifest, err) < 0 || start_over(saving, err) < 0 ||
        go_on(saving, run, &options.manifest, err) < 0)
        return -1;
    return saver_create(&options, &saving->saver, err);
}

struct trainer_saving saving_for_trainer(const struct saving *saving, int64_t origin)
{
    return (struct trainer_saving){.saver = saving->saver,
                                   .origin = origin,
                                   .every_steps = saving->every_steps,
                                   .every_seconds = saving->every_seconds};
}
