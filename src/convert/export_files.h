/* Which files an export consists of, so that whoever reads a copy of it knows whether all of it has
 * arrived: a SavedModel does not miss its labels. */
#ifndef CONVERT_EXPORT_FILES_H
#define CONVERT_EXPORT_FILES_H

#include <stdint.h>

struct arena;
struct error;
struct json;

struct export_file {
    const char *path; /* below the version's directory: "variables/variables.index" */
    int64_t bytes;
};

struct export_files {
    const struct export_file *list; /* in order of their paths */
    int count;                      /* 0: nothing is known about them */
};

/* The files below a directory, in `arena`. */
int export_files_find(const char *directory, struct arena *arena, struct export_files *out,
                      struct error *err);
/* Fails with the name of the first that is missing or has another size. Others may be there. */
int export_files_check(const char *directory, const struct export_files *files, struct error *err);

struct json *export_files_describe(const struct export_files *files);
/* Trusts nothing. `json` may be NULL, as of exports that older programs wrote; texts live in
 * `arena`. */
int export_files_parse(const struct json *json, struct arena *arena, struct export_files *out,
                       struct error *err);

#endif
