/* One checkpoint: a directory with TensorFlow's tensor bundle (model.index and
 * model.data-00000-of-00001) and manifest.json. It appears under its name by one rename after
 * everything in it was flushed, so what has the name is whole, unless the disk lost it later; the
 * checksums tell. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include <limits.h>

#include "store/manifest.h"
#include "tensor/tensor.h"

struct bundle;
struct params;

/* Where the tensors of a checkpoint come from: their count, and each in turn with plain numbers
 * that stay valid until the next call. */
struct checkpoint_tensors {
    int count;
    int (*get)(void *context, int index, const char **name, struct tensor *out, struct error *err);
    void *context;
};

/* The name of optimizer slot `slot` of a parameter and the value it starts with; NULL when the
 * parameter's rule has no such slot. */
struct checkpoint_slots {
    const char *(*describe)(void *context, int param, int slot, float *initial);
    void *context;
};

/* Writes DIRECTORY/step-N with N = manifest->step, replacing one of that name; its sizes and
 * checksums are filled in here. Nothing is left behind when it fails. */
int checkpoint_write(const char *directory, const struct manifest *manifest,
                     const struct checkpoint_tensors *tensors, char path[PATH_MAX],
                     struct error *err);

/* Looks at the manifest and at the presence and sizes of the files. */
int checkpoint_read_manifest(const char *path, struct arena *arena, struct manifest *out,
                             struct error *err);
/* Reads every byte; fails with what is wrong, and where. */
int checkpoint_verify(const char *path, struct error *err);
/* Weights and statistics, and with `slots` what the optimizer keeps, too. Every parameter must be
 * there with its shape, and nothing else. When it fails halfway the numbers are of no use. */
int checkpoint_load(const char *path, struct params *params, const struct checkpoint_slots *slots,
                    struct error *err);
int checkpoint_open_bundle(const char *path, struct bundle **out, struct error *err);

/* Tensors that are neither weights nor statistics: "optimizer/NAME/SLOT", and the step, which
 * TensorFlow's tools look for. */
extern const char checkpoint_step_tensor[];      /* "global_step" */
extern const char checkpoint_optimizer_folder[]; /* "optimizer/" */

#endif
