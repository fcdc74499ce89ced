/* From a trained network to a version in --export-dir: what export, train and pipeline share. */
#ifndef CLI_EXPORTING_H
#define CLI_EXPORTING_H

#include "cli/options.h"
#include "convert/export.h"

struct error;
struct params;
struct session;

struct exporting_settings {
    const char *directory, *labels;
    bool image_bytes;
};

/* Rows of a table whose settings have a `struct exporting_settings exporting`. */
#define EXPORTING_DIRECTORY_OPTION(settings, ...)                                                  \
    OPTION_TEXT(settings, exporting.directory, "export-dir", .value = "DIR", __VA_ARGS__)
#define EXPORTING_OPTIONS(settings)                                                                \
    OPTION_TEXT(settings, exporting.labels, "labels", .value = "FILE",                             \
                .initial_note = "the class folders' names with images:DIR",                        \
                .help = "names of the classes, one per line; they travel with the export"),        \
        OPTION_FLAG(settings, exporting.image_bytes, "image-bytes-as-serving-input",               \
                    .help = "serving_default of the export takes encoded pictures instead of "     \
                            "pixels, which keep the signature predict")

/* Before the work: are the settings right, and can the directory be written to? */
int exporting_check(const struct exporting_settings *settings, struct error *err);
/* Writes the next version. `data` is the spec that the network was trained with, or NULL: a table
 * gives the names of its columns, class folders those of the classes. */
int exporting_write(const struct exporting_settings *settings, const struct session *session,
                    const char *data, const struct params *params, struct export_result *out,
                    struct error *err);

#endif
