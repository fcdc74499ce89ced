/* What a checkpoint says about itself, as JSON beside its tensors: which run it belongs to, how far
 * that run was, and what its other files must look like. The text carries its own checksum, so a
 * manifest that was torn or edited is not taken for a whole one. */
#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

/* One thing that the run was told, in words. A run that resumes compares them with its own. */
struct manifest_setting {
    const char *name, *value;
};

struct manifest {
    const char *version, *model;
    int64_t step, goal; /* finished steps; where the run ends */
    int64_t origin;     /* where it began: 0, or the goal of a run that this one adds steps to */
    bool finished;      /* nothing is left to do: the goal was reached, and the last evaluation */
    int64_t steps_per_epoch;
    int64_t epoch, epoch_step; /* where the data goes on: follows from the three above */
    uint64_t fingerprint;      /* of the plan: kernels and layouts */
    int64_t bucket_bytes;      /* in which several ranks added gradients; 0: not settled */
    double saved_at;           /* seconds since 1970 */
    bool evaluated;            /* after this very step: */
    double loss, accuracy;     /* of that evaluation; may be NaN */
    const struct manifest_setting *settings;
    int setting_count;
    /* Of the bundle's files: */
    uint64_t index_bytes, data_bytes;
    uint32_t index_crc;
};

enum { MANIFEST_MOST_BYTES = 1 << 20 };

/* The text, NUL-terminated; the caller frees it with memory_free. */
int manifest_compose(const struct manifest *manifest, char **out, struct error *err);
/* Trusts nothing. Texts live in `arena`; `name` goes into messages. */
int manifest_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
                   struct manifest *out, struct error *err);

/* The setting's value, or NULL. */
const char *manifest_setting(const struct manifest *manifest, const char *name);
/* Greater is better: the accuracy, or where there is none the negative loss; NaN when it was not
 * evaluated. */
double manifest_score(const struct manifest *manifest);

#endif
