/* A client's link by REST: /v1/models/MODEL:predict in TensorFlow Serving's column format. */
#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/client_internal.h"
#include "net/http.h"
#include "serve/base64.h"

struct rest_link {
    const struct client_link_settings *settings;
    struct http_client *client;
    struct http_reply reply;
    char *url; /* up to the model and its version */
    struct strbuf authorization, message;
};

static void close_link(void *state)
{
    struct rest_link *link = state;
    http_client_destroy(link->client);
    http_reply_release(&link->reply);
    strbuf_release(&link->authorization);
    strbuf_release(&link->message);
    memory_free(link->url);
    memory_free(link);
}

static char *make_url(const struct client_link_settings *settings)
{
    struct strbuf url;
    strbuf_init(&url);
    strbuf_addf(&url, "%s://%s/v1/models/", settings->tls ? "https" : "http", settings->server);
    http_encode(&url, settings->model, false);
    if (settings->version > 0)
        strbuf_addf(&url, "/versions/%" PRId64, settings->version);
    char *text = url.failed ? NULL : memory_copy_text(url.text);
    strbuf_release(&url);
    return text;
}

static int open_link(const struct client_link_settings *settings, void **out, struct error *err)
{
    struct http_settings http = {.connect_seconds = settings->seconds > 0 ? settings->seconds : 10,
                                 .stall_seconds = settings->seconds > 0 ? settings->seconds : 600,
                                 .total_seconds = settings->seconds,
                                 .ca_bundle = settings->ca_file,
                                 .client_certificate = settings->certificate_file};
    struct rest_link *link = memory_allocate(sizeof *link);
    if (!link)
        return error_set(err, ERROR_MEMORY, "no memory for a client");
    link->settings = settings;
    http_reply_init(&link->reply);
    strbuf_init(&link->authorization);
    strbuf_init(&link->message);
    if (settings->token)
        strbuf_addf(&link->authorization, "Authorization: Bearer %s", settings->token);
    link->url = make_url(settings);
    if (!link->url || http_client_create(&http, &link->client, err) < 0) {
        bool memory = !link->url;
        close_link(link);
        return memory ? error_set(err, ERROR_MEMORY, "no memory for a client") : -1;
    }
    *out = link;
    return 0;
}

static int perform(struct rest_link *link, const char *method, const char *tail,
                   const struct strbuf *body, struct error *err)
{
    const char *headers[3] = {"Content-Type: application/json"};
    if (link->authorization.length > 0)
        headers[1] = link->authorization.text;
    struct strbuf url;
    strbuf_init(&url);
    strbuf_addf(&url, "%s%s", link->url, tail);
    struct http_request request = {.method = method,
                                   .url = url.text,
                                   .headers = headers,
                                   .body = body ? body->text : NULL,
                                   .body_bytes = body ? body->length : 0};
    int status = http_perform(link->client, &request, &link->reply, err);
    strbuf_release(&url);
    return status;
}

/* ---- statuses ------------------------------------------------------------------------------- */

static enum serve_status status_of(const struct http_reply *reply)
{
    if (reply->outcome != HTTP_REPLIED)
        return SERVE_UNAVAILABLE;
    switch (reply->status) {
    case 200:
        return SERVE_OK;
    case 400:
        return SERVE_INVALID;
    case 401:
        return SERVE_UNAUTHENTICATED;
    case 404:
        return SERVE_NOT_FOUND;
    case 412:
        return SERVE_PRECONDITION;
    case 429:
        return SERVE_EXHAUSTED;
    case 503:
        return SERVE_UNAVAILABLE;
    case 504:
        return SERVE_DEADLINE;
    default:
        return SERVE_UNKNOWN;
    }
}

/* {"error": "..."}, or whatever came. */
static const char *message_of(struct rest_link *link)
{
    struct json *json = NULL;
    strbuf_clear(&link->message);
    if (link->reply.outcome != HTTP_REPLIED) {
        strbuf_add(&link->message, link->reply.failure);
    } else if (json_parse(link->reply.body.text, link->reply.body.length, &json, NULL) == 0) {
        strbuf_add(&link->message, json_get_text(json, "error", ""));
        json_release(json);
    } else {
        strbuf_addf(&link->message, "status %d", link->reply.status);
    }
    return link->message.text;
}

static int send_request(void *state, const struct strbuf *request, bool patient,
                        struct client_answer *out, struct error *err)
{
    struct rest_link *link = state;
    (void)patient; /* a connection that is refused is an answer here */
    if (perform(link, "POST", ":predict", request, err) < 0)
        return -1;
    enum serve_status status = status_of(&link->reply);
    *out =
        (struct client_answer){status, status == SERVE_OK ? "" : message_of(link), clock_seconds()};
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool is_plain(const struct text_view *text)
{
    for (size_t i = 0; i < text->count; i++)
        if ((unsigned char)text->bytes[i] < ' ' || (unsigned char)text->bytes[i] >= 0x7f ||
            text->bytes[i] == '"' || text->bytes[i] == '\\')
            return false;
    return true;
}

static void add_value(const struct tensor *tensor, int64_t index, struct strbuf *out)
{
    if (tensor->dtype == DTYPE_F32) {
        strbuf_addf(out, "%.9g", (double)((const float *)tensor->data)[index]);
        return;
    }
    const struct text_view *text = (const struct text_view *)tensor->data + index;
    if (is_plain(text)) {
        strbuf_add_char(out, '"');
        strbuf_add_bytes(out, text->bytes, text->count);
        strbuf_add_char(out, '"');
    } else {
        strbuf_add(out, "{\"b64\":\"");
        base64_encode(text->bytes, text->count, out);
        strbuf_add(out, "\"}");
    }
}

/* Lists in lists, as the shape has them. */
static void add_values(const struct tensor *tensor, int dimension, int64_t *index,
                       struct strbuf *out)
{
    if (dimension == tensor->shape.ndim) {
        add_value(tensor, (*index)++, out);
        return;
    }
    strbuf_add_char(out, '[');
    for (int64_t i = 0; i < tensor->shape.dim[dimension]; i++) {
        if (i > 0)
            strbuf_add_char(out, ',');
        add_values(tensor, dimension + 1, index, out);
    }
    strbuf_add_char(out, ']');
}

static int prepare(void *state, const struct client_batch *batch, struct strbuf *request,
                   struct error *err)
{
    struct rest_link *link = state;
    struct text_view signature = {link->settings->signature, strlen(link->settings->signature)};
    if (!is_plain(&signature))
        return error_set(err, ERROR_USAGE, "'%s' is no signature's name",
                         link->settings->signature);
    strbuf_addf(request, "{\"signature_name\":\"%s\",\"inputs\":{", link->settings->signature);
    for (int i = 0; i < batch->inputs; i++) {
        int64_t index = 0;
        strbuf_addf(request, "%s\"%s\":", i ? "," : "", batch->names[i]);
        add_values(&batch->tensors[i], 0, &index, request);
    }
    strbuf_add(request, "}}");
    return 0;
}

/* ---- replies -------------------------------------------------------------------------------- */

static int take_scores(const struct json *rows, struct arena *arena, struct tensor *out,
                       struct error *err)
{
    int count = json_count(rows), columns = count > 0 ? json_count(json_at(rows, 0)) : 0;
    bool flat = columns <= 0; /* one number a row */
    struct shape shape = flat ? SHAPE(count) : SHAPE(count, columns);
    if (tensor_create(arena, DTYPE_F32, shape, out, err) < 0)
        return -1;
    for (int row = 0; row < count; row++)
        for (int column = 0; column < (flat ? 1 : columns); column++) {
            const struct json *value = json_at(rows, row);
            ((float *)out->data)[flat ? row : row * columns + column] =
                (float)json_as_number(flat ? value : json_at(value, column), NAN);
        }
    return 0;
}

/* "outputs" is an object, or, of a signature with one output, its value. */
static int scores(void *state, const char *output, struct arena *arena, struct tensor *out,
                  struct error *err)
{
    struct rest_link *link = state;
    struct json *json;
    if (json_parse(link->reply.body.text, link->reply.body.length, &json, err) < 0)
        return error_wrap(err, "the reply");
    const struct json *outputs = json_get(json, "outputs"), *named = json_get(outputs, output);
    int status = outputs ? take_scores(named ? named : outputs, arena, out, err)
                         : error_set(err, ERROR_FORMAT, "the reply has no outputs");
    json_release(json);
    return status;
}

static int take_shape(const struct json *tensor, struct shape *out, struct error *err)
{
    const struct json *dimensions = json_get(json_get(tensor, "tensor_shape"), "dim");
    int count = json_count(dimensions);
    if (count < 1 || count > TENSOR_MAX_DIMS)
        return error_set(err, ERROR_FORMAT, "the metadata have no shape");
    out->ndim = count;
    for (int i = 0; i < count; i++) {
        const struct json *dimension = json_at(dimensions, i);
        const char *text = json_get_text(dimension, "size", NULL);
        out->dim[i] = text ? strtoll(text, NULL, 10) : json_get_integer(dimension, "size", -1);
    }
    return 0;
}

static int take_form(const struct json *signature, const char *output, struct arena *arena,
                     struct client_form *out, struct error *err)
{
    void *at = NULL;
    const char *name;
    struct shape shape = {0};
    const struct json *input = json_next(json_get(signature, "inputs"), &at, &name);
    if (!input)
        return error_set(err, ERROR_FORMAT, "the metadata have no such signature");
    *out = (struct client_form){.input = arena_copy_text(arena, name)};
    if (!out->input)
        return error_set(err, ERROR_MEMORY, "no memory for the metadata");
    const struct json *given = json_get(json_get(signature, "outputs"), output);
    if (given && take_shape(given, &shape, err) == 0 && shape.ndim > 1)
        out->classes = (int)shape.dim[shape.ndim - 1];
    return take_shape(input, &out->shape, err);
}

static int ask_form(void *state, const char *output, struct arena *arena, struct client_form *out,
                    struct error *err)
{
    struct rest_link *link = state;
    struct json *json;
    if (perform(link, "GET", "/metadata", NULL, err) < 0)
        return -1;
    if (status_of(&link->reply) != SERVE_OK)
        return error_set(err, ERROR_PEER, "%s: model %s: %s", link->settings->server,
                         link->settings->model, message_of(link));
    if (json_parse(link->reply.body.text, link->reply.body.length, &json, err) < 0)
        return error_wrap(err, "%s: metadata", link->settings->server);
    const struct json *signatures =
        json_get(json_get(json_get(json, "metadata"), "signature_def"), "signature_def");
    int status =
        take_form(json_get(signatures, link->settings->signature), output, arena, out, err);
    json_release(json);
    return status < 0
               ? error_wrap(err, "%s: model %s", link->settings->server, link->settings->model)
               : 0;
}

const struct client_transport client_by_rest = {.open = open_link,
                                                .close = close_link,
                                                .ask_form = ask_form,
                                                .prepare = prepare,
                                                .send = send_request,
                                                .scores = scores};
