/* What a REST path asks for: /v1/models/M[/versions/V|/labels/L][:predict|...|/metadata], and the
 * Open Inference Protocol's /v2/models/M[/versions/V][/ready|/infer]. */
#ifndef SERVE_REST_PATH_H
#define SERVE_REST_PATH_H

#include <stdbool.h>
#include <stdint.h>

struct error;

enum rest_verb {
    REST_STATUS,
    REST_METADATA,
    REST_PREDICT,
    REST_CLASSIFY,
    REST_REGRESS,
    REST_READY,
    REST_INFER,
};

struct rest_path {
    enum rest_verb verb;
    bool v2;
    char model[256], label[256]; /* label "": none */
    int64_t version;             /* < 0: none */
};

/* `path` without the query, percent-encoded as it came. False with `err` saying what is wrong. */
int rest_path_read(const char *path, struct rest_path *out, struct error *err);

#endif
