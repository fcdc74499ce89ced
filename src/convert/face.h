/* What a network shows to the outside beyond its graph: its name, the columns of the table it
 * reads, the names of its classes. From a graph and its face follow all signatures, the same ones
 * for who writes an export and who reads it. */
#ifndef CONVERT_FACE_H
#define CONVERT_FACE_H

#include <lockstep/model.h>
#include <stdbool.h>

#include "convert/export_files.h"

struct arena;
struct error;
struct graph;

struct face_number {
    const char *name;
    bool logarithm; /* the network takes sign(x) * log(1 + |x|) */
};

struct face {
    const char *model;         /* "resnet50"; a user's own has its own name */
    bool built_in;             /* this program builds it from its name and... */
    struct model_args args;    /* ...these */
    const char *const *labels; /* of the classes; NULL: none are known */
    int label_count;
    const struct face_number *numbers; /* columns of the input "numeric" */
    int number_count;
    const char *const *categories; /* columns of the input "category" */
    int category_count;
    const char *missing_category; /* what a tf.Example without the category means: "" or " " */
    bool bytes_by_default; /* serving_default takes encoded pictures, input_tensor has another */
    struct export_files files; /* of its export, but for the one that tells this */
};

/* Columns that nobody named are I1, I2, ... and C1, C2, ..., as Criteo's. Fails when names and the
 * graph's columns are not equally many, or labels and classes. */
int face_complete(struct face *face, const struct graph *graph, struct arena *arena,
                  struct error *err);

/* As JSON, for assets.extra/lockstep.json. */
struct strbuf;
int face_compose(const struct face *face, struct strbuf *out, struct error *err);
/* Trusts nothing. Texts and lists live in `arena`; `name` goes into messages. Labels are not in
 * it. */
int face_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
               struct face *out, struct error *err);

/* A label per line, as it travels in assets/labels.txt. */
int face_parse_labels(const char *name, const char *text, size_t bytes, struct arena *arena,
                      const char *const **labels, int *count, struct error *err);

#endif
