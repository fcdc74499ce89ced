/* What TensorBoard's event files say about this program's networks: the graph and the weights, in
 * the plain form that watch/ takes. */
#ifndef CLI_TENSORBOARD_H
#define CLI_TENSORBOARD_H

#include <stdint.h>

struct error;
struct events;
struct graph;
struct params;
struct spool;
struct tensorboard;

struct tensorboard_options {
    const char *directory;
    int64_t histogram_every;   /* steps; 0: none */
    const struct graph *graph; /* borrowed */
    struct params *params;     /* borrowed; laid out by a plan; read when a step is finished */
    struct spool *spool;       /* borrowed */
    int ranks;                 /* 0: one */
};

int tensorboard_create(const struct tensorboard_options *options, struct tensorboard **out,
                       struct error *err);
void tensorboard_destroy(struct tensorboard *tensorboard); /* accepts NULL */
/* The observer; owned by this. */
struct events *tensorboard_events(struct tensorboard *tensorboard);

#endif
