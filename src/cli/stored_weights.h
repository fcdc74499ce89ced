/* What `train` left behind, whichever form it has: a checkpoint, a directory of them, or
 * weights.safetensors. */
#ifndef CLI_STORED_WEIGHTS_H
#define CLI_STORED_WEIGHTS_H

struct arena;
struct error;
struct params;

struct stored_weights {
    const char *model;  /* NULL: it does not say */
    const char *data;   /* the spec it was trained with; NULL: it does not say */
    const char *recipe; /* options of the network, as options_apply_recipe takes them */
};

/* The texts live in `arena`. */
int stored_weights_find(const char *path, struct arena *arena, struct stored_weights *out,
                        struct error *err);
int stored_weights_load(const char *path, struct params *params, struct error *err);

#endif
