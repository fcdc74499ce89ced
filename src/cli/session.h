/* What train, eval and bench have in common: from the words of the command line to a network, its
 * data and what a script wants to know about them. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/options.h"
#include "data/loader.h"
#include "models/registry.h"
#include "train/source.h"

struct arena;
struct json;

struct session_settings {
    const char *model;
    const char *data;
    int batch, threads, classes, image_size, embedding_rows, embedding_dim;
    int data_threads; /* -1: as the kind of data needs */
    const char *hidden;
    double label_smoothing, dropout;
    int64_t seed, examples, skip_bad;
    bool data_cache;
    bool recompute;
    const char *kernels; /* a file; NULL: none */
    size_t prefetch_bytes;
    const char *scaling; /* of numeric columns: session_scalings */
    const char *pixels;  /* session_pixel_scales */
    const char *json;
};

/* Rows of a table whose settings have a `struct session_settings common`. */
#define SESSION_MODEL_OPTION(settings)                                                             \
    OPTION_ARGUMENT(settings, common.model, "MODEL", .required = true,                             \
                    .aliases = "model model-name", .choice_at = session_model_name, .open = true,  \
                    .help =                                                                        \
                        "a network of `lockstep models`, an ONNX file, or a shared object that "   \
                        "defines one")
#define SESSION_NETWORK_OPTIONS(settings)                                                          \
    OPTION_INT(settings, common.classes, "classes", OPTION_AT_LEAST(1), .aliases = "num-classes",  \
               .initial_note = "the model's", .help = "classes the network tells apart"),          \
        OPTION_INT(settings, common.image_size, "image-size", OPTION_AT_LEAST(1),                  \
                   .initial_note = "the model's",                                                  \
                   .help = "height and width of its input, in pixels"),                            \
        OPTION_INT(settings, common.embedding_rows, "embedding-rows", OPTION_AT_LEAST(1),          \
                   .aliases = "buckets hash-buckets", .initial_note = "the columns', or 1000",     \
                   .help = "buckets each categorical column is hashed into"),                      \
        OPTION_INT(settings, common.embedding_dim, "embedding-dim", .min = 1, .max = 65536,        \
                   .aliases = "embedding-size", .initial_note = "the model's",                     \
                   .help = "numbers per row of an embedding"),                                     \
        OPTION_TEXT(settings, common.hidden, "hidden", .value = "N,N,...",                         \
                    .aliases = "hidden-units", .initial_note = "the model's",                      \
                    .help = "units of the hidden layers"),                                         \
        OPTION_NUMBER(settings, common.dropout, "dropout", .min = 0, .max = 0.99,                  \
                      .initial_note = "the model's",                                               \
                      .help = "part of each hidden layer that is left out in training")
/* Not for eval: weights bring the numbers they were trained with. */
#define SESSION_SCALING_OPTION(settings)                                                           \
    OPTION_CHOICE(                                                                                 \
        settings, common.scaling, "scaling", .choices = session_scalings, .initial = "range",      \
        .help = "of numeric columns: least 0 and greatest 1, or mean 0 and deviation 1; "          \
                "the numbers are kept with the weights")
#define SESSION_SMOOTHING_OPTION(settings)                                                         \
    OPTION_NUMBER(settings, common.label_smoothing, "label-smoothing", .min = 0, .max = 1,         \
                  .initial_note = "the model's",                                                   \
                  .help = "part of each label spread over all classes")
#define SESSION_BATCH_OPTION(settings)                                                             \
    OPTION_INT(settings, common.batch, "batch-size", .letter = 'b', .initial = "32",               \
               OPTION_AT_LEAST(1), .help = "examples computed together")
#define SESSION_RUN_OPTIONS(settings)                                                              \
    OPTION_INT(settings, common.threads, "threads", .letter = 'a', OPTION_AT_LEAST(0),             \
               .initial = "0", .initial_note = "all cores this process may use",                   \
               .environment = "OMP_NUM_THREADS",                                                   \
               .aliases = "num-intra-threads intra-op-parallelism-threads",                        \
               .help = "threads that compute"),                                                    \
        OPTION_LONG(settings, common.seed, "seed", .initial = "1", OPTION_AT_LEAST(0),             \
                    .aliases = "random-seed",                                                      \
                    .help = "of all randomness: the same seed and threads give the same bits")
/* Of commands that train. */
#define SESSION_PLAN_OPTIONS(settings)                                                             \
    OPTION_FLAG(settings, common.recompute, "recompute",                                           \
                .help = "less memory for a little time: outputs of batch norms, ReLUs and "        \
                        "residual additions are not kept for the backward pass but made again "    \
                        "there; the same bits"),                                                   \
        OPTION_TEXT(settings, common.kernels, "kernels", .value = "FILE",                          \
                    .initial_note = "a fixed rule over shapes and processor",                      \
                    .help = "choose the convolutions' kernels as FILE says, which `lockstep "      \
                            "bench --tune` wrote on such a machine; may give other last bits")
#define SESSION_EXAMPLES_OPTION(settings)                                                          \
    OPTION_LONG(settings, common.examples, "examples", OPTION_AT_LEAST(0), .initial = "0",         \
                .initial_note = "the kind's own number",                                           \
                .help = "how many to draw (digits, synthetic), or to read of the first (mnist)")
#define SESSION_READING_OPTIONS(settings)                                                          \
    OPTION_CHOICE(settings, common.pixels, "pixels", .choices = session_pixel_scales,              \
                  .initial = "mean", .initial_note = "the model's, or mean",                       \
                  .help = "numbers made of pictures (imagenet, images): mean takes off "           \
                          "ImageNet's mean colour, torch scales as torchvision's models want "     \
                          "it, unit gives 0 to 1, signed -1 to 1"),                                \
        OPTION_INT(settings, common.data_threads, "data-threads", .min = -1, .max = 1024,          \
                   .initial = "-1", .initial_note = "all cores where examples are decoded",        \
                   .aliases = "num-parallel-calls datasets-num-private-threads num-data-workers",  \
                   .help = "threads that read ahead; batches are the same for any number"),        \
        OPTION_BYTES(settings, common.prefetch_bytes, "prefetch-bytes", .initial = "256M",         \
                     .help = "memory for batches that are read ahead; one is always"),             \
        OPTION_LONG(settings, common.skip_bad, "skip-bad-records", .min = 0, .max = 1000000,       \
                    .initial = "0", .value = "N",                                                  \
                    .help = "leave out up to this many examples that cannot be decoded, and say "  \
                            "so at the end; 0 stops at the first"),                                \
        OPTION_FLAG(settings, common.data_cache, "data-cache",                                     \
                    .help = "keep the parsed rows of text (criteo, table) beside it for later "    \
                            "runs, which then parse nothing")
#define SESSION_JSON_OPTION(settings)                                                              \
    OPTION_TEXT(settings, common.json, "json", .value = "FILE",                                    \
                .help = "write the results as one JSON object; - is standard output, where "       \
                        "nothing else is printed then")

/* Which part of the data is this process's. */
struct session_deal {
    int rank, ranks;          /* ranks 0: one */
    int crowd;                /* ranks that share this one's cores; 0: itself */
    int pieces, first, count; /* of a step of all ranks; this one's. pieces 0: one */
    int held;                 /* that it computes side by side */
};

/* Data that is open, with its loader. All zero is none. */
struct session_data {
    const char *spec; /* as resolved; the session's */
    struct source source;
};

struct session {
    struct arena *arena;       /* of what is made on the way */
    const struct model *model; /* the caller may bring one, before session_open */
    struct model_args args;
    struct graph *graph;
    struct kernel_rules *kernels; /* NULL: the fixed rule */
    bool pixels_given;        /* --pixels by the user, not by the recipe */
    const char *recipe;       /* as far as it was applied; "" when there is none */
    int threads;              /* resolved */
    struct session_deal deal; /* the caller's, before session_open; all zero: alone */
    const atomic_int *stop;   /* SIGINT or SIGTERM, from session_open on; see cli/signals.h */
};

const char *session_model_name(int index); /* names and aliases; NULL behind the last */
struct session_model_alias {
    const char *theirs, *ours;
};
const struct session_model_alias *session_model_alias(int index); /* NULL behind the last */
extern const char *const session_scalings[], *const session_pixel_scales[];
/* Fills what the network is told about its data before training (see source_fill_statistics). */
struct params;
int session_fill_statistics(const struct session *session, const struct session_settings *settings,
                            const struct session_data *data, struct params *params,
                            struct error *err);

/* Finds the model and applies its recipe, which is in the words of `train`, to the options that
 * were not given. A command with fewer options takes `part` of it: the words its table has. On
 * failure, too, session_close is to be called. */
enum session_recipe { SESSION_WHOLE_RECIPE, SESSION_PART_OF_RECIPE };
int session_open(struct session *session, struct options *options, enum session_recipe part,
                 struct session_settings *settings, struct error *err);
/* Builds the network, by the options as they now are, and reads --kernels. */
int session_build(struct session *session, const struct options *options,
                  const struct session_settings *settings, struct error *err);
void session_close(struct session *session);

/* `spec` is KIND, KIND:PATH, or only a directory, which is how DATASET_DIR names data: its files
 * tell the kind. NULL is the model's default. */
int session_open_data(struct session *session, const struct session_settings *settings,
                      const char *spec, enum dataset_split split, struct session_data *out,
                      struct error *err);
void session_close_data(struct session_data *data);

/* Refuses a file of --kernels that was measured with another number of threads than plans have. */
int session_check_kernels(const struct session *session, const struct session_settings *settings,
                          int threads, struct error *err);
/* What rules about kernels call the processor this runs on. */
void session_name_processor(char *text, size_t bytes);
/* A warning where --recompute was given and there is nothing to recompute, or where --kernels says
 * nothing about some convolutions. */
void session_warn_of_plan(const struct session *session, const struct session_settings *settings,
                          const struct plan *plan);

/* How reading went: input_threads, input_stall_seconds, ... */
void session_describe_input(const struct session_data *data, struct json *out);
/* A warning where bad examples were left out. */
void session_warn_of_bad(const struct session_data *data);
/* The fields that every command's JSON has: model, data, threads, plan, memory, version. */
void session_describe(const struct session *session, const char *data, const struct plan *plan,
                      struct json *out);

#endif
