/* What the repository's files share: what is known of models and versions, and who may touch it. */
#ifndef SERVE_REPOSITORY_INTERNAL_H
#define SERVE_REPOSITORY_INTERNAL_H

#include <pthread.h>

#include "base/error.h"
#include "serve/repository.h"

struct version {
    struct version *next; /* the next older */
    int64_t number;
    enum version_state state;
    enum serve_status code;
    char message[sizeof((struct error *)0)->message];
    struct servable *servable; /* held while VERSION_AVAILABLE, else NULL */
    bool former; /* read from a path that the model had before: answers until another is there */
    double loaded_seconds;
    /* The thread's alone: */
    uint64_t stamp;     /* of its files when they were last looked at */
    uint64_t tried;     /* and when they were last read */
    bool seen, present; /* looked at before; there in this look */
    int failures;
    double next_try;  /* clock_seconds() */
    char base_path[]; /* the model's when it was found */
};

struct model {
    struct model *next;
    struct arena *arena; /* of the configuration */
    struct model_config config;
    struct version *versions; /* newest first */
    bool looked, complained;  /* the thread's: at its directory; that it cannot be read */
};

struct repository {
    struct repository_settings settings;
    pthread_mutex_t lock; /* guards all below and what they point to, but for what is the thread's;
                             * held for a few instructions, never while a model is read */
    pthread_cond_t changed; /* broadcast: a version has another state, a look is over, work to do */
    struct model *models;   /* in order of configuration; only the thread changes the list */
    struct model *wanted;   /* the next configuration, until the thread takes it; or NULL */
    bool reconfigure;       /* there is one, perhaps of no models */
    uint64_t looks, configured; /* looks done; the look after which a configuration is in force */
    bool ending, started;
    pthread_t thread;
};

void model_destroy(struct model *model);
struct model *repository_find(const struct repository *repository, const char *name);

#endif
