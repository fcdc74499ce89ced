/* One picture of all ranks: they record the same steps, and when those are over the first gets what
 * the others have. Every rank makes these calls at the same place. */
#ifndef CLI_TRACE_RANKS_H
#define CLI_TRACE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

struct comm;
struct error;
struct trace;

/* Which steps are recorded, if any, and when by rank 0's clock. */
struct trace_steps {
    bool wanted;
    int64_t first, count;
    double origin; /* the picture's time begins here */
};

/* Rank 0's, to all. */
int trace_ranks_agree(struct comm *comm, struct trace_steps *steps, struct error *err);
/* Between two steps, when nobody adds to the trace: puts the others' into that of rank 0. Fails only
 * when the group is over; a rank that is short of memory is missing in the picture. */
int trace_ranks_merge(struct comm *comm, struct trace *trace, const struct trace_steps *steps,
                      struct error *err);
/* "rank 2 on HOST" */
void trace_ranks_name(const struct comm *comm, char *text, int bytes);

#endif
