/* Checkpoints of a training, from the words of the command line: where, how often, whether to go on
 * from one, and what a run that goes on must have in common with the one before. */
#ifndef CLI_SAVING_H
#define CLI_SAVING_H

#include <limits.h>

#include "cli/options.h"
#include "store/checkpoints.h"
#include "store/manifest.h"
#include "train/trainer.h"

struct arena;
struct params;
struct plan;
struct session;
struct updater;

struct saving_settings {
    const char *directory, *every;
    double seconds;
    int keep;
    bool fresh;
};

/* Rows of a table whose settings have a `struct saving_settings saving`. */
#define SAVING_OPTIONS(settings)                                                                   \
    OPTION_TEXT(settings, saving.directory, "checkpoint-dir", .value = "DIR",                      \
                .environment = "CHECKPOINT_DIR", .aliases = "checkpoint log-dir",                  \
                .help = "save checkpoints there, and go on from the newest one: a run that was "   \
                        "cut short is finished, one that was not gets --steps more"),              \
        OPTION_TEXT(settings, saving.every, "checkpoint-every", .value = "N|TIME",                 \
                    .initial = "10m", .aliases = "save-checkpoints-steps",                         \
                    .help = "steps (500) or time (90s, 10m) between two; also at the end, and "    \
                            "when an evaluation was the best so far"),                             \
        OPTION_SECONDS(settings, saving.seconds, "save-model-secs", OPTION_AT_LEAST(0),            \
                       .value = "SECONDS",                                                         \
                       .help = "--checkpoint-every in seconds; 0: only at "                        \
                               "the end"),                                                         \
        OPTION_INT(settings, saving.keep, "keep", .min = 1, .max = 1000000, .initial = "5",        \
                   .aliases = "keep-checkpoint-max",                                               \
                   .help = "newest checkpoints that stay; the best one stays, too"),               \
        OPTION_FLAG(settings, saving.fresh, "fresh", .aliases = "clear-log",                       \
                    .help = "start over; earlier checkpoints are moved aside, into DIR/old-...")

/* All zero with lock.descriptor = -1 is none. */
struct saving {
    const struct saving_settings *settings;
    struct arena *arena;
    struct checkpoints_lock lock;
    int64_t every_steps;
    double every_seconds;
    bool resumed;             /* there is one to go on from: */
    struct manifest manifest; /* its own */
    char path[PATH_MAX];      /* of the newest checkpoint; empty: none */
    /* What is gone on from is a state in memory; the newest checkpoint is of an earlier step, or the
     * same: */
    bool from_memory;
    int64_t checkpoint_step; /* 0: there is none */
    double checkpoint_saved; /* seconds since 1970 */
    int64_t earlier_threads; /* of a rank that was told; 0: see the manifest */
    struct saver *saver;
};

#define SAVING_NONE ((struct saving){.lock = {.descriptor = -1}})

/* Takes the directory, and finds the newest whole checkpoint of `model`. A no-op when no directory
 * is given. */
int saving_open(struct saving *saving, const struct options *options,
                const struct saving_settings *settings, const char *model, struct error *err);
void saving_close(struct saving *saving);
/* A state in memory is what is gone on from, not the checkpoint that was found, if any. `manifest` is
 * its own, with texts in the arena. */
void saving_return(struct saving *saving, const struct manifest *manifest);
/* For texts that last as long; made when there is none yet. */
struct arena *saving_arena(struct saving *saving, struct error *err);
/* Tells the other ranks, which look for nothing themselves, where rank 0 goes on from. */
int saving_share(struct saving *saving, struct comm *comm, struct error *err);

/* Weights and checkpoints replace their forerunner by a rename after a flush; S3 has neither, so a
 * run that is killed could leave half of one under the name of a whole. */
int saving_refuse_bucket(const char *option, const char *directory, struct error *err);

/* A value of the run that is resumed, or `missing`: for options that are not given. */
int64_t saving_earlier(const struct saving *saving, const char *setting, int64_t missing);
/* Where a run that asks for `steps` begins, perhaps in an earlier process, and ends. */
int64_t saving_origin(const struct saving *saving);
int64_t saving_goal(const struct saving *saving, int64_t steps);

/* What the run was told, in the words of its options; `rate` is resolved. In the arena. */
struct saving_run {
    const struct options *options;
    const struct session *session;
    const char *data;
    double rate;
    int64_t goal, global_batch, steps_per_epoch;
    bool sharded; /* so that threads decide about no number */
    struct params *params;
    struct updater *updater;
    const struct plan *plan;
};
/* What is alike in all manifests of the run. Texts live in the arena. */
int saving_describe(struct saving *saving, const struct saving_run *run, struct manifest *out,
                    struct error *err);
/* Puts the numbers of the checkpoint that is resumed, if any, into run->params, and makes what saves
 * from now on. Warns of what differs from the earlier run; another update rule is refused. */
int saving_start(struct saving *saving, const struct saving_run *run, struct error *err);
/* For the trainer; no saver when no directory was given. */
struct trainer_saving saving_for_trainer(const struct saving *saving, int64_t origin);

#endif
