#include "cli/ranks.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/threads.h"
#include "cli/session.h"
#include "comm/tree.h"
#include "exec/kernel_rules.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "graph/graph.h"
#include "tensor/random.h"

const char *const ranks_wires[] = {"float32", "float16", NULL};

/* --- others who are not there ----------------------------------------------------------------- */

/* Workers and the chief train; an evaluator and parameter servers do not. */
static int64_t tf_config_ranks(const char *text)
{
    struct json *config = NULL;
    if (json_parse(text, strlen(text), &config, NULL) < 0)
        return 0;
    const struct json *cluster = json_get(config, "cluster");
    int64_t ranks = 0;
    if (cluster && json_get(cluster, "worker"))
        ranks += json_count(json_get(cluster, "worker"));
    if (cluster && json_get(cluster, "chief"))
        ranks += json_count(json_get(cluster, "chief"));
    json_release(config);
    return ranks;
}

static int64_t number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 10) : 0;
}

static int refuse(const char *variable, int64_t ranks, const char *instead, struct error *err)
{
    return error_set(err, ERROR_USAGE, "%s names %" PRId64 " ranks, but %s; unset it to go alone",
                     variable, ranks, instead);
}

static int refuse_others(const char *instead, struct error *err)
{
    static const char *const sizes[] = {"PMI_SIZE", "HOROVOD_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (number_in(sizes[i]) > 1)
            return refuse(sizes[i], number_in(sizes[i]), instead, err);
    const char *config = getenv("TF_CONFIG");
    int64_t ranks = config ? tf_config_ranks(config) : 0;
    return ranks > 1 ? refuse("TF_CONFIG", ranks, instead, err) : 0;
}

int ranks_refuse_several(struct error *err)
{
    int64_t ranks = number_in("OMPI_COMM_WORLD_SIZE");
    const char *alone = "this command computes in one process";
    return ranks > 1 ? refuse("OMPI_COMM_WORLD_SIZE", ranks, alone, err)
                     : refuse_others(alone, err);
}

/* --- meeting ---------------------------------------------------------------------------------- */

/* --no-stall-check says less than a time that was given in a stronger place. */
static double stall_seconds(const struct options *options, const struct ranks_settings *settings,
                            const char *name, double seconds)
{
    bool off = settings->no_stall_check &&
               options_source(options, "no-stall-check") >= options_source(options, name);
    return off ? 0 : seconds;
}

int ranks_open(struct ranks *ranks, const struct options *options,
               const struct ranks_settings *settings, struct session_deal *deal, struct error *err)
{
    *ranks = (struct ranks){.size = 1};
    if (number_in("OMPI_COMM_WORLD_SIZE") < 1 &&
        refuse_others("only mpirun (Open MPI) starts ranks of this command", err) < 0)
        return -1;
    if (comm_open(&ranks->trainer.comm, err) < 0)
        return -1;
    ranks->rank = comm_rank(ranks->trainer.comm);
    ranks->size = comm_size(ranks->trainer.comm);
    *deal = (struct session_deal){
        .rank = ranks->rank, .ranks = ranks->size, .crowd = comm_crowd(ranks->trainer.comm)};
    comm_watch_stalls(ranks->trainer.comm,
                      stall_seconds(options, settings, "stall-warning", settings->stall_warning),
                      stall_seconds(options, settings, "stall-timeout", settings->stall_timeout));
    return 0;
}

void ranks_close(struct ranks *ranks, bool failed)
{
    if (failed && ranks->trainer.comm)
        comm_end(ranks->trainer.comm);
    comm_close(ranks->trainer.comm);
    *ranks = (struct ranks){0};
}

/* --- dividing a step -------------------------------------------------------------------------- */

static bool given(const struct options *options, const char *name)
{
    return options_source(options, name) > OPTION_FROM_RECIPE;
}

/* As in Horovod, a threshold that is given is not tuned, unless --autotune was said in a stronger
 * place. */
static bool autotunes(const struct options *options, const struct ranks_settings *settings)
{
    return settings->autotune &&
           options_source(options, "autotune") > options_source(options, "bucket");
}

static int parse_bucket(struct ranks *ranks, const char *text, struct error *err)
{
    const struct option bytes = {.type = OPTION_IS_BYTES, .name = "bucket"};
    size_t size = 0;
    ranks->trainer.tune_buckets = !strcmp(text, "auto");
    ranks->trainer.bucket_bytes = 0;
    if (ranks->trainer.tune_buckets || !strcmp(text, "all"))
        return 0;
    if (option_set(&bytes, "--bucket", text, &size, err) < 0)
        return -1;
    ranks->trainer.bucket_bytes = size ? size : 1; /* 0 is Horovod's word for each tensor alone */
    return 0;
}

static int parse_wire(struct ranks *ranks, const struct ranks_settings *settings, struct error *err)
{
    bool half = settings->use_fp16 || !strcmp(settings->wire, "float16");
    if (half && settings->shards)
        return error_set(err, ERROR_USAGE,
                         "--wire=float16 rounds what travels, so bits would depend on the number "
                         "of ranks: leave it or --shards out");
    if (half && ranks->rank == 0)
        log_line(LOG_INFO, "gradients travel as float16; this program computes in float32%s",
                 ranks->size == 1 ? ", and one rank sends none" : "");
    ranks->trainer.wire = half ? COMM_WIRE_HALF : COMM_WIRE_FLOAT;
    return 0;
}

static int refuse_contradictions(const struct ranks *ranks, const struct options *options,
                                 const struct ranks_settings *settings, struct error *err)
{
    if (settings->global_batch && given(options, "batch-size"))
        return error_set(err, ERROR_USAGE,
                         "--batch-size is of one rank, --global-batch-size of all: give one of "
                         "them");
    if (settings->shards && settings->accumulate > 1)
        return error_set(err, ERROR_USAGE,
                         "--shards already divides the batch: leave --accumulate out");
    if (given(options, "shard-threads") && !settings->shards)
        return error_set(err, ERROR_USAGE, "--shard-threads needs --shards=S");
    if (settings->shards && settings->shards < ranks->size)
        return error_set(err, ERROR_USAGE, "--shards=%d is less than one for each of %d ranks",
                         settings->shards, ranks->size);
    return 0;
}

/* The batch of one piece. */
static int divide_batch(struct ranks *ranks, const struct ranks_settings *settings, int *batch,
                        struct error *err)
{
    int64_t whole = settings->global_batch ? settings->global_batch
                                           : (int64_t)*batch * ranks->size * settings->accumulate;
    if (whole % ranks->pieces)
        return error_set(err, ERROR_USAGE,
                         "a batch of %" PRId64 " examples cannot be divided into %d equal parts: "
                         "choose --global-batch-size as a multiple of %d",
                         whole, ranks->pieces, ranks->pieces);
    if (settings->shards && !settings->global_batch && ranks->size > 1 && ranks->rank == 0)
        log_line(
            LOG_WARNING,
            "--batch-size is of one rank, so the bits are those of %d ranks only: with --shards "
            "give --global-batch-size=%" PRId64,
            ranks->size, whole);
    ranks->global_batch = whole;
    *batch = (int)(whole / ranks->pieces);
    return 0;
}

int ranks_divide(struct ranks *ranks, const struct options *options,
                 const struct ranks_settings *settings, int *batch, struct session *session,
                 struct error *err)
{
    int shards = settings->shards, threads = session->threads;
    if (refuse_contradictions(ranks, options, settings, err) < 0 ||
        parse_bucket(ranks, autotunes(options, settings) ? "auto" : settings->bucket, err) < 0 ||
        parse_wire(ranks, settings, err) < 0)
        return -1;
    ranks->trainer.shards = shards;
    ranks->trainer.pieces = settings->accumulate;
    ranks->pieces = shards ? shards : ranks->size * settings->accumulate;
    ranks->first = ranks->rank * settings->accumulate;
    ranks->count = settings->accumulate;
    ranks->lanes = 1;
    ranks->threads = threads;
    if (shards) {
        struct tree_node held = tree_held(shards, ranks->size, ranks->rank);
        ranks->first = held.first;
        ranks->count = held.end - held.first;
        ranks->threads = settings->shard_threads;
        ranks->lanes = threads / settings->shard_threads;
        if (ranks->lanes > ranks->count)
            ranks->lanes = ranks->count;
        if (ranks->lanes < 1)
            ranks->lanes = 1;
    }
    session->deal.pieces = ranks->pieces;
    session->deal.first = ranks->first;
    session->deal.count = ranks->count;
    session->deal.held = ranks->lanes;
    return divide_batch(ranks, settings, batch, err);
}

int ranks_make_plans(struct ranks *ranks, const struct session *session, struct params *params,
                     const struct plan_options *options, struct error *err)
{
    struct plan_options plan = *options;
    int more = ranks->lanes - 1;
    ranks->more_plans = ARENA_ARRAY(session->arena, struct plan *, more + 1);
    if (!ranks->more_plans)
        return error_set(err, ERROR_MEMORY, "no memory for %d plans", more);
    plan.profile = false;
    for (int i = 0; i < more; i++)
        if (plan_create(session->graph, params, &plan, &ranks->more_plans[i], err) < 0)
            return -1;
    return 0;
}

void ranks_destroy_plans(struct ranks *ranks)
{
    for (int i = 0; ranks->more_plans && i < ranks->lanes - 1; i++)
        plan_destroy(ranks->more_plans[i]);
    ranks->more_plans = NULL;
}

void ranks_describe(const struct ranks *ranks, struct json *out)
{
    json_set_integer(out, "global_batch_size", ranks->global_batch);
    json_set_integer(out, "shards", ranks->trainer.shards);
    json_set_integer(out, "pieces", ranks->pieces);
    json_set_text(out, "wire", ranks_wires[ranks->trainer.wire]);
}

/* --- comparing -------------------------------------------------------------------------------- */

/* May be another word on each rank: places, and what changes no result. */
static const char *const own_matters[] = {
    "data",
    "eval-data",
    "output-dir",
    "checkpoint-dir",
    "json",
    "tensorboard",
    "threads",
    "data-threads",
    "recompute",
    "kernels", /* what it says counts, not where it lies */
    "dashboard",
    "metrics-port",
    "trace",
    "progress-file",
    "quiet",
    "verbose",
    "MODEL",
    "peers",
    "index",
    "secret-file",
    "insecure",
    "start-timeout",
    "peer-timeout",
    "min-ranks",
    "export-dir",
    "labels",
    "image-bytes-as-serving-input",
    "display-every",
};

static bool is_own_matter(const char *name)
{
    for (size_t i = 0; i < sizeof own_matters / sizeof *own_matters; i++)
        if (!strcmp(name, own_matters[i]))
            return true;
    return false;
}

static uint64_t network_key(const struct graph *graph)
{
    uint64_t key = 0;
    for (int i = 0; i < graph_value_count(graph); i++) {
        const struct value *value = graph_value(graph, i);
        key = value->name ? random_key_text(key, value->name) : key;
        for (int d = 0; d < value->shape.ndim; d++)
            key = random_key(key, (uint64_t)value->shape.dim[d]);
    }
    return key;
}

static void list_data(const char *what, const struct source *data, struct strbuf *out)
{
    if (!data->kind)
        strbuf_addf(out, "no %s\n", what);
    else
        strbuf_addf(out, "%s %s of %" PRId64 " examples, fingerprint %016" PRIx64 "\n",
                    data->kind->name, what, data->kind->count(data->dataset),
                    source_fingerprint(data));
}

/* One "name value" line for each fact; all ranks have the same names in the same order. */
void ranks_list_facts(const struct options *options, const struct session *session,
                      const char *without, struct strbuf *out)
{
    strbuf_addf(out, "version %s\n", LOCKSTEP_VERSION);
    strbuf_addf(out, "model %s\n", session->model->name);
    strbuf_addf(out, "network %016" PRIx64 "\n", network_key(session->graph));
    strbuf_addf(out, "--kernels %016" PRIx64 "\n",
                session->kernels ? kernel_rules_fingerprint(session->kernels) : 0);
    for (const struct option *row = options->table; row->type != OPTION_IS_END; row++) {
        if (!row->name || row->type == OPTION_IS_SECTION || row->type == OPTION_IS_REFUSED ||
            is_own_matter(row->name) || (without && !strcmp(row->name, without)))
            continue;
        strbuf_addf(out, "--%s ", row->name);
        if (options_source(options, row->name) != OPTION_FROM_NOTHING)
            option_text(row, options->settings, out);
        strbuf_add(out, "\n");
    }
}

static void list_facts(const struct options *options, const struct session *session,
                       const struct source *data, const struct source *evaluation,
                       struct strbuf *out)
{
    ranks_list_facts(options, session, NULL, out);
    /* Last: another --seed, too, gives other drawn data, and is what to be told. */
    list_data("data", data, out);
    list_data("evaluation data", evaluation, out);
}

void ranks_find_difference(const char **a, const char **b)
{
    size_t start = 0;
    for (size_t at = 0; (*a)[at] && (*a)[at] == (*b)[at]; at++)
        if ((*a)[at] == '\n')
            start = at + 1;
    *a += start;
    *b += start;
}

/* The first line in which two lists differ. */
static int say_difference(const char *first, const char *other, int rank, struct error *err)
{
    ranks_find_difference(&first, &other);
    return error_set(err, ERROR_PEER,
                     "the ranks were started differently: rank 0 has \"%.*s\", rank %d has "
                     "\"%.*s\"",
                     (int)strcspn(first, "\n"), first, rank, (int)strcspn(other, "\n"), other);
}

/* Everyone's `bytes`, at most `room` each, one behind the other; to be freed. The sizes follow
 * behind them. NULL on failure. */
static char *gather(const struct ranks *ranks, const void *own, size_t bytes, size_t room,
                    size_t **sizes, struct error *err)
{
    size_t count = (size_t)ranks->size, all_bytes = (count * room + 7) & ~(size_t)7;
    char *all = memory_allocate(all_bytes + count * sizeof **sizes);
    if (!all) {
        error_set(err, ERROR_MEMORY, "no memory to compare the ranks");
        return NULL;
    }
    *sizes = (size_t *)(void *)(all + all_bytes);
    if (comm_gather(ranks->trainer.comm, own, bytes, all, all_bytes, *sizes, err) == 0)
        return all;
    memory_free(all);
    return NULL;
}

static int compare_facts(const struct ranks *ranks, const char *own, struct error *err)
{
    enum { ROOM = 1 << 16 };
    size_t *sizes, at = 0;
    char *all = gather(ranks, own, strlen(own) + 1, ROOM, &sizes, err);
    int status = all ? 0 : -1;
    for (int r = 0; status == 0 && r < ranks->size; r++) {
        if (strcmp(all, all + at) != 0)
            status = say_difference(all, all + at, r, err);
        at += sizes[r];
    }
    memory_free(all);
    return status;
}

struct kind_of_processor {
    uint64_t fingerprint;
    char name[64];
};

static int judge_processors(struct ranks *ranks, const struct kind_of_processor *all,
                            struct error *err)
{
    int other = 0;
    while (other < ranks->size && all[other].fingerprint == all[0].fingerprint)
        other++;
    if (other == ranks->size)
        return 0;
    if (ranks->trainer.shards)
        return error_set(err, ERROR_PEER,
                         "rank %d on %s (%s) uses other kernels than rank 0 on %s (%s), so bits "
                         "would differ: with --shards all ranks need the same kind of processor",
                         other, comm_host(ranks->trainer.comm, other), all[other].name,
                         comm_host(ranks->trainer.comm, 0), all[0].name);
    ranks->trainer.plain = true;
    if (ranks->rank == 0)
        log_line(LOG_WARNING,
                 "rank %d on %s (%s) uses other kernels than rank 0 (%s): gradients are exchanged "
                 "in plain order, without overlap",
                 other, comm_host(ranks->trainer.comm, other), all[other].name, all[0].name);
    return 0;
}

static int compare_processors(struct ranks *ranks, const struct plan *plan, struct error *err)
{
    struct kind_of_processor own = {.fingerprint = plan_fingerprint(plan)};
    struct processor processor;
    size_t *sizes;
    processor_describe(&processor);
    memcpy(own.name, processor.name, sizeof own.name);
    char *all = gather(ranks, &own, sizeof own, sizeof own, &sizes, err);
    int status = all ? judge_processors(ranks, (const void *)all, err) : -1;
    memory_free(all);
    return status;
}

int ranks_compare(struct ranks *ranks, const struct options *options, const struct session *session,
                  const struct plan *plan, const struct source *data,
                  const struct source *evaluation, struct error *err)
{
    if (ranks->size == 1)
        return 0;
    struct strbuf facts;
    strbuf_init(&facts);
    list_facts(options, session, data, evaluation, &facts);
    int status = facts.failed ? error_set(err, ERROR_MEMORY, "no memory to compare the ranks")
                              : compare_facts(ranks, facts.text, err);
    strbuf_release(&facts);
    if (status == 0)
        status = compare_processors(ranks, plan, err);
    if (status < 0 && ranks->rank > 0 && !comm_is_over(ranks->trainer.comm))
        err->code = ERROR_TOLD; /* all found the same */
    return status;
}

/* --- sharing ---------------------------------------------------------------------------------- */

/* The numbers that one rank has for another. */
struct sharing {
    int root;
    bool has; /* they are here */
};

static int share_slot(const struct ranks *ranks, struct params *params, struct updater *updater,
                      struct sharing sharing, int param, int slot, struct tensor *tensor,
                      struct error *err)
{
    float initial = 0;
    if (slot >= 0 && !updater_describe_slot(updater, param, slot, &initial))
        return 0;
    int status = ranks->rank != sharing.root ? 0
                 : slot < 0                  ? params_read(params, param, tensor, err)
                                             : params_read_slot(params, param, slot, tensor, err);
    if (status < 0 || comm_broadcast(ranks->trainer.comm, tensor->data, tensor_bytes(tensor),
                                     sharing.root, err) < 0)
        return -1;
    if (sharing.has)
        return 0;
    return slot < 0 ? params_write(params, param, tensor, err)
                    : params_write_slot(params, param, slot, tensor, initial, err);
}

int ranks_share(const struct ranks *ranks, struct params *params, struct updater *updater, int root,
                bool has, struct error *err)
{
    struct sharing sharing = {root, has};
    if (ranks->size == 1)
        return 0;
    int status = 0;
    for (int i = 0; status == 0 && i < params_count(params); i++) {
        struct tensor tensor = {DTYPE_F32, params_range(params, i).shape, NULL};
        tensor.data = memory_allocate(tensor_bytes(&tensor) + 1);
        if (!tensor.data)
            return error_set(err, ERROR_MEMORY, "no memory to share %s", params_name(params, i));
        for (int slot = -1; status == 0 && slot < params_slots(params); slot++)
            status = share_slot(ranks, params, updater, sharing, i, slot, &tensor, err);
        memory_free(tensor.data);
    }
    return status;
}
