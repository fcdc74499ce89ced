/* What the two kinds of links share with client_link.c. */
#ifndef CLI_CLIENT_INTERNAL_H
#define CLI_CLIENT_INTERNAL_H

#include "base/strbuf.h"
#include "cli/client_data.h"
#include "cli/client_link.h"

struct client_transport {
    int (*open)(const struct client_link_settings *settings, void **out, struct error *err);
    void (*close)(void *state);
    int (*ask_form)(void *state, const char *output, struct arena *arena, struct client_form *out,
                    struct error *err);
    int (*prepare)(void *state, const struct client_batch *batch, struct strbuf *request,
                   struct error *err);
    int (*send)(void *state, const struct strbuf *request, bool patient, struct client_answer *out,
                struct error *err);
    /* NULL: only one at a time. */
    int (*begin)(void *state, const struct strbuf *request, int place, struct error *err);
    int (*next)(void *state, double seconds, int *place, struct client_answer *out,
                struct error *err);
    int (*scores)(void *state, const char *output, struct arena *arena, struct tensor *out,
                  struct error *err);
};

extern const struct client_transport client_by_grpc, client_by_rest;

/* The whole of a PEM file; the caller's. NULL stays NULL. */
int client_read_pem(const char *path, char **out, struct error *err);

#endif
