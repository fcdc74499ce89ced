/* A training, from the words of the command line to a trained network: what train and pipeline have
 * in common. What is printed about it is in results.h. */
#ifndef CLI_TRAINING_H
#define CLI_TRAINING_H

#include "cli/display.h"
#include "cli/exporting.h"
#include "cli/keeping.h"
#include "cli/members.h"
#include "cli/ranks.h"
#include "cli/reductions.h"
#include "cli/report.h"
#include "cli/rule.h"
#include "cli/saving.h"
#include "cli/session.h"
#include "cli/timeline.h"
#include "cli/watchers.h"

struct training_settings {
    struct session_settings common;
    struct rule_settings rule;
    struct saving_settings saving;
    struct watchers_settings watch;
    struct ranks_settings ranks;
    struct members_settings members;
    struct exporting_settings exporting;
    const char *eval_data, *schedule, *output_dir;
    int64_t steps, eval_every, display_every, warmup_batches;
    double epochs, warmup_epochs, eval_every_epochs, target_accuracy, stop_accuracy;
    bool explain, timeline; /* of train only */
};

/* Rows of a table whose settings are a struct training_settings, or begin with one; between MODEL
 * and the section about running. */
#define TRAINING_OPTIONS                                                                           \
    OPTION_SECTION("Data"),                                                                        \
        OPTION_TEXT(training_settings, common.data, "data", .value = "SPEC",                       \
                    .environment = "DATASET_DIR", .aliases = "data-dir data-location",             \
                    .initial_note = "the model's",                                                 \
                    .help = "KIND, KIND:DIR (see `lockstep datasets`), or a directory whose "      \
                            "files tell the kind"),                                                \
        OPTION_TEXT(training_settings, eval_data, "eval-data", .value = "SPEC",                    \
                    .initial_note = "the other split of --data; none when synthetic",              \
                    .help = "data for evaluation; none turns it off"),                             \
        SESSION_EXAMPLES_OPTION(training_settings), SESSION_READING_OPTIONS(training_settings),    \
        OPTION_SECTION("Network"), SESSION_NETWORK_OPTIONS(training_settings),                     \
        SESSION_SCALING_OPTION(training_settings), SESSION_SMOOTHING_OPTION(training_settings),    \
        OPTION_SECTION("Training"), SESSION_BATCH_OPTION(training_settings),                       \
        OPTION_LONG(training_settings, steps, "steps", .min = 0, .max = 1e15,                      \
                    .environment = "STEPS", .aliases = "num-batches max-train-steps",              \
                    .initial_note = "as many as --epochs are; 0 says the same",                    \
                    .help = "steps to train; beyond those of a checkpoint that had reached its "   \
                            "goal"),                                                               \
        OPTION_NUMBER(training_settings, epochs, "epochs", .min = 0, .max = 1e6, .value = "N",     \
                      .aliases = "train-epochs num-epochs num-train-epoch", .initial_note = "1",   \
                      .help = "passes over the data; with --steps, too, whichever ends first"),    \
        OPTION_TEXT(training_settings, schedule, "schedule", .initial = "constant",                \
                    .value = "SHAPE",                                                              \
                    .help = "of the learning rate: constant, cosine, polynomial[:POWER] or "       \
                            "piecewise:EPOCH=FACTOR,..."),                                         \
        OPTION_NUMBER(training_settings, warmup_epochs, "warmup-epochs", OPTION_AT_LEAST(0),       \
                      .initial = "0", .help = "epochs in which the rate first grows from 0"),      \
        OPTION_SECTION("Optimizer"), RULE_OPTIONS(training_settings), OPTION_SECTION("Ranks"),     \
        RANKS_OPTIONS(training_settings), OPTION_SECTION("Members without mpirun"),                \
        MEMBERS_OPTIONS(training_settings), OPTION_SECTION("Checkpoints"),                         \
        SAVING_OPTIONS(training_settings), OPTION_SECTION("Results"),                              \
        OPTION_TEXT(training_settings, output_dir, "output-dir", .value = "DIR", .letter = 'o',    \
                    .environment = "OUTPUT_DIR", .aliases = "model-dir train-dir",                 \
                    .help = "where weights.safetensors goes at the end"),                          \
        EXPORTING_DIRECTORY_OPTION(training_settings,                                              \
                                   .help = "gets the trained network at the end, as the next "     \
                                           "version DIR/N: a SavedModel and an ONNX file; "        \
                                           "nothing when --target-accuracy is not met"),           \
        EXPORTING_OPTIONS(training_settings),                                                      \
        OPTION_LONG(training_settings, eval_every, "eval-every", OPTION_AT_LEAST(0),               \
                    .initial = "0", .initial_note = "only at the end",                             \
                    .help = "steps between two evaluations"),                                      \
        OPTION_NUMBER(training_settings, eval_every_epochs, "eval-every-epochs",                   \
                      OPTION_AT_LEAST(0), .aliases = "epochs-between-evals eval-interval",         \
                      .help = "the same in epochs"),                                               \
        OPTION_NUMBER(training_settings, target_accuracy, "target-accuracy", .min = 0, .max = 1,   \
                      .environment = "TARGET_ACCURACY",                                            \
                      .help = "fail (status 1) when the last evaluation stays below it"),          \
        OPTION_NUMBER(training_settings, stop_accuracy, "stop-at-accuracy", .min = 0, .max = 1,    \
                      .aliases = "stop-threshold stop-at-top-1-accuracy",                          \
                      .help = "end the training when an evaluation reaches it"),                   \
        SESSION_JSON_OPTION(training_settings),                                                    \
        OPTION_LONG(training_settings, display_every, "display-every", OPTION_AT_LEAST(1),         \
                    .help = "instead of the progress, print a line as tf_cnn_benchmarks does "     \
                            "after every N steps, and the whole speed at the end"),                \
        OPTION_LONG(training_settings, warmup_batches, "num-warmup-batches", OPTION_AT_LEAST(0),   \
                    .initial_note = "5, at most half of all",                                      \
                    .help = "first steps whose time is not measured; they train, too"),            \
        WATCHERS_OPTIONS(training_settings)

/* Everything a training holds, in the order it is taken. */
struct training {
    const char *command; /* its name, for those who watch */
    const struct training_settings *settings;
    const struct options *options;
    struct session session;
    struct session_data train, validation;
    struct rule rule;
    struct schedule schedule;
    struct saving saving;
    int64_t asked;            /* steps that one run was asked for */
    int64_t step;             /* finished ones, those of the checkpoint included */
    int64_t first_step, goal; /* of the run that was made last, or comes next */
    int64_t origin; /* where that goal was set; a rate that falls to the goal falls from there */
    int64_t evaluate_every;
    struct keeping keeping;
    struct ranks ranks;
    bool leaves;     /* without the other ranks, which have not failed */
    bool began;      /* the trainer has */
    int stop_signal; /* what ended the last run early, on this rank or another */
    bool paused;     /* by the agent: another process goes on, and nothing is to be told */
    FILE *nowhere;   /* of a rank that prints no results */
    struct params *params;
    struct plan *plan, *evaluation_plan;
    struct updater *updater;
    struct report report;     /* of the run that was made last */
    bool goes_on;             /* the caller's: further runs may follow, so the end is not the end */
    struct watchers watchers; /* one set for all runs */
    bool watched, told_of_start; /* they were made; they know that it began */
    int64_t watched_examples;    /* of runs before this one */
    struct train_event last;     /* the end of the last run, which was not told yet */
    struct display display;
    struct reductions *reductions; /* NULL: one rank */
    struct timeline *timeline;     /* NULL: none was asked for */
    char weights_path[PATH_MAX];   /* empty: no place for them was given */
    char checkpoint[PATH_MAX];     /* the newest one; empty: none */
    char exported[PATH_MAX];       /* the version that was written; empty: none */
};

/* Nothing opened yet, by the command of this name. */
#define TRAINING_OF(name) ((struct training){.command = (name), .saving = SAVING_NONE})

/* Everything up to the first step: the network, its data, what a checkpoint holds. The options and
 * the settings must outlive it. Where the run ends is `goal`, which the caller may change. Release
 * it whether or not this succeeds. */
int training_open(struct training *training, struct options *options,
                  struct training_settings *settings, struct error *err);
void training_release(struct training *training);

/* From `step` to `goal`, then an evaluation; without a step, too. Returns 0 also when a signal ended
 * it early. May be called again with a later goal: the result is the same as that of a run that
 * resumes from the checkpoint. */
int training_run(struct training *training, struct error *err);
/* The signal that ended it (128 + number), or 0: also when one came after all was done. */
int training_interrupted(const struct training *training);
/* How the command ends, for the agent; before training_release. */
void training_note(struct training *training, int status, const struct error *err);
/* Tells those who watch that it is over, and how; after the results were printed. */
void training_end(struct training *training, enum run_outcome outcome);

/* Where what is printed goes: standard output, unless the JSON does. */
FILE *training_output(const struct training *training);

#endif
