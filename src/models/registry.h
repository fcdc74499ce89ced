/* The networks this program brings, and those a user brings by file name. */
#ifndef MODELS_REGISTRY_H
#define MODELS_REGISTRY_H

#include <lockstep/model.h>

struct error;

const struct model *const *model_list(void);      /* NULL-terminated, generated from models/ */
const struct model *model_find(const char *name); /* NULL when there is none */
/* A name from the list, a path to a shared object that defines `model_user` (it stays loaded until
 * the process ends), or an ONNX file. */
int model_open(const char *name_or_path, const struct model **out, struct error *err);
/* Gives back what opening took; graphs that the model built must be gone. Accepts NULL. */
void model_close(const struct model *model);

#endif
