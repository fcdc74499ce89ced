/* What the user wants run: the values of the parameters of one kind, from flags, a file or the
 * environment. */
#ifndef K8S_DEPLOYMENT_H
#define K8S_DEPLOYMENT_H

#include <stddef.h>
#include <stdint.h>

#include "k8s/kind.h"

struct arena;
struct error;
struct strbuf;

/* Later ones win. */
enum deployment_source {
    FROM_TABLE,
    FROM_ENVIRONMENT,
    FROM_FILE,
    FROM_FLAG,
};

struct deployment {
    const struct kind *kind;
    const char *values[PARAMETER_COUNT]; /* never NULL; borrowed or in the arena */
    unsigned char sources[PARAMETER_COUNT];
    bool package; /* for a package, in which values are set later: placeholders are fine */
};

/* The kind's defaults. */
void deployment_init(struct deployment *deployment, const struct kind *kind);
/* "KEY=VALUE", as after -p. The value is copied into `memory`. Fails with ERROR_USAGE and the
 * nearest name when the kind has no such parameter. */
int deployment_set(struct deployment *deployment, const char *assignment,
                   enum deployment_source source, struct arena *memory, struct error *err);
/* Parameters that the environment names as the kind spells them, and that nobody gave yet. */
int deployment_set_environment(struct deployment *deployment,
                               char *(*environment)(const char *name), struct arena *memory,
                               struct error *err);
/* A parameter file: `kind: NAME` and a map `parameters`. Starts the deployment. */
int deployment_read(struct deployment *deployment, const char *text, size_t bytes,
                    struct arena *memory, struct error *err);
/* Such a file for a kind, every parameter with its default and a comment; the other way round. */
int deployment_write(const struct deployment *deployment, struct strbuf *out, struct error *err);

/* Values that nobody gave and that follow from others (name, program, slots) are filled in, and
 * everything is checked: each value by its type, and the kind's contradictions. Call once, before
 * rendering. Derived values are made in `memory`. */
int deployment_finish(struct deployment *deployment, struct arena *memory, struct error *err);
/* What is allowed but should be known, one sentence each; NULL behind the last. */
const char *deployment_warning(const struct deployment *deployment, int index);

bool deployment_gave(const struct deployment *deployment, enum parameter parameter);
const char *deployment_text(const struct deployment *deployment, enum parameter parameter);
int64_t deployment_integer(const struct deployment *deployment, enum parameter parameter);
bool deployment_flag(const struct deployment *deployment, enum parameter parameter);
bool deployment_is(const struct deployment *deployment, enum parameter parameter, const char *word);
/* The value that names the objects. */
const char *deployment_name(const struct deployment *deployment);

/* Is our program in the image, and are workers reached by its agents? */
bool deployment_runs_lockstep(const struct deployment *deployment);
bool deployment_uses_agents(const struct deployment *deployment);

/* Appends `pattern` with every ${PARAMETER} replaced by its value; ${SELF} is the
 * one that names the objects. */
void deployment_expand(const struct deployment *deployment, const char *pattern,
                       struct strbuf *out);

#endif
