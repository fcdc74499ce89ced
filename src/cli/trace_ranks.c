#include "cli/trace_ranks.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/trace.h"
#include "comm/comm.h"

enum {
    TRIES = 8,     /* round trips to each host */
    DETAILED = 64, /* more ranks than that send no single operations */
    NAME_BYTES = 320,
    PIECE_BYTES = 1 << 16,
};

int trace_ranks_agree(struct comm *comm, struct trace_steps *steps, struct error *err)
{
    return comm_broadcast(comm, steps, sizeof *steps, 0, err);
}

void trace_ranks_name(const struct comm *comm, char *text, int bytes)
{
    int rank = comm_rank(comm);
    snprintf(text, (size_t)bytes, "rank %d on %s", rank, comm_host(comm, rank));
}

/* --- clocks ----------------------------------------------------------------------------------- */

static bool same_host(const struct comm *comm, int a, int b)
{
    return strcmp(comm_host(comm, a), comm_host(comm, b)) == 0;
}

static bool first_of_its_host(const struct comm *comm, int rank)
{
    for (int other = 0; other < rank; other++)
        if (same_host(comm, other, rank))
            return false;
    return true;
}

/* How far `rank`'s clock is ahead of that of rank 0, which sends a byte and gets the time back, both
 * as broadcasts, for all ranks have to make the same calls. The answer was given between the two, so
 * in the middle but for half of the round trip; the fastest of some tells best. What is less than
 * that is no difference: then it is the same clock under two names. */
static int compare_clocks(struct comm *comm, int rank, double *ahead, struct error *err)
{
    double fastest = INFINITY;
    *ahead = 0;
    for (int try = 0; try < TRIES; try++) {
        char question = 0;
        double sent = clock_seconds();
        if (comm_broadcast(comm, &question, sizeof question, 0, err) < 0)
            return -1;
        double answer = clock_seconds();
        if (comm_broadcast(comm, &answer, sizeof answer, rank, err) < 0)
            return -1;
        double trip = clock_seconds() - sent;
        if (trip < fastest) {
            fastest = trip;
            *ahead = answer - sent - trip / 2;
        }
    }
    if (fabs(*ahead) <= fastest / 2)
        *ahead = 0;
    return comm_broadcast(comm, ahead, sizeof *ahead, 0, err); /* others measured nothing */
}

/* Ranks of one host have one clock. */
static int own_clock(struct comm *comm, double *ahead, struct error *err)
{
    *ahead = 0;
    for (int rank = 1; rank < comm_size(comm); rank++) {
        double found;
        if (!first_of_its_host(comm, rank))
            continue;
        if (compare_clocks(comm, rank, &found, err) < 0)
            return -1;
        if (same_host(comm, rank, comm_rank(comm)))
            *ahead = found;
    }
    return 0;
}

/* --- spans ------------------------------------------------------------------------------------ */

static bool is_no_operation(const struct trace_span *span)
{
    return !strcmp(span->category, "training") || !strcmp(span->category, "comm");
}

/* Nothing when memory is short. */
static void make_text(const struct comm *comm, const struct trace *trace, struct strbuf *out)
{
    char name[NAME_BYTES];
    struct error err = {0};
    trace_ranks_name(comm, name, sizeof name);
    if (trace_text(trace, name, comm_size(comm) > DETAILED ? is_no_operation : NULL, out, &err) ==
        0)
        return;
    log_line(LOG_WARNING, "--trace: %s is left out: %s", name, err.message);
    strbuf_release(out);
    strbuf_init(out);
}

/* From `rank` to all, of whom only the first keeps it, piece by piece: that needs no memory, so no
 * rank can fail to take its part. */
static int pass_on(struct comm *comm, int rank, const struct strbuf *own, struct strbuf *kept,
                   struct error *err)
{
    char piece[PIECE_BYTES];
    uint64_t bytes = own->length;
    if (comm_broadcast(comm, &bytes, sizeof bytes, rank, err) < 0)
        return -1;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t count = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        if (comm_rank(comm) == rank)
            memcpy(piece, own->text + at, count);
        if (comm_broadcast(comm, piece, count, rank, err) < 0)
            return -1;
        if (comm_rank(comm) == 0)
            strbuf_add_bytes(kept, piece, count);
    }
    return 0;
}

/* Rank 0's, with what `rank` sent. */
static void include(struct trace *trace, int rank, struct strbuf *text)
{
    struct error err = {0};
    if (text->failed || (text->length && trace_include(trace, text->text, text->length, &err) < 0))
        log_line(LOG_WARNING, "--trace: rank %d is left out: no memory for it", rank);
    strbuf_release(text);
    strbuf_init(text);
}

static int merge_texts(struct comm *comm, struct trace *trace, struct error *err)
{
    struct strbuf own, kept;
    int status = 0;
    strbuf_init(&own);
    strbuf_init(&kept);
    if (comm_rank(comm) > 0)
        make_text(comm, trace, &own);
    for (int rank = 1; status == 0 && rank < comm_size(comm); rank++) {
        status = pass_on(comm, rank, &own, &kept, err);
        include(trace, rank, &kept);
    }
    strbuf_release(&own);
    strbuf_release(&kept);
    return status;
}

int trace_ranks_merge(struct comm *comm, struct trace *trace, const struct trace_steps *steps,
                      struct error *err)
{
    double ahead;
    if (own_clock(comm, &ahead, err) < 0)
        return -1;
    trace_set_place(trace, comm_rank(comm) + 1, steps->origin + ahead);
    return merge_texts(comm, trace, err);
}
