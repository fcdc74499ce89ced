/* A client's link by gRPC: tensorflow.serving.PredictionService. Several requests at a time in the
 * clear go by nghttp2, all others by gRPC's library. */
#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/client_internal.h"
#include "serve/grpc_client.h"
#include "serve/h2_client.h"
#include "serve/model_message.h"
#include "serve/predict_message.h"

enum { REPLY_LIMIT = 1 << 30 };

struct grpc_link {
    const struct client_link_settings *settings;
    struct grpc_client *client; /* one of these */
    struct h2_client *light;
    int streams;
    struct grpc_reply *replies; /* one for each stream */
    struct grpc_reply *reply;   /* that came last */
};

static void close_link(void *state)
{
    struct grpc_link *link = state;
    grpc_client_destroy(link->client);
    h2_client_destroy(link->light);
    for (int i = 0; i < link->streams; i++)
        grpc_reply_release(&link->replies[i]);
    memory_free(link->replies);
    memory_free(link);
}

static int create_client(struct grpc_link *link, struct error *err)
{
    const struct client_link_settings *settings = link->settings;
    char *ca = NULL, *certificate = NULL, *key = NULL;
    int status = -1;
    if (link->streams > 1 && !settings->tls)
        return h2_client_create(settings->server, settings->token, link->streams, &link->light,
                                err);
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
    return status;
}

static int open_link(const struct client_link_settings *settings, void **out, struct error *err)
{
    int streams = settings->streams > 1 ? settings->streams : 1;
    struct grpc_link *link = memory_allocate(sizeof *link);
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
    int status = create_client(link, err);
    if (status < 0)
        close_link(link);
    else
        *out = link;
    return status;
}

/* One call, to its end, into link->reply. */
static int call(struct grpc_link *link, const char *method, const struct strbuf *request,
                bool patient, struct error *err)
{
    const char *message = request->text ? request->text : "";
    double seconds = link->settings->seconds;
    if (link->client)
        return grpc_client_call(link->client, method, message, request->length, seconds, patient,
                                link->reply, err);
    if (h2_client_begin(link->light, method, message, request->length, seconds, patient,
                        link->reply, err) < 0)
        return -1;
    h2_client_next(link->light, -1);
    return link->reply->body.failed ? error_set(err, ERROR_MEMORY, "no memory for the reply") : 0;
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
        call(link, "/tensorflow.serving.PredictionService/GetModelMetadata", &request, true, err);
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
    if (call(link, method_of(link), request, patient, err) < 0)
        return -1;
    *out = (struct client_answer){link->reply->status, link->reply->message, link->reply->ended};
    return 0;
}

static int begin(void *state, const struct strbuf *request, int place, struct error *err)
{
    struct grpc_link *link = state;
    const char *message = request->text ? request->text : "";
    struct grpc_reply *reply = &link->replies[place];
    double seconds = link->settings->seconds;
    if (link->light)
        return h2_client_begin(link->light, method_of(link), message, request->length, seconds,
                               false, reply, err);
    return grpc_client_begin(link->client, method_of(link), message, request->length, seconds,
                             false, reply, err);
}

/* gRPC's own waiting ends up to a millisecond late, so the last of it is slept in short naps. */
static struct grpc_reply *next_by_grpc(struct grpc_client *client, double seconds)
{
    static const double coarse = 2e-3, nap = 5e-5;
    double until = clock_seconds() + seconds, left = seconds;
    if (seconds <= 0)
        return grpc_client_next(client, seconds);
    struct grpc_reply *reply = NULL;
    while (!reply && left > 0) {
        reply = grpc_client_next(client, left > coarse ? left - coarse : 0);
        left = until - clock_seconds();
        if (!reply && left > 0 && left <= coarse)
            nanosleep(&(struct timespec){.tv_nsec = (long)(fmin(left, nap) * 1e9)}, NULL);
    }
    return reply;
}

static int next(void *state, double seconds, int *place, struct client_answer *out,
                struct error *err)
{
    struct grpc_link *link = state;
    struct grpc_reply *reply =
        link->light ? h2_client_next(link->light, seconds) : next_by_grpc(link->client, seconds);
    if (!reply)
        return 0;
    link->reply = reply;
    *place = (int)(reply - link->replies);
    *out = (struct client_answer){reply->status, reply->message, reply->ended};
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
