#include "serve/grpc_client.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "serve/grpc_library.h"

struct grpc_client {
    const struct grpc_library *grpc;
    grpc_completion_queue *queue;
    grpc_channel *channel;
    struct strbuf authorization; /* "Bearer ..."; empty: none */
};

void grpc_reply_init(struct grpc_reply *reply)
{
    *reply = (struct grpc_reply){0};
    strbuf_init(&reply->body);
}

void grpc_reply_release(struct grpc_reply *reply)
{
    strbuf_release(&reply->body);
}

static grpc_channel_credentials *make_credentials(const struct grpc_library *grpc,
                                                  const struct grpc_client_settings *settings)
{
    if (!settings->tls)
        return grpc->grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {.private_key = settings->key,
                                       .cert_chain = settings->certificate};
    return grpc->grpc_ssl_credentials_create(settings->ca, settings->certificate ? &pair : NULL,
                                             NULL, NULL);
}

/* Unlimited replies, a connection of its own, no proxy and no second attempt behind our back. */
static grpc_channel *make_channel(const struct grpc_library *grpc,
                                  const struct grpc_client_settings *settings,
                                  grpc_channel_credentials *credentials)
{
    grpc_arg arguments[] = {
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = -1}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_ENABLE_RETRIES, {.integer = 0}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_ENABLE_HTTP_PROXY, {.integer = 0}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, {.integer = 100}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, {.integer = 1000}},
        {GRPC_ARG_INTEGER, (char *)GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, {.integer = 1000}},
        {GRPC_ARG_STRING,
         (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
         {.string = (char *)settings->server_name}},
    };
    size_t count = sizeof arguments / sizeof *arguments;
    grpc_channel_args list = {.num_args = settings->server_name ? count : count - 1,
                              .args = arguments};
    return grpc->grpc_channel_create(settings->server, credentials, &list);
}

int grpc_client_create(const struct grpc_client_settings *settings, struct grpc_client **out,
                       struct error *err)
{
    const struct grpc_library *grpc = grpc_library_load(err);
    if (!grpc)
        return -1;
    struct grpc_client *client = memory_allocate(sizeof *client);
    if (!client)
        return error_set(err, ERROR_MEMORY, "no memory for a gRPC client");
    client->grpc = grpc;
    strbuf_init(&client->authorization);
    if (settings->token)
        strbuf_addf(&client->authorization, "Bearer %s", settings->token);
    client->queue = grpc->grpc_completion_queue_create_for_next(NULL);
    grpc_channel_credentials *credentials = make_credentials(grpc, settings);
    if (credentials) {
        client->channel = make_channel(grpc, settings, credentials);
        grpc->grpc_channel_credentials_release(credentials);
    }
    if (!client->channel) {
        grpc_client_destroy(client);
        return error_set(err, ERROR_USAGE, "gRPC makes no channel to %s%s", settings->server,
                         settings->tls ? ": are the certificates right?" : "");
    }
    *out = client;
    return 0;
}

void grpc_client_destroy(struct grpc_client *client)
{
    if (!client)
        return;
    const struct grpc_library *grpc = client->grpc;
    if (client->channel)
        grpc->grpc_channel_destroy(client->channel);
    grpc->grpc_completion_queue_shutdown(client->queue);
    gpr_timespec never = grpc_library_moment(grpc, 0);
    while (grpc->grpc_completion_queue_next(client->queue, never, NULL).type != GRPC_QUEUE_SHUTDOWN)
        ;
    grpc->grpc_completion_queue_destroy(client->queue);
    strbuf_release(&client->authorization);
    memory_free(client);
}

/* What a call sends and gets, while it lasts. */
struct exchange {
    grpc_call *call;
    grpc_metadata authorization;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *sent, *received;
    grpc_status_code status;
    grpc_slice details;
    struct grpc_reply *reply;
};

static void take_reply(const struct grpc_library *grpc, struct exchange *exchange)
{
    struct grpc_reply *reply = exchange->reply;
    const void *bytes;
    size_t count = GRPC_SLICE_LENGTH(exchange->details);
    grpc_slice joined;
    if (count >= sizeof reply->message)
        count = sizeof reply->message - 1;
    memcpy(reply->message, GRPC_SLICE_START_PTR(exchange->details), count);
    reply->message[count] = '\0';
    reply->status = (enum serve_status)exchange->status;
    reply->ended = clock_seconds();
    strbuf_clear(&reply->body);
    if (!exchange->received)
        return;
    if (grpc_library_bytes(grpc, exchange->received, &joined, &bytes, &count))
        strbuf_add_bytes(&reply->body, bytes, count);
    grpc->grpc_slice_unref(joined);
}

static void start_batch(struct grpc_client *client, struct exchange *exchange, bool patient)
{
    const struct grpc_library *grpc = client->grpc;
    grpc_op ops[6] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .flags = patient ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                                GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                          : 0},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = exchange->sent},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &exchange->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &exchange->received},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &exchange->trailing,
                                        .status = &exchange->status,
                                        .status_details = &exchange->details}},
    };
    if (client->authorization.length > 0) {
        exchange->authorization.key = grpc->grpc_slice_from_static_string("authorization");
        exchange->authorization.value =
            grpc->grpc_slice_from_static_string(client->authorization.text);
        ops[0].data.send_initial_metadata.count = 1;
        ops[0].data.send_initial_metadata.metadata = &exchange->authorization;
    }
    grpc->grpc_call_start_batch(exchange->call, ops, 6, exchange, NULL);
}

int grpc_client_begin(struct grpc_client *client, const char *method, const void *message,
                      size_t bytes, double seconds, bool patient, struct grpc_reply *reply,
                      struct error *err)
{
    const struct grpc_library *grpc = client->grpc;
    struct exchange *exchange = memory_allocate(sizeof *exchange);
    if (!exchange)
        return error_set(err, ERROR_MEMORY, "no memory for a call");
    grpc_slice path = grpc->grpc_slice_from_copied_buffer(method, strlen(method));
    grpc_slice body = grpc->grpc_slice_from_copied_buffer(message, bytes);
    exchange->status = GRPC_STATUS_UNKNOWN;
    exchange->reply = reply;
    exchange->details = grpc->grpc_empty_slice();
    exchange->sent = grpc->grpc_raw_byte_buffer_create(&body, 1);
    exchange->call = grpc->grpc_channel_create_call(client->channel, NULL, 0, client->queue, path,
                                                    NULL, grpc_library_moment(grpc, seconds), NULL);
    grpc->grpc_metadata_array_init(&exchange->initial);
    grpc->grpc_metadata_array_init(&exchange->trailing);
    start_batch(client, exchange, patient);
    grpc->grpc_slice_unref(body);
    grpc->grpc_slice_unref(path);
    return 0;
}

static void release_exchange(const struct grpc_library *grpc, struct exchange *exchange)
{
    grpc->grpc_metadata_array_destroy(&exchange->trailing);
    grpc->grpc_metadata_array_destroy(&exchange->initial);
    grpc->grpc_byte_buffer_destroy(exchange->sent);
    if (exchange->received)
        grpc->grpc_byte_buffer_destroy(exchange->received);
    grpc->grpc_call_unref(exchange->call);
    grpc->grpc_slice_unref(exchange->details);
    memory_free(exchange);
}

struct grpc_reply *grpc_client_next(struct grpc_client *client, double seconds)
{
    const struct grpc_library *grpc = client->grpc;
    gpr_timespec until =
        seconds == 0 ? grpc->gpr_now(GPR_CLOCK_MONOTONIC) : grpc_library_moment(grpc, seconds);
    grpc_event event = grpc->grpc_completion_queue_next(client->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE)
        return NULL;
    struct exchange *exchange = event.tag;
    struct grpc_reply *reply = exchange->reply;
    take_reply(grpc, exchange);
    release_exchange(grpc, exchange);
    return reply;
}

int grpc_client_call(struct grpc_client *client, const char *method, const void *message,
                     size_t bytes, double seconds, bool patient, struct grpc_reply *reply,
                     struct error *err)
{
    if (grpc_client_begin(client, method, message, bytes, seconds, patient, reply, err) < 0)
        return -1;
    grpc_client_next(client, -1);
    return reply->body.failed ? error_set(err, ERROR_MEMORY, "no memory for the reply") : 0;
}
