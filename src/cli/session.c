#include "cli/session.h"

#include <fnmatch.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "cli/foreign_variables.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "data/storage.h"
#include "data/table.h"
#include "exec/dnn.h"
#include "exec/kernel_rules.h"
#include "graph/graph.h"
#include "train/feed.h"

/* What other programs call our networks. */
static const struct session_model_alias model_aliases[] = {
    {"resnet50v1_5", "resnet50"},
    {"resnet50_v1.5", "resnet50"},
    {"wide_deep_large_ds", "wide_deep"},
};
enum { MODEL_ALIASES = sizeof model_aliases / sizeof *model_aliases };

const struct session_model_alias *session_model_alias(int index)
{
    return index < MODEL_ALIASES ? &model_aliases[index] : NULL;
}

const char *session_model_name(int index)
{
    const struct model *const *list = model_list();
    int count = 0;
    while (list[count])
        count++;
    if (index < count)
        return list[index]->name;
    const struct session_model_alias *alias = session_model_alias(index - count);
    return alias ? alias->theirs : NULL;
}

static const char *own_model_name(const char *name)
{
    for (int i = 0; i < MODEL_ALIASES; i++)
        if (strcmp(name, model_aliases[i].theirs) == 0)
            return model_aliases[i].ours;
    return name;
}

/* By this very name: an alias may mean something else there, as --steps does to bench. */
static bool has_option(const struct option *table, const char *name, size_t length)
{
    const struct option *row = option_find(table, name, length);
    return row && row->type != OPTION_IS_REFUSED && strlen(row->name) == length;
}

/* The words of the recipe whose options this table has; they are of the form --NAME=VALUE. */
static const char *known_words(struct session *session, const struct option *table,
                               const char *recipe)
{
    const char *word;
    char *known = arena_copy_text(session->arena, "");
    for (size_t length; known && (length = option_next_word(&recipe, &word)) > 0;) {
        const char *name = word + strspn(word, "-");
        size_t name_length = strcspn(name, "= ");
        if (has_option(table, name, name_length))
            known = arena_format(session->arena, "%s %.*s", known, (int)length, word);
    }
    return known;
}

static int apply_recipe(struct session *session, struct options *options, enum session_recipe part,
                        struct error *err)
{
    session->recipe = session->model->recipe ? session->model->recipe : "";
    if (part == SESSION_PART_OF_RECIPE)
        session->recipe = known_words(session, options->table, session->recipe);
    if (!session->recipe)
        return error_set(err, ERROR_MEMORY, "no memory for the recipe");
    if (options_apply_recipe(options, session->recipe, session->arena, err) < 0)
        return error_wrap(err, "model %s", session->model->name);
    return 0;
}

/* More threads than cores would only wait for each other; ranks that share cores divide them. */
static int choose_threads(int wanted, int crowd)
{
    int most = threads_available(), share = crowd > 1 ? most / crowd : most;
    if (wanted > most)
        log_line(LOG_WARNING, "%d threads were asked for, %d cores may be used: using %d", wanted,
                 most, most);
    if (wanted <= 0)
        return share > 1 ? share : 1;
    return wanted < most ? wanted : most;
}

int session_open(struct session *session, struct options *options, enum session_recipe part,
                 struct session_settings *settings, struct error *err)
{
    session->stop = signals_catch();
    session->arena = arena_create();
    if (!session->arena)
        return error_set(err, ERROR_MEMORY, "no memory to start with");
    if (output_json_prepare(settings->json, err) < 0 ||
        (!session->model && model_open(own_model_name(settings->model), &session->model, err) < 0))
        return -1;
    if (apply_recipe(session, options, part, err) < 0)
        return -1;
    session->threads = choose_threads(settings->threads, session->deal.crowd);
    /* Now, not with the plan: passes over the data, which come first, obey it, too. */
    dnn_set_threads(session->threads);
    if (session->deal.rank == 0)
        foreign_variables_tell(getenv);
    return 0;
}

static bool given(const struct options *options, const char *name)
{
    return option_find(options->table, name, strlen(name)) &&
           options_source(options, name) > OPTION_FROM_TABLE;
}

static bool is_path(const char *spec)
{
    return *spec == '/' || *spec == '.' || (strchr(spec, '/') && !strchr(spec, ':')) ||
           !strncmp(spec, "s3://", 5);
}

/* Kinds of data that can be told by the name of a file below their directory; the first row that
 * fits counts. */
static const struct {
    const char *kind, *pattern;
} signs[] = {
    {"mnist", "train-images-idx3-ubyte*"},
    {"mnist", "t10k-images-idx3-ubyte*"},
    {"table", "columns.txt"},
    {"criteo", "train.csv"},
    {"criteo", "train.txt"},
    {"imagenet", "train-*-of-*"},
    {"imagenet", "validation-*-of-*"},
    {"imagenet", "train/train-*-of-*"},
    {"imagenet", "validation/validation-*-of-*"},
    {"images", "train/*/*.[jJpP]*[gG]"},
    {"images", "*/*.[jJpP]*[gG]"},
};

static const char *kind_of_files(const struct storage *storage)
{
    const struct storage_file *files;
    int count = storage_files(storage, &files);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        for (int f = 0; f < count; f++)
            if (fnmatch(signs[i].pattern, files[f].name, FNM_PATHNAME) == 0)
                return signs[i].kind;
    return NULL;
}

static int recognize(struct session *session, const char *directory, const char **out,
                     struct error *err)
{
    struct storage *storage;
    if (storage_open(directory, session->stop, &storage, err) < 0)
        return -1;
    const char *kind = kind_of_files(storage);
    storage_close(storage);
    if (!kind)
        return error_set(err, ERROR_USAGE,
                         "%s: what kind of data is there? Write KIND:DIR (`lockstep "
                         "datasets` lists the kinds)",
                         directory);
    *out = arena_format(session->arena, "%s:%s", kind, directory);
    return *out ? 0 : error_set(err, ERROR_MEMORY, "no memory for the name of the data");
}

static int resolve_spec(struct session *session, const char *spec, const char **out,
                        struct error *err)
{
    if (!spec || !*spec)
        spec = session->model->dataset ? session->model->dataset : "synthetic";
    if (is_path(spec))
        return recognize(session, spec, out, err);
    *out = spec;
    return 0;
}

/* "1024,512,256" */
static int parse_hidden(const char *text, int hidden[MODEL_MAX_HIDDEN], struct error *err)
{
    int count = 0;
    for (const char *at = text;; at++) {
        char *end;
        long units = strtol(at, &end, 10);
        if (end == at || units < 1 || units > 1 << 20 || (*end && *end != ','))
            return error_set(err, ERROR_USAGE,
                             "--hidden=%s: expected units of the layers, such as 1024,512,256",
                             text);
        if (count == MODEL_MAX_HIDDEN)
            return error_set(err, ERROR_USAGE, "--hidden=%s: at most %d layers", text,
                             MODEL_MAX_HIDDEN);
        hidden[count++] = (int)units;
        at = end;
        if (!*at)
            break;
    }
    if (count < MODEL_MAX_HIDDEN)
        hidden[count] = 0;
    return 0;
}

/* The columns of a table decide how many inputs the network has. */
static int take_columns(struct session *session, const struct table_description *table,
                        struct error *err)
{
    int64_t *buckets = ARENA_ARRAY(session->arena, int64_t, table->categorical_count + 1);
    if (!buckets)
        return error_set(err, ERROR_MEMORY, "no memory for %d columns", table->categorical_count);
    int count = 0;
    for (int i = 0; i < table->column_count; i++)
        if (table->columns[i].kind == TABLE_CATEGORICAL)
            buckets[count++] = table->columns[i].buckets;
    session->args.numerics = table->numeric_count;
    session->args.categoricals = table->categorical_count;
    session->args.buckets = buckets;
    return 0;
}

static int fit_to_table(struct session *session, const char *spec, struct error *err)
{
    static const char kind[] = "table:";
    struct table_description table = {0};
    if (strncmp(spec, kind, strlen(kind)) != 0 || !session->args.categoricals)
        return 0;
    int status = table_describe(spec + strlen(kind), session->stop, &table, err);
    if (status == 0)
        status = take_columns(session, &table, err);
    table_description_release(&table);
    return status;
}

/* A network without, say, embeddings has 0 for them: their options would change nothing. */
static int refuse_unread(const struct session *session, const struct options *options,
                         struct error *err)
{
    const struct model_args *has = &session->model->defaults;
    const struct {
        const char *option;
        bool read;
    } rows[] = {{"classes", has->classes > 0},
                {"image-size", has->image_size > 0},
                {"embedding-rows", has->embedding_rows > 0},
                {"embedding-dim", has->embedding_dim > 0},
                {"hidden", has->hidden[0] > 0},
                {"dropout", has->hidden[0] > 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].read && given(options, rows[i].option))
            return error_set(err, ERROR_USAGE, "--%s would change nothing: %s has no such part",
                             rows[i].option, session->model->name);
    return 0;
}

static int choose_args(struct session *session, const struct options *options,
                       const struct session_settings *settings, struct error *err)
{
    struct model_args *args = &session->args;
    *args = session->model->defaults;
    session->pixels_given = option_find(options->table, "pixels", strlen("pixels")) &&
                            options_source(options, "pixels") > OPTION_FROM_RECIPE;
    const char *spec;
    if (refuse_unread(session, options, err) < 0 ||
        resolve_spec(session, settings->data, &spec, err) < 0 ||
        fit_to_table(session, spec, err) < 0)
        return -1;
    if (given(options, "classes"))
        args->classes = settings->classes;
    if (given(options, "image-size"))
        args->image_size = settings->image_size;
    if (given(options, "label-smoothing"))
        args->label_smoothing = (float)settings->label_smoothing;
    if (given(options, "embedding-rows")) {
        args->embedding_rows = settings->embedding_rows;
        args->buckets = NULL;
    }
    if (given(options, "embedding-dim"))
        args->embedding_dim = settings->embedding_dim;
    if (given(options, "dropout"))
        args->dropout = (float)settings->dropout;
    return given(options, "hidden") ? parse_hidden(settings->hidden, args->hidden, err) : 0;
}

void session_name_processor(char *text, size_t bytes)
{
    struct processor processor;
    processor_describe(&processor);
    snprintf(text, bytes, "%s, %s", processor.name, dnn_instruction_set());
}

/* A file of another machine would be obeyed without being true. */
static int read_kernels(struct session *session, const struct session_settings *settings,
                        struct error *err)
{
    char here[128];
    if (!settings->kernels)
        return 0;
    if (kernel_rules_read(settings->kernels, &session->kernels, err) < 0)
        return error_wrap(err, "--kernels");
    const char *measured = kernel_rules_processor(session->kernels);
    session_name_processor(here, sizeof here);
    if (*measured && strcmp(measured, here) != 0)
        return error_set(err, ERROR_USAGE,
                         "--kernels=%s was measured on \"%s\", this is \"%s\": measure here with "
                         "`lockstep bench --tune`, or leave --kernels out",
                         settings->kernels, measured, here);
    return 0;
}

int session_check_kernels(const struct session *session, const struct session_settings *settings,
                          int threads, struct error *err)
{
    int measured = session->kernels ? kernel_rules_threads(session->kernels) : 0;
    if (!measured || measured == threads)
        return 0;
    return error_set(err, ERROR_USAGE,
                     "--kernels=%s was measured with %d threads, and %d compute here: give "
                     "--threads=%d, or measure again with `lockstep bench --tune`",
                     settings->kernels, measured, threads, measured);
}

int session_build(struct session *session, const struct options *options,
                  const struct session_settings *settings, struct error *err)
{
    if (choose_args(session, options, settings, err) < 0 ||
        read_kernels(session, settings, err) < 0)
        return -1;
    session->graph = graph_create();
    if (!session->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    session->model->build(session->graph, &session->args);
    if (graph_finish(session->graph, err) < 0)
        return error_wrap(err, "model %s", session->model->name);
    return 0;
}

void session_close(struct session *session)
{
    kernel_rules_destroy(session->kernels);
    graph_destroy(session->graph);
    model_close(session->model);
    arena_destroy(session->arena);
    *session = (struct session){0};
}

/* --- data ----------------------------------------------------------------------------------- */

/* In the order of enum pixel_scale. */
const char *const session_pixel_scales[] = {"mean", "torch", "unit", "signed", NULL};

static enum pixel_scale pixel_scale(const struct session_settings *settings)
{
    int scale = 0;
    while (settings->pixels && session_pixel_scales[scale] &&
           strcmp(settings->pixels, session_pixel_scales[scale]) != 0)
        scale++;
    return session_pixel_scales[scale] ? (enum pixel_scale)scale : PIXELS_MEAN;
}

/* Whoever asks for other numbers than these kinds of data give is to know. */
static int refuse_pixels(const struct session *session, const struct session_data *data,
                         struct error *err)
{
    if (!session->pixels_given || data->source.kind->scales)
        return 0;
    return error_set(err, ERROR_USAGE,
                     "--pixels would change nothing: %s gives no pictures that are decoded",
                     data->source.kind->name);
}

int session_open_data(struct session *session, const struct session_settings *settings,
                      const char *spec, enum dataset_split split, struct session_data *out,
                      struct error *err)
{
    const struct session_deal *deal = &session->deal;
    bool train = split == SPLIT_TRAIN;
    struct source_options options = {.split = split,
                                     .shard = train ? deal->first : deal->rank,
                                     .shards = train ? deal->pieces : deal->ranks,
                                     .shard_count = train ? deal->count : 1,
                                     .held = train ? deal->held : 1,
                                     .batch = settings->batch,
                                     .classes = session->args.classes,
                                     .pixels = pixel_scale(settings),
                                     .seed = (uint64_t)settings->seed,
                                     .examples = settings->examples,
                                     .threads = settings->data_threads,
                                     .prefetch_bytes = settings->prefetch_bytes,
                                     .skip_bad = settings->skip_bad,
                                     .cache = settings->data_cache,
                                     .stop = session->stop};
    struct session_data data = {0};
    if (resolve_spec(session, spec, &data.spec, err) < 0 ||
        source_open(&data.source, session->graph, data.spec, &options, err) < 0)
        return -1;
    if (refuse_pixels(session, &data, err) < 0) {
        source_close(&data.source);
        return -1;
    }
    *out = data;
    return 0;
}

void session_close_data(struct session_data *data)
{
    source_close(&data->source);
}

const char *const session_scalings[] = {"range", "deviation", NULL};

int session_fill_statistics(const struct session *session, const struct session_settings *settings,
                            const struct session_data *data, struct params *params,
                            struct error *err)
{
    bool deviation = !strcmp(settings->scaling, "deviation");
    if (deviation && !source_scales(&data->source, session->graph))
        return error_set(err, ERROR_USAGE,
                         "--scaling=deviation would change nothing: %s from %s has no numeric "
                         "columns to scale",
                         session->model->name, data->spec);
    return source_fill_statistics(&data->source, session->graph,
                                  deviation ? SOURCE_SCALE_BY_DEVIATION : SOURCE_SCALE_BY_RANGE,
                                  params, err);
}

void session_describe_input(const struct session_data *data, struct json *out)
{
    struct loader *loader = data->source.trainer.loader;
    json_set_integer(out, "input_threads", loader_threads(loader));
    json_set_number(out, "input_read_seconds", loader_read_seconds(loader));
    json_set_number(out, "input_stall_seconds", loader_stall_seconds(loader));
    json_set_integer(out, "bad_records", loader_bad_examples(loader));
}

void session_warn_of_bad(const struct session_data *data)
{
    const struct loader *loader = data->source.trainer.loader;
    if (loader && loader_bad_examples(loader))
        log_line(LOG_WARNING, "%s: %" PRId64 " bad examples were left out, the first being %s",
                 data->spec, loader_bad_examples(loader), loader_first_bad(loader));
}

void session_warn_of_plan(const struct session *session, const struct session_settings *settings,
                          const struct plan *plan)
{
    struct plan_memory memory;
    plan_memory(plan, &memory);
    if (settings->recompute && !memory.recomputed && session->deal.rank == 0)
        log_line(
            LOG_WARNING,
            "--recompute saves nothing: %s keeps no output of a batch norm, nor of a ReLU or an "
            "addition behind one",
            session->model->name);
    struct plan_kernels kernels = plan_kernels(plan);
    if (kernels.nodes > kernels.told && session->deal.rank == 0)
        log_line(LOG_WARNING,
                 "--kernels=%s does not name %d of the %d convolutions of %s at this batch size: they "
                 "follow the fixed rule",
                 settings->kernels, kernels.nodes - kernels.told, kernels.nodes,
                 session->model->name);
    if (kernels.unfit && session->deal.rank == 0)
        log_line(LOG_WARNING,
                 "--kernels=%s names kernels that do not fit %d convolutions: they follow the fixed "
                 "rule",
                 settings->kernels, kernels.unfit);
}

/* --- telling -------------------------------------------------------------------------------- */

static struct json *describe_memory(const struct plan *plan)
{
    struct plan_memory memory;
    struct json *json = json_object_create();
    plan_memory(plan, &memory);
    json_set_integer(json, "parameters", (int64_t)memory.parameters);
    json_set_integer(json, "gradients", (int64_t)memory.gradients);
    json_set_integer(json, "slots", (int64_t)memory.slots);
    json_set_integer(json, "saved", (int64_t)memory.saved);
    json_set_integer(json, "recomputed", (int64_t)memory.recomputed);
    json_set_integer(json, "peak", (int64_t)memory.peak);
    json_set_integer(json, "sum", (int64_t)memory.sum);
    return json;
}

void session_describe(const struct session *session, const char *data, const struct plan *plan,
                      struct json *out)
{
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, plan_fingerprint(plan));
    json_set_text(out, "model", session->model->name);
    json_set_text(out, "data", data);
    json_set_integer(out, "ranks", session->deal.ranks ? session->deal.ranks : 1);
    json_set_integer(out, "threads", session->threads);
    json_set_integer(out, "batch_size", plan_batch(plan));
    json_set_integer(out, "parameters", graph_parameter_elements(session->graph));
    json_set_text(out, "fingerprint", fingerprint);
    json_set_text(out, "kernels", session->kernels ? kernel_rules_name(session->kernels) : NULL);
    json_set(out, "plan_bytes", describe_memory(plan));
    json_set_integer(out, "peak_rss_bytes", (int64_t)memory_peak_rss_bytes());
    json_set_number(out, "processor_seconds", clock_processor_seconds());
    json_set_number(out, "other_threads_seconds",
                    clock_processor_seconds() - clock_thread_seconds());
    json_set_text(out, "version", LOCKSTEP_VERSION);
}
