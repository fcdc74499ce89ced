/* What matters for speed about the machine this process runs on, and what would make it faster. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/threads.h"

struct machine {
    struct processor processor;
    int threads; /* that training will use */
    int numa_nodes;
    const char *instruction_set;                    /* of the kernel library; borrowed */
    size_t memory_total, memory_limit, memory_free; /* bytes; limit: the cgroup's, or total */
    int cgroup_version;                             /* 0: none */
    char huge_pages[16];                     /* always, madvise, never, or empty: not known */
    char governor[24], frequency_driver[24]; /* of the clock frequency; or empty */
    double load;                             /* processes that wanted to run, mean over a minute */
    bool slow_build;                         /* with sanitizers or without optimisation */
};

void machine_describe(struct machine *out);

/* One thing that slows training here, and what to do about it. */
struct advice {
    char problem[192];
    char remedy[192];
};
enum { ADVICE_MAX = 24 };

/* Fills `out`, most important first; returns how many. A pure function of the machine and of the
 * variables that `environment` finds (getenv, or a test's own). */
int machine_advise(const struct machine *machine, char *(*environment)(const char *name),
                   struct advice out[ADVICE_MAX]);

#endif
