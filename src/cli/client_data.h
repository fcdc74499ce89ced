/* What a client sends: rows of a click log as text, or pictures of a dataset, in batches, with
 * their labels. */
#ifndef CLI_CLIENT_DATA_H
#define CLI_CLIENT_DATA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

struct arena;
struct client_data;
struct error;

enum { CLIENT_MAX_INPUTS = 64 };

struct client_batch {
    int inputs;
    const char *names[CLIENT_MAX_INPUTS];
    struct tensor tensors[CLIENT_MAX_INPUTS]; /* rows in the first dimension */
    int32_t *labels;                          /* [rows] */
    int rows;
};

/* What the served model takes, where the data can be had in several forms. */
struct client_form {
    const char *input; /* its name; borrowed */
    struct shape shape;
    int classes; /* 0: unknown */
};

/* A file of rows `clicked,I1..I13,C1..C26` needs no form: its inputs are named so. */
bool client_data_is_rows(const char *spec);
/* SPEC is such a file, or KIND[:PATH] of a dataset of pictures, whose split for evaluation is taken.
 * `form` is only for those. */
int client_data_open(const char *spec, const struct client_form *form, const atomic_int *stop,
                     struct client_data **out, struct error *err);
void client_data_close(struct client_data *data); /* accepts NULL */
int64_t client_data_count(const struct client_data *data);
/* Examples first, first + 1, ...; behind the last one the first follows. In memory of the arena and
 * of the data. Any number of threads. */
int client_data_batch(struct client_data *data, int64_t first, int rows, struct arena *arena,
                      struct client_batch *out, struct error *err);

#endif
