/* Small checkpoints for tests, and damage to them. Failures end the running test. */
#ifndef SUPPORT_CHECKPOINT_FILES_H
#define SUPPORT_CHECKPOINT_FILES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/manifest.h"

/* A manifest with a value in every field but the files'. NaN: not evaluated. */
struct manifest checkpoint_files_manifest(int64_t step, double accuracy);
/* Writes DIRECTORY/step-N with two tensors that depend on `step`. Returns its path, which lives as
 * long as the program. */
const char *checkpoint_files_write(const char *directory, int64_t step, double accuracy);
/* Makes DIRECTORY below test_directory(), which must be new. */
const char *checkpoint_files_directory(const char *name);

/* Flips the lowest bit of the byte at `offset`; from the end when it is negative. */
void checkpoint_files_flip(const char *path, const char *file, long offset);
/* Names in the directory, sorted, with spaces between; those that begin with `prefix`. */
const char *checkpoint_files_names(const char *directory, const char *prefix);

#endif
