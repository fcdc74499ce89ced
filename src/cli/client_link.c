#include "cli/client_link.h"

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "cli/client_internal.h"

enum { PEM_LIMIT = 1 << 20 };

struct client_link {
    const struct client_transport *transport;
    void *state;
    struct strbuf request;
};

int client_read_pem(const char *path, char **out, struct error *err)
{
    size_t bytes;
    *out = NULL;
    return path ? file_read(path, PEM_LIMIT, out, &bytes, err) : 0;
}

int client_link_open(const struct client_link_settings *settings, struct client_link **out,
                     struct error *err)
{
    struct client_link *link = memory_allocate(sizeof *link);
    if (!link)
        return error_set(err, ERROR_MEMORY, "no memory for a client");
    strbuf_init(&link->request);
    link->transport = settings->rest ? &client_by_rest : &client_by_grpc;
    if (link->transport->open(settings, &link->state, err) < 0) {
        client_link_close(link);
        return -1;
    }
    *out = link;
    return 0;
}

void client_link_close(struct client_link *link)
{
    if (!link)
        return;
    if (link->state)
        link->transport->close(link->state);
    strbuf_release(&link->request);
    memory_free(link);
}

int client_link_ask_form(struct client_link *link, const char *output, struct arena *arena,
                         struct client_form *out, struct error *err)
{
    return link->transport->ask_form(link->state, output, arena, out, err);
}

int client_link_prepare(struct client_link *link, const struct client_batch *batch,
                        struct error *err)
{
    strbuf_clear(&link->request);
    if (link->transport->prepare(link->state, batch, &link->request, err) < 0)
        return -1;
    return link->request.failed ? error_set(err, ERROR_MEMORY, "no memory for the request") : 0;
}

int client_link_send(struct client_link *link, bool patient, struct client_answer *out,
                     struct error *err)
{
    return link->transport->send(link->state, &link->request, patient, out, err);
}

int client_link_begin(struct client_link *link, int place, struct error *err)
{
    return link->transport->begin(link->state, &link->request, place, err);
}

int client_link_next(struct client_link *link, double seconds, int *place,
                     struct client_answer *out, struct error *err)
{
    return link->transport->next(link->state, seconds, place, out, err);
}

int client_link_scores(struct client_link *link, const char *output, struct arena *arena,
                       struct tensor *out, struct error *err)
{
    if (link->transport->scores(link->state, output, arena, out, err) < 0)
        return -1;
    if (out->dtype != DTYPE_F32 || out->shape.ndim < 1 || out->shape.ndim > 2)
        return error_set(err, ERROR_FORMAT, "the output '%s' is no table of scores", output);
    return 0;
}
