/* One training step of many ranks as a discrete-event model: computation makes gradients final one
 * after the other, one thread beside it adds them up over the ranks, bucket by bucket, and where the
 * two share cores each slows the other down. */
#ifndef PREDICT_STEP_H
#define PREDICT_STEP_H

#include <stddef.h>

#include "predict/network.h"

/* A gradient and the seconds since the beginning of the step when it is final. */
struct step_gradient {
    double bytes, seconds;
};

/* One rank's step, as measured. */
struct step_work {
    struct step_gradient *gradients; /* in the order in which they become final */
    int count;
    double compute; /* seconds to the end of the backward pass; input included */
    double update;
    double statistic_bytes; /* summed at the end of the backward pass */
    double row_bytes;       /* of tables, gathered after that */
};

struct step_sharing {
    double compute_loss; /* part of its speed that computation loses while ranks talk beside it */
    double talk_loss;    /* and what talking loses */
    double talk_limit;   /* bytes a second that one rank gets through its sockets beside the
                          * computation: a slow link is full all the same; 0: as many as alone */
};

struct step_times {
    double step;
    double talk;    /* that reductions take without any computation */
    double exposed; /* from the end of the computation to the update */
    double hidden;  /* of the reductions, beside the computation */
    int buckets;
};

struct step_setting {
    const struct network *network;
    const struct group *group;
    struct step_sharing sharing;
    double bucket_bytes; /* a bucket ends with the gradient that reaches it; 0: one bucket */
    bool half;           /* gradients travel as halves */
    double slowest;      /* the slowest rank's computation, as a multiple of the measured */
};

void step_simulate(const struct step_work *work, const struct step_setting *setting,
                   struct step_times *out);

#endif
