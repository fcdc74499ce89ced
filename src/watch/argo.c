#include "watch/argo.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer.h"
#include "watch/spool.h"

struct argo {
    struct argo_options options;
    int file;     /* of the spool */
    double told;  /* when */
    int64_t step; /* the last that was told */
};

int argo_create(const struct argo_options *options, struct argo **out, struct error *err)
{
    struct argo *argo = memory_allocate(sizeof *argo);
    if (!argo)
        return error_set(err, ERROR_MEMORY, "no memory for the progress of the workflow");
    argo->options = *options;
    if (!argo->options.interval_seconds)
        argo->options.interval_seconds = 1;
    if (!argo->options.now)
        argo->options.now = clock_seconds;
    argo->file = spool_replace(options->spool, options->path, err);
    if (argo->file < 0) {
        argo_destroy(argo);
        return -1;
    }
    *out = argo;
    return 0;
}

void argo_destroy(struct argo *argo)
{
    memory_free(argo);
}

/* Argo takes 0 <= N <= M and 0 < M only. */
static void tell(struct argo *argo, const struct train_event *event, double now)
{
    char line[64];
    if (event->total < 1)
        return;
    int length = snprintf(line, sizeof line, "%" PRId64 "/%" PRId64 "\n",
                          event->step < event->total ? event->step : event->total, event->total);
    spool_write(argo->options.spool, argo->file, &(struct spool_part){line, (size_t)length}, 1);
    argo->told = now;
    argo->step = event->step;
}

void argo_observe(void *context, const struct train_event *event)
{
    struct argo *argo = context;
    double now;
    switch (event->kind) {
    case TRAIN_STARTED:
        tell(argo, event, argo->options.now());
        break;
    case TRAIN_STEP:
        now = argo->options.now();
        if (event->step >= event->total || now - argo->told >= argo->options.interval_seconds)
            tell(argo, event, now);
        break;
    case TRAIN_FINISHED:
        if (event->step != argo->step)
            tell(argo, event, argo->options.now());
        break;
    case TRAIN_EVALUATED:
    case TRAIN_SAVED:
        break;
    }
}
