/* The models and versions on disk, and those that are served: DIR/<number>/ appears, is loaded and
 * warmed beside the old one, and takes its place between two requests. A thread of its own looks at
 * the directories; nobody waits for it. */
#ifndef SERVE_REPOSITORY_H
#define SERVE_REPOSITORY_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/config.h"
#include "serve/status.h"

struct arena;
struct error;
struct model_calls;
struct repository;
struct servable;

/* As TF Serving's ModelVersionStatus numbers them. */
enum version_state {
    VERSION_UNKNOWN = 0,
    VERSION_START = 10,
    VERSION_LOADING = 20,
    VERSION_AVAILABLE = 30,
    VERSION_UNLOADING = 40,
    VERSION_END = 50,
};
const char *version_state_name(enum version_state state); /* "AVAILABLE" */

struct repository_settings {
    double poll_seconds;  /* between two looks at the directories; 0: one look, at the start */
    int load_retries;     /* after the first failure of a version */
    double retry_seconds; /* between them; a version whose files change is tried again at once */
    bool labels_ahead;    /* labels may name versions that are not loaded yet */
    bool warm_up;         /* replay assets.extra/tf_serving_warmup_requests; zeros always */
    int workers, threads; /* see servable.h */
    int max_batch;
    const struct model_calls *calls; /* NULL: model_calls_imported */
    /* Told on the repository's thread when a version got another state; may be NULL. */
    void (*changed)(void *context, const char *model, int64_t version, enum version_state state,
                    const char *message);
    void *context;
};

/* Copies what it keeps. */
int repository_create(const struct repository_settings *settings, struct repository **out,
                      struct error *err);
/* Waits for a load that is under way, lets go of all versions (those still held stay whole until
 * they are released). Accepts NULL. */
void repository_destroy(struct repository *repository);

/* What is served from now on: this and only this; models it does not name are let go. A model with
 * another base path is another one: its versions are loaded beside the old ones, which answer until
 * then. After the first configuration a new path must exist (ERROR_ABSENT). Labels that name versions
 * not loaded are refused unless labels_ahead (a label in use never moves to one), and those of
 * versions that answer but that the new policy lets go always. Returns at once; the thread does the rest. From any thread. */
int repository_configure(struct repository *repository, const struct model_list *models,
                         struct error *err);
/* Until every model has a version available or none left to try, or `seconds` passed. True when all
 * have one. */
bool repository_wait(struct repository *repository, double seconds);
/* Looks at the directories now and does what follows; for tests without a clock. Only while no
 * thread runs (repository_start was not called). */
void repository_look(struct repository *repository);
int repository_start(struct repository *repository, struct error *err); /* the thread */

/* Who is asked: a version, else a label's, else the newest. */
struct serve_target {
    const char *model;
    int64_t version;   /* < 0: none given */
    const char *label; /* NULL or "": none given */
};
#define SERVE_NO_VERSION (-1)

/* The version that may be asked, held: it stays whole until servable_release. NULL: none, with
 * SERVE_NOT_FOUND (or SERVE_INVALID: version and label, SERVE_UNAVAILABLE: still loading) and what is
 * there instead. From any thread; waits for nothing that takes long. */
struct servable *repository_hold(struct repository *repository, const struct serve_target *target,
                                 enum serve_status *status, struct error *err);

struct version_status {
    int64_t version;
    enum version_state state;
    enum serve_status code; /* SERVE_OK, or why it is not available */
    const char *message;    /* "" when nothing is wrong */
    const char *labels;     /* separated by blanks; "" */
    double loaded_seconds;  /* how long loading took; 0: not loaded */
};
struct model_status {
    const char *name, *base_path;
    struct version_status *versions; /* newest first */
    int count;
};
/* All models in the arena, in order of configuration; returns their number, or -1 when memory is
 * short. */
int repository_status(struct repository *repository, struct arena *arena,
                      struct model_status **out);
/* The versions of one model (of one version, when the target has it): SERVE_NOT_FOUND when there is
 * none. */
enum serve_status repository_model_status(struct repository *repository,
                                          const struct serve_target *target, struct arena *arena,
                                          struct model_status *out, struct error *err);
/* Every configured model has a version available. */
bool repository_ready(struct repository *repository);

#endif
