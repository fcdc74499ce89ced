/* A client's link by gRPC: tensorflow.serving.PredictionService. */
#include "base/error.h"
#include "base/memory.h"
#include "cli/client_internal.h"
#include "serve/grpc_client.h"
#include "serve/model_message.h"
#include "serve/predict_message.h"

enum { REPLY_LIMIT = 1 << 30 };

struct grpc_link {
    const struct client_link_settings *settings;
    struct grpc_client *client;
    int streams;
    struct grpc_reply *replies; /* one for each stream */
    struct grpc_reply *reply;   /* that came last */
};

static void close_link(void *state)
{
    struct grpc_link *link = state;
    grpc_client_destroy(link->client);
    for (int i = 0; i < link->streams; i++)
        grpc_reply_release(&link->replies[i]);
    memory_free(link->replies);
    memory_free(link);
}

static int open_link(const struct client_link_settings *settings, void **out, struct error *err)
{
    int streams = settings->streams > 1 ? settings->streams : 1;
    struct grpc_link *link = memory_allocate(sizeof *link);
    char *ca = NULL, *certificate = NULL, *key = NULL;
    if (link)
        link->replies = memory_allocate((size_t)streams * sizeof *link->replies);
    if (!link || !link->replies) {
        memory_free(link);
        return error_set(err, ERROR_MEMORY, "no memory for a client");
    }
    link->settings = settings;
    link->reply = link->replies;
    for (; link->streams < streams; link->streams++)
        grpc_reply_init(&link->replies[link->streams]);
    int status = -1;
    if (client_read_pem(settings->ca_file, &ca, err) == 0 &&
        client_read_pem(settings->certificate_file, &certificate, err) == 0 &&
        client_read_pem(settings->key_file, &key, err) == 0) {
        struct grpc_client_settings inner = {.server = settings->server,
                                             .tls = settings->tls,
                                             .ca = ca,
                                             .certificate = certificate,
                                             .key = key,
                                             .server_name = settings->server_name,
                                             .token = settings->token};
        status = grpc_client_create(&inner, &link->client, err);
    }
    memory_free(ca);
    memory_free(certificate);
    memory_free(key);
    if (status < 0)
        close_link(link);
    else
        *out = link;
    return status;
}

static int ask_form(void *state, const char *output, struct arena *arena, struct client_form *out,
                    struct error *err)
{
    struct grpc_link *link = state;
    const struct client_link_settings *settings = link->settings;
    struct strbuf request;
    struct metadata_form form;
    strbuf_init(&request);
    metadata_request_write(settings->model, settings->version, &request);
    int status =
        grpc_client_call(link->client, "/tensorflow.serving.PredictionService/GetModelMetadata",
                         request.text, request.length, settings->seconds, true, link->reply, err);
    strbuf_release(&request);
    if (status < 0)
        return -1;
    if (link->reply->status != SERVE_OK)
        return error_set(err, ERROR_PEER, "%s: model %s: %s: %s", settings->server, settings->model,
                         serve_status_name(link->reply->status), link->reply->message);
    if (metadata_reply_read(link->reply->body.text, link->reply->body.length, settings->signature,
                            output, arena, &form, err) < 0)
        return error_wrap(err, "%s: model %s", settings->server, settings->model);
    *out = (struct client_form){form.input, form.shape, form.classes};
    return 0;
}

static int prepare(void *state, const struct client_batch *batch, struct strbuf *request,
                   struct error *err)
{
    struct grpc_link *link = state;
    (void)err;
    if (link->settings->health)
        return 0; /* of the whole server: nothing to say */
    predict_request_begin(link->settings->model, link->settings->signature, link->settings->version,
                          request);
    for (int i = 0; i < batch->inputs; i++)
        predict_request_add(batch->names[i], &batch->tensors[i], request);
    return 0;
}

static const char *method_of(const struct grpc_link *link)
{
    return link->settings->health ? "/grpc.health.v1.Health/Check"
                                  : "/tensorflow.serving.PredictionService/Predict";
}

static int send_request(void *state, const struct strbuf *request, bool patient,
                        struct client_answer *out, struct error *err)
{
    struct grpc_link *link = state;
    if (grpc_client_call(link->client, method_of(link), request->text ? request->text : "",
                         request->length, link->settings->seconds, patient, link->reply, err) < 0)
        return -1;
    *out = (struct client_answer){link->reply->status, link->reply->message};
    return 0;
}

static int begin(void *state, const struct strbuf *request, int place, struct error *err)
{
    struct grpc_link *link = state;
    return grpc_client_begin(link->client, method_of(link), request->text ? request->text : "",
                             request->length, link->settings->seconds, false, &link->replies[place],
                             err);
}

static int next(void *state, double seconds, int *place, struct client_answer *out,
                struct error *err)
{
    struct grpc_link *link = state;
    struct grpc_reply *reply = grpc_client_next(link->client, seconds);
    if (!reply)
        return 0;
    link->reply = reply;
    *place = (int)(reply - link->replies);
    *out = (struct client_answer){reply->status, reply->message};
    return reply->body.failed ? error_set(err, ERROR_MEMORY, "no memory for the reply") : 1;
}

static int scores(void *state, const char *output, struct arena *arena, struct tensor *out,
                  struct error *err)
{
    struct grpc_link *link = state;
    return predict_reply_find(link->reply->body.text, link->reply->body.length, output, REPLY_LIMIT,
                              arena, out, err);
}

const struct client_transport client_by_grpc = {.open = open_link,
                                                .close = close_link,
                                                .ask_form = ask_form,
                                                .prepare = prepare,
                                                .send = send_request,
                                                .begin = begin,
                                                .next = next,
                                                .scores = scores};
