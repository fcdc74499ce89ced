/* A client's way to a served model: the same questions by gRPC or by REST. */
#ifndef CLI_CLIENT_LINK_H
#define CLI_CLIENT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/status.h"
#include "tensor/tensor.h"

struct arena;
struct client_batch;
struct client_link;
struct error;

struct client_link_settings {
    bool rest;
    bool health;        /* asks grpc.health.v1 whether the server is well, and no model */
    const char *server; /* "host:port" */
    const char *model, *signature;
    int streams;     /* requests at a time; 0: one. Several are for gRPC */
    int64_t version; /* 0: the newest */
    double seconds;  /* deadline of a request; 0: none */
    bool tls;
    const char *ca_file, *certificate_file, *key_file; /* NULL: none */
    const char *server_name;
    const char *token; /* NULL: none */
};

/* Does not connect yet. Borrows the settings. */
int client_link_open(const struct client_link_settings *settings, struct client_link **out,
                     struct error *err);
void client_link_close(struct client_link *link); /* accepts NULL */

/* What the model's signature takes and gives: the first input's name and shape, and the last
 * dimension of `output`. Texts are in the arena. */
struct client_form;
int client_link_ask_form(struct client_link *link, const char *output, struct arena *arena,
                         struct client_form *out, struct error *err);

/* Makes the request's bytes, which client_link_send sends as often as it is called. */
int client_link_prepare(struct client_link *link, const struct client_batch *batch,
                        struct error *err);
struct client_answer {
    enum serve_status status;
    const char *message; /* why, unless SERVE_OK; the link's until the next call */
    double ended;        /* clock_seconds() when it was there */
};
/* `patient`: waits for a server that does not answer yet, until the deadline. Fails only when
 * memory is short. */
int client_link_send(struct client_link *link, bool patient, struct client_answer *out,
                     struct error *err);
/* The same for several at a time, in places 0 to streams - 1: sends what was prepared, and waits so
 * long for the next answer (0: only looks, less: as long as it takes): 1 when one came, to *place. */
int client_link_begin(struct client_link *link, int place, struct error *err);
int client_link_next(struct client_link *link, double seconds, int *place,
                     struct client_answer *out, struct error *err);
/* The scores in the reply that just came: [rows, classes], or [rows] of yes or no. */
int client_link_scores(struct client_link *link, const char *output, struct arena *arena,
                       struct tensor *out, struct error *err);

#endif
