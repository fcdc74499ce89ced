/* Weights in one file, as safetensors: 8 bytes of length, a JSON header, then plain little-endian
 * numbers. Chosen because PyTorch, JAX and a dozen lines of numpy read and write it. */
#ifndef STORE_WEIGHTS_H
#define STORE_WEIGHTS_H

struct error;
struct params;

/* All parameters and statistics, plain layout, written beside and renamed. `model` goes into the
 * file's metadata. */
int weights_save(const char *path, const char *model, const struct params *params,
                 struct error *err);
/* Every parameter must be there with its shape; names what is missing, left over or different.
 * Nothing is changed on failure, unless the file shrinks meanwhile. `path` may be a directory that holds weights.safetensors. */
int weights_load(const char *path, struct params *params, struct error *err);
/* The name of the network that the file's metadata gives, in `arena`; NULL when it gives none. */
struct arena;
int weights_model(const char *path, struct arena *arena, const char **out, struct error *err);

#endif
