/* The ranks of a training: whether there are others, how a step is divided among them, and whether
 * they may train together. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "cli/options.h"
#include "train/trainer.h"

struct params;
struct plan;
struct session;
struct source;
struct session_deal;
struct updater;

struct ranks_settings {
    int global_batch, shards, shard_threads, accumulate;
    const char *bucket, *wire;
    bool use_fp16, autotune, no_stall_check;
    double stall_warning, stall_timeout;
};

extern const char *const ranks_wires[];

#define RANKS_OPTIONS(settings)                                                                    \
    OPTION_INT(settings, ranks.global_batch, "global-batch-size", OPTION_AT_LEAST(1),              \
               .initial_note = "--batch-size times the ranks",                                     \
               .help = "examples of one step of all ranks together"),                              \
        OPTION_INT(settings, ranks.accumulate, "accumulate", .min = 1, .max = 65536,               \
                   .initial = "1", .value = "N",                                                   \
                   .aliases = "gradient-accumulation-steps backward-passes-per-step",              \
                   .help = "batches of each rank in a step, one after the other"),                 \
        OPTION_INT(settings, ranks.shards, "shards", .min = 0, .max = 65536, .initial = "0",       \
                   .initial_note = "none", .value = "S",                                           \
                   .help = "compute each step as S shards that are added in a fixed order: the "   \
                           "same bits for any number of ranks and cores up to S; with "            \
                           "--global-batch-size"),                                                 \
        OPTION_INT(settings, ranks.shard_threads, "shard-threads", .min = 1, .max = 1024,          \
                   .initial = "1", .help = "threads that compute one shard"),                      \
        OPTION_TEXT(settings, ranks.bucket, "bucket", .value = "SIZE", .initial = "auto",          \
                    .environment = "HOROVOD_FUSION_THRESHOLD",                                     \
                    .help = "bytes of gradients that ranks add at a time (16M), all, or auto: "    \
                            "the fastest of some sizes, tried in the first steps"),                \
        OPTION_FLAG(settings, ranks.autotune, "autotune", .environment = "HOROVOD_AUTOTUNE",       \
                    .help = "the same as --bucket auto; a size that is given stays"),              \
        OPTION_CHOICE(settings, ranks.wire, "wire", .choices = ranks_wires, .initial = "float32",  \
                      .help = "what gradients travel as; sums are taken in float32"),              \
        OPTION_FLAG(settings, ranks.use_fp16, "use-fp16", .aliases = "fp16 fp16-allreduce",        \
                    .help = "the same as --wire float16: this program computes in float32"),       \
        OPTION_SECONDS(settings, ranks.stall_warning, "stall-warning", OPTION_AT_LEAST(0),         \
                       .initial = "60", .environment = "HOROVOD_STALL_CHECK_TIME_SECONDS",         \
                       .help = "name the ranks that others have waited for so long; 0: never"),    \
        OPTION_SECONDS(settings, ranks.stall_timeout, "stall-timeout", OPTION_AT_LEAST(0),         \
                       .initial = "0", .initial_note = "never",                                    \
                       .environment = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",                       \
                       .help = "end the job when nothing has moved for so long"),                  \
        OPTION_FLAG(settings, ranks.no_stall_check, "no-stall-check",                              \
                    .environment = "HOROVOD_STALL_CHECK_DISABLE",                                  \
                    .help = "the same as --stall-warning 0 --stall-timeout 0")

/* All zero is none. */
struct ranks {
    struct trainer_ranks trainer; /* as the trainer wants it */
    int rank, size;
    int pieces, first, count; /* of all ranks in a step; this one's */
    int lanes;                /* pieces this one computes side by side */
    int threads;              /* of each */
    int64_t global_batch;
    struct plan **more_plans; /* [lanes - 1] */
};

/* Meets the others, if mpirun started this process beside them; *deal, of a session that is not open
 * yet, says so. */
int ranks_open(struct ranks *ranks, const struct options *options,
               const struct ranks_settings *settings, struct session_deal *deal, struct error *err);
/* With `failed` the others are not waited for: they end, too. */
void ranks_close(struct ranks *ranks, bool failed);
/* When the recipe is known: who computes how much. *batch, of one rank, becomes that of a piece; the
 * session's deal is filled. */
int ranks_divide(struct ranks *ranks, const struct options *options,
                 const struct ranks_settings *settings, int *batch, struct session *session,
                 struct error *err);
/* Plans like the one with these options, for the pieces beside the first. */
int ranks_make_plans(struct ranks *ranks, const struct session *session, struct params *params,
                     const struct plan_options *options, struct error *err);
void ranks_destroy_plans(struct ranks *ranks);
/* Ranks that were told different things, or have different networks or data, are refused, naming the
 * first difference; `evaluation` may be all zero, none. Sets trainer.plain where only the processors
 * differ. */
int ranks_compare(struct ranks *ranks, const struct options *options, const struct session *session,
                  const struct plan *plan, const struct source *data,
                  const struct source *evaluation, struct error *err);
/* Weights, statistics and slots of rank `root`, to all but those that have them. */
int ranks_share(const struct ranks *ranks, struct params *params, struct updater *updater, int root,
                bool has, struct error *err);

/* What ranks of one run have in common, but for their data: lines of a name and a value. `without`:
 * an option that is left out; may be NULL. */
struct strbuf;
void ranks_list_facts(const struct options *options, const struct session *session,
                      const char *without, struct strbuf *out);
/* The line in which two such lists differ first; `a` and `b` are set to it in each. */
void ranks_find_difference(const char **a, const char **b);

/* global_batch_size, shards, bucket_bytes, ... */
struct json;
void ranks_describe(const struct ranks *ranks, struct json *out);

/* For commands that compute in one process: ERROR_USAGE when somebody says that there are others. */
int ranks_refuse_several(struct error *err);

#endif
