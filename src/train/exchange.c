#include "train/exchange.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "exec/params.h"

enum { NAME_BYTES = 24 };

struct exchange {
    struct exchange_options options;
    struct arena *arena;
    int ranks, shards; /* leaves of the tree in which rows are added */
    struct comm_request *requests;
    struct exchange_sum *sums; /* one for each request, and valid until the next step's first */
    int sum_count;
    char (*names)[NAME_BYTES]; /* of buckets, for who waits for one */
    int request_count, waited_count, request_limit;
    struct error failure; /* the first of this step */
    double finishing;     /* clock_seconds() */
    double hidden_seconds;

    struct slab plain; /* gradients in plain order */

    /* Rows: packed ones of this rank and of all, the leaves of the tree, and one to add in. */
    void *packed, *gathered;
    size_t packed_bytes, gathered_bytes, *sizes;
    struct rows *leaves, spare;
    struct rows *sum; /* one of the leaves */
};

/* --- gradients -------------------------------------------------------------------------------- */

static void wait_for_next(struct exchange *exchange)
{
    int i = exchange->waited_count++;
    comm_wait(exchange->options.comm, &exchange->requests[i], &exchange->failure);
    exchange->sums[i].start = exchange->requests[i].start;
    exchange->sums[i].end = exchange->requests[i].end;
}

static void start(struct exchange *exchange, const struct comm_reduction *reduction)
{
    if (exchange->failure.code)
        return;
    if (exchange->request_count - exchange->waited_count == COMM_MAX_REQUESTS)
        wait_for_next(exchange);
    exchange->sums[exchange->request_count] = (struct exchange_sum){
        .bytes = reduction->count * (reduction->wire == COMM_WIRE_HALF ? 2 : sizeof(float)),
        .ready = clock_seconds()};
    if (comm_reduce_start(exchange->options.comm, reduction,
                          &exchange->requests[exchange->request_count], &exchange->failure) == 0)
        exchange->request_count++;
}

void exchange_bucket(void *context, int bucket, size_t first, size_t count, float *const *parts)
{
    struct exchange *exchange = context;
    if (exchange->options.plain)
        return;
    struct comm_reduction reduction = {.name = exchange->names[bucket],
                                       .values = params_gradients(exchange->options.params),
                                       .first = first,
                                       .count = count,
                                       .wire = exchange->options.wire,
                                       .shards = exchange->options.shards,
                                       .parts = parts};
    start(exchange, &reduction);
}

/* Statistics count for as much as gradients: one number too few bits in them would stay. */
static void start_statistics(struct exchange *exchange)
{
    size_t count = params_statistic_elements(exchange->options.params);
    float *const *parts = compute_statistics(exchange->options.compute);
    if (!count)
        return;
    struct comm_reduction reduction = {.name = "statistics",
                                       .values = parts[0],
                                       .count = count,
                                       .shards = exchange->options.shards,
                                       .parts = parts};
    start(exchange, &reduction);
}

/* --- gradients of processors that are not alike ----------------------------------------------- */

static size_t plain_elements(const struct params *params)
{
    size_t count = 0;
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        if (!(range.flags & (PARAM_STATISTIC | PARAM_SPARSE)))
            count += (size_t)shape_count(&range.shape);
    }
    return count;
}

static int copy_plain(struct exchange *exchange, bool out, struct error *err)
{
    struct params *params = exchange->options.params;
    float *at = exchange->plain.data;
    for (int i = 0; i < params_count(params); i++) {
        struct param_range range = params_range(params, i);
        struct tensor tensor = {DTYPE_F32, range.shape, at};
        if (range.flags & (PARAM_STATISTIC | PARAM_SPARSE))
            continue;
        int status = out ? params_read_gradient(params, i, &tensor, err)
                         : params_write_gradient(params, i, &tensor, err);
        if (status < 0)
            return -1;
        at += shape_count(&range.shape);
    }
    return 0;
}

static void start_plain(struct exchange *exchange)
{
    if (copy_plain(exchange, true, &exchange->failure) < 0)
        return;
    struct comm_reduction reduction = {.name = "gradients in plain order",
                                       .values = exchange->plain.data,
                                       .count = plain_elements(exchange->options.params),
                                       .wire = exchange->options.wire};
    start(exchange, &reduction);
}

/* --- rows of tables --------------------------------------------------------------------------- */

static int grow(void **memory, size_t *bytes, size_t wanted, struct error *err)
{
    if (*bytes >= wanted)
        return 0;
    void *larger = memory_resize(*memory, wanted);
    if (!larger)
        return error_set(err, ERROR_MEMORY, "no memory for %zu bytes of rows", wanted);
    *memory = larger;
    *bytes = wanted;
    return 0;
}

static int pack_own(struct exchange *exchange, size_t *bytes, struct error *err)
{
    struct compute *compute = exchange->options.compute;
    size_t at = 0;
    *bytes = 0;
    for (int p = 0; p < compute_part_count(compute); p++)
        *bytes += rows_packed_bytes(compute_rows(compute, p));
    if (grow(&exchange->packed, &exchange->packed_bytes, *bytes, err) < 0)
        return -1;
    for (int p = 0; p < compute_part_count(compute); p++) {
        rows_pack(compute_rows(compute, p), (char *)exchange->packed + at);
        at += rows_packed_bytes(compute_rows(compute, p));
    }
    return 0;
}

/* How many bytes come is known only when they do not fit. */
static int gather(struct exchange *exchange, size_t bytes, struct error *err)
{
    struct error refused = {0};
    for (int try = 0; try < 2; try++) {
        if (comm_gather(exchange->options.comm, exchange->packed, bytes, exchange->gathered,
                        exchange->gathered_bytes, exchange->sizes, &refused) == 0)
            return 0;
        size_t sum = 0;
        for (int r = 0; r < exchange->ranks; r++)
            sum += exchange->sizes[r];
        if (refused.code != ERROR_MEMORY ||
            grow(&exchange->gathered, &exchange->gathered_bytes, 2 * sum, err) < 0)
            break;
    }
    return error_set(err, refused.code, "rows of tables: %s", refused.message);
}

static int unpack_all(struct exchange *exchange, struct error *err)
{
    const char *at = exchange->gathered;
    for (int r = 0; r < exchange->ranks; r++) {
        struct tree_node nodes[TREE_MAX_NODES];
        int count =
            tree_nodes(exchange->shards, tree_held(exchange->shards, exchange->ranks, r), nodes);
        const char *end = at + exchange->sizes[r];
        for (int n = 0; n < count; n++) {
            size_t used =
                rows_unpack(&exchange->leaves[nodes[n].first], at, (size_t)(end - at), err);
            if (!used)
                return error_set(err, ERROR_PEER, "rank %d sent no rows of tables", r);
            at += used;
        }
    }
    return 0;
}

static bool is_leaf(const struct exchange *exchange, struct tree_node node)
{
    for (int r = 0; r < exchange->ranks; r++) {
        struct tree_node nodes[TREE_MAX_NODES];
        int count =
            tree_nodes(exchange->shards, tree_held(exchange->shards, exchange->ranks, r), nodes);
        for (int n = 0; n < count; n++)
            if (nodes[n].first == node.first && nodes[n].end == node.end)
                return true;
    }
    return false;
}

static struct rows *add_rows(struct exchange *exchange, struct tree_node node, struct error *err)
{
    if (is_leaf(exchange, node))
        return &exchange->leaves[node.first];
    int cut = tree_cut(node);
    struct rows *lower = add_rows(exchange, (struct tree_node){node.first, cut}, err);
    struct rows *upper = add_rows(exchange, (struct tree_node){cut, node.end}, err);
    if (!lower || !upper || rows_add(lower, upper, &exchange->spare, err) < 0)
        return NULL;
    return lower;
}

static int exchange_tables(struct exchange *exchange, struct error *err)
{
    size_t bytes;
    exchange->sum = compute_rows(exchange->options.compute, 0);
    if (exchange->sum->table_count == 0 || exchange->ranks == 1)
        return 0;
    if (pack_own(exchange, &bytes, err) < 0 || gather(exchange, bytes, err) < 0 ||
        unpack_all(exchange, err) < 0)
        return -1;
    exchange->sum = add_rows(exchange, (struct tree_node){0, exchange->shards}, err);
    return exchange->sum ? 0 : -1;
}

const struct sparse_rows *exchange_rows(const struct exchange *exchange)
{
    return exchange->sum->tables;
}

/* --- the end of a step ------------------------------------------------------------------------ */

static void wait_for_all(struct exchange *exchange)
{
    while (exchange->waited_count < exchange->request_count && !exchange->failure.code)
        wait_for_next(exchange);
    exchange->sum_count = exchange->waited_count;
    exchange->request_count = exchange->waited_count = 0;
    exchange->hidden_seconds = 0;
    for (int i = 0; i < exchange->sum_count; i++) {
        const struct exchange_sum *sum = &exchange->sums[i];
        double end = sum->end < exchange->finishing ? sum->end : exchange->finishing;
        if (end > sum->start)
            exchange->hidden_seconds += end - sum->start;
    }
}

int exchange_finish(struct exchange *exchange, struct error *err)
{
    exchange->finishing = clock_seconds();
    if (exchange->options.plain)
        start_plain(exchange);
    start_statistics(exchange);
    if (exchange_tables(exchange, &exchange->failure) < 0 && !exchange->failure.code)
        error_set(&exchange->failure, ERROR_PEER, "rows of tables could not be exchanged");
    wait_for_all(exchange);
    if (!exchange->failure.code && exchange->options.plain)
        copy_plain(exchange, false, &exchange->failure);
    if (!exchange->failure.code)
        return 0;
    return error_set(err, exchange->failure.code, "%s", exchange->failure.message);
}

double exchange_hidden_seconds(const struct exchange *exchange)
{
    return exchange->hidden_seconds;
}

int exchange_sums(const struct exchange *exchange, const struct exchange_sum **out)
{
    *out = exchange->sums;
    return exchange->sum_count;
}

void exchange_commit_statistics(struct exchange *exchange)
{
    float *running = params_statistics(exchange->options.params);
    const float *sum = compute_statistics(exchange->options.compute)[0];
    float pieces = (float)exchange->options.pieces;
    for (size_t i = 0; i < params_statistic_elements(exchange->options.params); i++)
        running[i] = sum[i] / pieces;
}

/* --- how it went ------------------------------------------------------------------------------ */

int exchange_status(struct exchange *exchange, const struct rank_status *own,
                    struct rank_status *all, struct error *err)
{
    return comm_gather(exchange->options.comm, own, sizeof *own, all,
                       (size_t)exchange->ranks * sizeof *all, exchange->sizes, err);
}

int exchange_failure(struct exchange *exchange, const struct rank_status *all, struct error *own,
                     struct error *err)
{
    int first = 0;
    while (first < exchange->ranks && !all[first].failed)
        first++;
    struct error failure = *own;
    if (comm_broadcast(exchange->options.comm, &failure, sizeof failure, first, err) < 0)
        return -1;
    return error_set(err, failure.code, "rank %d: %s", first, failure.message);
}

/* --- making it -------------------------------------------------------------------------------- */

static int take_memory(struct exchange *exchange, struct error *err)
{
    int tables = compute_rows(exchange->options.compute, 0)->table_count;
    exchange->request_limit = params_count(exchange->options.params) + 2;
    exchange->requests = ARENA_ARRAY(exchange->arena, struct comm_request, exchange->request_limit);
    exchange->sums = ARENA_ARRAY(exchange->arena, struct exchange_sum, exchange->request_limit);
    exchange->names =
        arena_take(exchange->arena, (size_t)exchange->request_limit * sizeof *exchange->names);
    exchange->sizes = ARENA_ARRAY(exchange->arena, size_t, exchange->ranks);
    exchange->leaves = ARENA_ARRAY(exchange->arena, struct rows, exchange->shards);
    if (!exchange->requests || !exchange->sums || !exchange->names || !exchange->sizes ||
        !exchange->leaves)
        return error_set(err, ERROR_MEMORY, "no memory for the exchange between ranks");
    for (int i = 0; i < exchange->request_limit; i++)
        snprintf(exchange->names[i], NAME_BYTES, "bucket %d", i);
    for (int s = 0; s < exchange->shards; s++)
        if (rows_create(&exchange->leaves[s], tables, err) < 0)
            return -1;
    if (exchange->options.plain &&
        slab_create(plain_elements(exchange->options.params) * sizeof(float),
                    "gradients in plain order", &exchange->plain, err) < 0)
        return -1;
    return rows_create(&exchange->spare, tables, err);
}

int exchange_create(const struct exchange_options *options, struct exchange **out,
                    struct error *err)
{
    struct exchange *exchange = memory_allocate(sizeof *exchange);
    if (!exchange)
        return error_set(err, ERROR_MEMORY, "no memory for the exchange between ranks");
    exchange->options = *options;
    exchange->ranks = comm_size(options->comm);
    exchange->shards = options->shards ? options->shards : exchange->ranks;
    exchange->arena = arena_create();
    if (!exchange->arena || take_memory(exchange, err) < 0) {
        exchange_destroy(exchange);
        return err && err->code ? -1 : error_set(err, ERROR_MEMORY, "no memory for the exchange");
    }
    *out = exchange;
    return 0;
}

void exchange_destroy(struct exchange *exchange)
{
    if (!exchange)
        return;
    for (int s = 0; exchange->leaves && s < exchange->shards; s++)
        rows_release(&exchange->leaves[s]);
    rows_release(&exchange->spare);
    memory_free(exchange->packed);
    memory_free(exchange->gathered);
    slab_release(&exchange->plain);
    arena_destroy(exchange->arena);
    memory_free(exchange);
}
