/* A version of a model is a directory whose name is a number, perhaps with zeros in front: TensorFlow
 * Serving takes "00000123" for version 123 and leaves it its name, and so do we. Of several names of one
 * number the shortest counts. */
#ifndef CONVERT_VERSION_NAME_H
#define CONVERT_VERSION_NAME_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Digits only, as servers take them; false: it names no version. */
bool version_name_read(const char *name, int64_t *out);
/* The name that a version has in a model's directory; the plain number when it is not there. */
void version_name_find(const char *directory, int64_t version, char out[NAME_MAX + 1]);

#endif
