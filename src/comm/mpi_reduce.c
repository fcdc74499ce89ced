/* Sums over the ranks. In any order: MPI_Allreduce. In a fixed order, with halves on the wire, or
 * between a few hosts of one rank each, a rank adds up one slice of the numbers by itself, in the
 * order of the tree, from the parts that the others send it, and then gives its slice to all: as many
 * bytes as the best MPI_Allreduce, and it can wait asleep, which MPI_Allreduce cannot. */
#include <assert.h>
#include <time.h>

#include "base/clones.h"
#include "base/memory.h"
#include "comm/half.h"
#include "comm/mpi_internal.h"
#include "comm/tree.h"

enum { SLICE_ALIGN = 16, PART_TAG = 1, SLICE_TAG = 2 };
/* Of more than these, everyone sending to everyone at once would be too much for a switch. */
enum { MANY_RANKS = 16 };
/* So many numbers at a time. Counts of the library are int, and memory for parts of others need not be
 * larger than 64 MiB. Inside a host pieces are smaller, and stay in the caches: MPI_Allreduce takes
 * memory for them, and gives it back, in each call, which is most of its time, and a quarter of it with
 * such a piece (docs/performance.md); and what is added here is not read from memory. */
enum { PIECE_FLOATS = 1 << 24, NEAR_PIECE_FLOATS = 1 << 18 };

void *scratch_take(struct scratch *scratch, size_t bytes)
{
    if (scratch->bytes >= bytes)
        return scratch->data;
    void *larger = memory_resize(scratch->data, bytes);
    if (larger)
        *scratch = (struct scratch){larger, bytes};
    return larger;
}

void mpi_reducer_release(struct mpi_reducer *reducer)
{
    memory_free(reducer->folding.received.data);
    memory_free(reducer->folding.packed.data);
    memory_free(reducer->folding.leaves.data);
    memory_free(reducer->folding.requests.data);
}

/* A node that some rank sends: where this rank has its slice of it. */
struct leaf {
    struct tree_node node;
    float *values;
};

/* One sum while it is made. */
struct fold {
    const struct mpi_reducer *reducer;
    const struct comm_reduction *reduction;
    float *const *parts;
    int shards;
    bool half;
    size_t own_count;    /* floats of this rank's slice */
    struct leaf *leaves; /* by first shard; those of no node have end 0 */
    float *received;
    uint16_t *packed_in, *packed_out;
    MPI_Request *requests;
    int request_count;
};

static size_t slice_first(const struct fold *fold, int rank)
{
    size_t count = fold->reduction->count;
    if (rank == fold->reducer->size)
        return count;
    size_t share = (count / (size_t)fold->reducer->size + SLICE_ALIGN - 1) / SLICE_ALIGN;
    size_t first = share * SLICE_ALIGN * (size_t)rank;
    return first < count ? first : count;
}

static size_t slice_count(const struct fold *fold, int rank)
{
    return slice_first(fold, rank + 1) - slice_first(fold, rank);
}

static int nodes_of(const struct fold *fold, int rank, struct tree_node nodes[TREE_MAX_NODES])
{
    return tree_nodes(fold->shards, tree_held(fold->shards, fold->reducer->size, rank), nodes);
}

static int take_memory(struct fold *fold, struct mpi_folding *memory)
{
    struct tree_node nodes[TREE_MAX_NODES];
    int ranks = fold->reducer->size, own = nodes_of(fold, fold->reducer->rank, nodes), others = 0;
    for (int r = 0; r < ranks; r++)
        others += r == fold->reducer->rank ? 0 : nodes_of(fold, r, nodes);
    size_t in = (size_t)others * fold->own_count, out = (size_t)own * fold->reduction->count;
    fold->leaves = scratch_take(&memory->leaves, (size_t)fold->shards * sizeof *fold->leaves);
    fold->received = scratch_take(&memory->received, (in + 1) * sizeof(float));
    fold->requests =
        scratch_take(&memory->requests, (size_t)(others + own * ranks) * sizeof *fold->requests);
    /* First what comes, then what goes; the whole result goes the same way. */
    size_t gathered = fold->reduction->count;
    size_t halves = in + (out > gathered ? out : gathered);
    fold->packed_in =
        fold->half ? scratch_take(&memory->packed, (halves + 1) * sizeof(uint16_t)) : NULL;
    fold->packed_out = fold->half && fold->packed_in ? fold->packed_in + in : NULL;
    bool whole =
        fold->leaves && fold->received && fold->requests && (!fold->half || fold->packed_in);
    return whole ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int receive(struct fold *fold, void *to, size_t count, int from, int tag)
{
    return MPI_Irecv(to, (int)count, fold->half ? MPI_UINT16_T : MPI_FLOAT, from, tag,
                     fold->reducer->group, &fold->requests[fold->request_count++]);
}

static int send(struct fold *fold, const void *from, size_t count, int to, int tag)
{
    return MPI_Isend(from, (int)count, fold->half ? MPI_UINT16_T : MPI_FLOAT, to, tag,
                     fold->reducer->group, &fold->requests[fold->request_count++]);
}

/* Over a network most of a sum is waiting, and those who compute want the core: asleep, but awake
 * often enough that no socket fills up or runs dry. Each look moves a fragment of 128 KiB at most. */
static int wait_for_all(struct fold *fold)
{
    enum { LOOKS = 4 };
    static const struct timespec nap = {.tv_nsec = 100000};
    int done = 0, code = MPI_SUCCESS, count = fold->request_count;
    fold->request_count = 0;
    if (!fold->reducer->networked)
        return MPI_Waitall(count, fold->requests, MPI_STATUSES_IGNORE);
    for (int look = 1; code == MPI_SUCCESS && !done; look++) {
        code = MPI_Testall(count, fold->requests, &done, MPI_STATUSES_IGNORE);
        if (!done && look % LOOKS == 0)
            nanosleep(&nap, NULL);
    }
    return code;
}

/* Parts of this rank's slice, from all others. */
static int start_receiving(struct fold *fold)
{
    size_t at = 0;
    memset(fold->leaves, 0, (size_t)fold->shards * sizeof *fold->leaves);
    for (int r = 0; r < fold->reducer->size; r++) {
        struct tree_node nodes[TREE_MAX_NODES];
        int count = nodes_of(fold, r, nodes);
        bool own = r == fold->reducer->rank;
        for (int n = 0; n < count; n++) {
            struct leaf *leaf = &fold->leaves[nodes[n].first];
            leaf->node = nodes[n];
            if (own) {
                leaf->values = fold->parts[n] + fold->reduction->first + slice_first(fold, r);
                continue;
            }
            leaf->values = fold->received + at;
            void *to = fold->half ? (void *)(fold->packed_in + at) : (void *)leaf->values;
            int code = receive(fold, to, fold->own_count, r, PART_TAG);
            if (code != MPI_SUCCESS)
                return code;
            at += fold->own_count;
        }
    }
    return MPI_SUCCESS;
}

static int send_part(struct fold *fold, int to, const float *part, uint16_t *packed)
{
    size_t first = slice_first(fold, to), count = slice_count(fold, to);
    const void *from = part + first;
    if (fold->half) {
        half_pack(part + first, packed + first, count);
        from = packed + first;
    }
    return send(fold, from, count, to, PART_TAG);
}

/* Each rank begins with its neighbour, so that not all send to the same one at once. */
static int start_sending(struct fold *fold)
{
    struct tree_node nodes[TREE_MAX_NODES];
    int rank = fold->reducer->rank, ranks = fold->reducer->size;
    int count = nodes_of(fold, rank, nodes);
    for (int distance = 1; distance < ranks; distance++)
        for (int n = 0; n < count; n++) {
            uint16_t *packed =
                fold->half ? fold->packed_out + (size_t)n * fold->reduction->count : NULL;
            const float *part = fold->parts[n] + fold->reduction->first;
            int code = send_part(fold, (rank + distance) % ranks, part, packed);
            if (code != MPI_SUCCESS)
                return code;
        }
    return MPI_SUCCESS;
}

KERNEL_CLONES static void add(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* The sum over a node, in the memory of its first leaf. */
static float *sum(struct fold *fold, struct tree_node node)
{
    const struct leaf *leaf = &fold->leaves[node.first];
    if (leaf->node.end == node.end)
        return leaf->values;
    int cut = tree_cut(node);
    float *lower = sum(fold, (struct tree_node){node.first, cut});
    const float *upper = sum(fold, (struct tree_node){cut, node.end});
    add(lower, upper, fold->own_count);
    return lower;
}

/* Everyone's slice to everyone, in `all`, where this rank's is already. */
static int exchange_slices(struct fold *fold, void *all)
{
    int rank = fold->reducer->rank, ranks = fold->reducer->size, code = MPI_SUCCESS;
    size_t each = fold->half ? sizeof(uint16_t) : sizeof(float);
    char *bytes = all;
    for (int r = 0; code == MPI_SUCCESS && r < ranks; r++)
        if (r != rank)
            code = receive(fold, bytes + each * slice_first(fold, r), slice_count(fold, r), r,
                           SLICE_TAG);
    for (int distance = 1; code == MPI_SUCCESS && distance < ranks; distance++)
        code = send(fold, bytes + each * slice_first(fold, rank), fold->own_count,
                    (rank + distance) % ranks, SLICE_TAG);
    return code == MPI_SUCCESS ? wait_for_all(fold) : code;
}

static int give_to_all(struct fold *fold, const float *own)
{
    float *values = fold->reduction->values + fold->reduction->first;
    size_t first = slice_first(fold, fold->reducer->rank);
    if (!fold->half) {
        if (own != values + first)
            memmove(values + first, own, fold->own_count * sizeof *own);
        return exchange_slices(fold, values);
    }
    /* This rank, too, goes on with the rounded numbers. */
    half_pack(own, fold->packed_out + first, fold->own_count);
    int code = exchange_slices(fold, fold->packed_out);
    half_unpack(fold->packed_out, values, fold->reduction->count);
    return code;
}

static int fold(struct mpi_reducer *reducer, const struct comm_reduction *reduction)
{
    struct fold fold = {.reducer = reducer,
                        .reduction = reduction,
                        .parts = reduction->shards ? reduction->parts
                                                   : (float *const *)&reduction->values,
                        .shards = reduction->shards ? reduction->shards : reducer->size,
                        .half = reduction->wire == COMM_WIRE_HALF};
    fold.own_count = slice_count(&fold, reducer->rank);
    int code = take_memory(&fold, &reducer->folding);
    if (code == MPI_SUCCESS)
        code = start_receiving(&fold);
    if (code == MPI_SUCCESS)
        code = start_sending(&fold);
    if (code == MPI_SUCCESS)
        code = wait_for_all(&fold);
    if (code != MPI_SUCCESS)
        return code;
    if (fold.half)
        half_unpack(fold.packed_in, fold.received, fold.own_count * (size_t)(reducer->size - 1));
    return give_to_all(&fold, sum(&fold, (struct tree_node){0, fold.shards}));
}

static bool is_folded(const struct mpi_reducer *reducer, const struct comm_reduction *reduction)
{
    return reduction->shards || reduction->wire == COMM_WIRE_HALF ||
           (reducer->spread && reducer->size <= MANY_RANKS);
}

bool mpi_reduce_sleeps(const struct mpi_reducer *reducer, const struct comm_reduction *reduction)
{
    return reducer->networked && is_folded(reducer, reduction);
}

static int reduce_piece(struct mpi_reducer *reducer, const struct comm_reduction *piece)
{
    if (is_folded(reducer, piece))
        return fold(reducer, piece);
    return MPI_Allreduce(MPI_IN_PLACE, piece->values + piece->first, (int)piece->count, MPI_FLOAT,
                         MPI_SUM, reducer->group);
}

int mpi_reduce(struct mpi_reducer *reducer, const struct comm_reduction *reduction)
{
    assert(!reduction->shards || reduction->wire == COMM_WIRE_FLOAT);
    int code = MPI_SUCCESS;
    size_t most = reducer->networked ? PIECE_FLOATS : NEAR_PIECE_FLOATS;
    for (size_t at = 0; code == MPI_SUCCESS && at < reduction->count; at += most) {
        struct comm_reduction piece = *reduction;
        size_t left = reduction->count - at;
        piece.first += at;
        piece.count = left < most ? left : most;
        code = reduce_piece(reducer, &piece);
    }
    return code;
}
