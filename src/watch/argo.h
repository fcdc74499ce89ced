/* Progress for an Argo workflow, which reads the last line "N/M" of a file every 3 seconds; observer
 * of trainer events. */
#ifndef WATCH_ARGO_H
#define WATCH_ARGO_H

struct argo;
struct error;
struct spool;
struct train_event;

struct argo_options {
    const char *path;        /* ARGO_PROGRESS_FILE of the environment */
    struct spool *spool;     /* borrowed */
    double interval_seconds; /* between two lines; 0: one second */
    double (*now)(void);     /* NULL: the clock */
};

int argo_create(const struct argo_options *options, struct argo **out, struct error *err);
void argo_destroy(struct argo *argo); /* accepts NULL */
/* A train_observer; the context is the struct argo. Allocates nothing. */
void argo_observe(void *argo, const struct train_event *event);

#endif
