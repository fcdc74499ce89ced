#include "net/http.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "net/libraries.h"

/* An easy handle keeps its connections, so a thread that takes one from the stack finds the last
 * one's still open. */
struct handle {
    CURL *curl;
    struct handle *next;
};

struct http_client {
    const struct libraries *calls;
    struct http_settings settings;
    char *ca_bundle, *client_certificate;
    pthread_mutex_t lock; /* guards `idle`; never held while a request runs */
    struct handle *idle;
};

struct transfer {
    const struct libraries *calls;
    CURL *curl;
    const struct http_request *request;
    struct http_reply *reply;
    size_t sent;
    const atomic_int *stop; /* NULL: it is not to end early */
    bool too_long, stalled;
    double stall_seconds, moved_at; /* when a byte last went either way */
    curl_off_t moved;
};

int http_client_create(const struct http_settings *settings, struct http_client **out,
                       struct error *err)
{
    const struct libraries *calls = libraries_load(err);
    if (!calls)
        return -1;
    struct http_client *client = memory_allocate(sizeof *client);
    if (!client)
        return error_set(err, ERROR_MEMORY, "no memory for an HTTP client");
    client->calls = calls;
    client->settings = *settings;
    client->ca_bundle = settings->ca_bundle ? memory_copy_text(settings->ca_bundle) : NULL;
    client->client_certificate =
        settings->client_certificate ? memory_copy_text(settings->client_certificate) : NULL;
    pthread_mutex_init(&client->lock, NULL);
    *out = client;
    return 0;
}

void http_client_destroy(struct http_client *client)
{
    if (!client)
        return;
    while (client->idle) {
        struct handle *handle = client->idle;
        client->idle = handle->next;
        client->calls->easy_cleanup(handle->curl);
        memory_free(handle);
    }
    pthread_mutex_destroy(&client->lock);
    memory_free(client->client_certificate);
    memory_free(client->ca_bundle);
    memory_free(client);
}

static struct handle *take_handle(struct http_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct handle *handle = client->idle;
    if (handle)
        client->idle = handle->next;
    pthread_mutex_unlock(&client->lock);
    if (handle)
        return handle;
    handle = memory_allocate(sizeof *handle);
    if (handle && !(handle->curl = client->calls->easy_init())) {
        memory_free(handle);
        handle = NULL;
    }
    return handle;
}

/* A handle that found no trust is not kept: libcurl remembers the certificates it read for a day,
 * and the file may hold new ones by then. */
static void give_handle(struct http_client *client, struct handle *handle, bool keep)
{
    if (!keep) {
        client->calls->easy_cleanup(handle->curl);
        memory_free(handle);
        return;
    }
    client->calls->easy_reset(handle->curl); /* forgets the secret; keeps the connection */
    pthread_mutex_lock(&client->lock);
    handle->next = client->idle;
    client->idle = handle;
    pthread_mutex_unlock(&client->lock);
}

/* The value behind "name:" without the spaces around it, when the line is that header. */
static bool header_value(const char *line, size_t bytes, const char *name, char *out, size_t space)
{
    size_t length = strlen(name);
    if (bytes <= length || strncasecmp(line, name, length) != 0 || line[length] != ':')
        return false;
    const char *at = line + length + 1, *end = line + bytes;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    snprintf(out, space, "%.*s", (int)(end - at), at);
    return true;
}

/* "bytes 0-99/1234" */
static void read_content_range(struct http_reply *reply, const char *text)
{
    long long start, total;
    if (sscanf(text, "bytes %lld-%*d/%lld", &start, &total) == 2 && start >= 0 && total >= 0) {
        reply->range_start = start;
        reply->range_total = total;
    }
}

static void forget_headers(struct http_reply *reply)
{
    reply->length = reply->range_start = reply->range_total = -1;
    reply->retry_after = 0;
    reply->etag[0] = reply->region[0] = reply->date[0] = '\0';
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    struct http_reply *reply = ((struct transfer *)context)->reply;
    size_t bytes = size * count;
    char value[200];
    if (bytes > 5 && strncmp(line, "HTTP/", 5) == 0)
        forget_headers(reply); /* of an interim reply */
    else if (header_value(line, bytes, "Content-Range", value, sizeof value))
        read_content_range(reply, value);
    else if (header_value(line, bytes, "Content-Length", value, sizeof value))
        reply->length = strtoll(value, NULL, 10);
    else if (header_value(line, bytes, "Retry-After", value, sizeof value))
        reply->retry_after = strtod(value, NULL);
    else if (!header_value(line, bytes, "ETag", reply->etag, sizeof reply->etag) &&
             !header_value(line, bytes, "x-amz-bucket-region", reply->region, sizeof reply->region))
        header_value(line, bytes, "Date", reply->date, sizeof reply->date);
    return bytes;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct http_request *request = transfer->request;
    struct http_reply *reply = transfer->reply;
    size_t length = size * count;
    long status = 0; /* known by now: the headers are complete */
    transfer->calls->easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (request->into && status / 100 == 2) {
        if (length > request->into_bytes - reply->received) {
            transfer->too_long = true;
            return 0;
        }
        memcpy((char *)request->into + reply->received, bytes, length);
        reply->received += length;
        return length;
    }
    if (length > HTTP_BODY_LIMIT - reply->body.length) {
        transfer->too_long = true;
        return 0;
    }
    strbuf_add_bytes(&reply->body, bytes, length);
    return reply->body.failed ? 0 : length;
}

static size_t on_send(char *out, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t left = transfer->request->body_bytes - transfer->sent, bytes = size * count;
    if (bytes > left)
        bytes = left;
    memcpy(out, (const char *)transfer->request->body + transfer->sent, bytes);
    transfer->sent += bytes;
    return bytes;
}

/* A kept connection that the server had closed: libcurl sends the body again on a new one. */
static int on_rewind(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > transfer->request->body_bytes)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Called about once a second. Not CURLOPT_LOW_SPEED_TIME, which averages over five seconds and so
 * forgives a burst before the silence. */
static int on_progress(void *context, curl_off_t total_in, curl_off_t in, curl_off_t total_out,
                       curl_off_t out)
{
    struct transfer *transfer = context;
    double now = clock_seconds();
    (void)total_in, (void)total_out;
    if (in + out != transfer->moved) {
        transfer->moved = in + out;
        transfer->moved_at = now;
    }
    transfer->stalled |= now - transfer->moved_at > transfer->stall_seconds;
    return transfer->stalled || stop_wanted(transfer->stop);
}

static void set_method(struct transfer *transfer)
{
    const struct libraries *calls = transfer->calls;
    const struct http_request *request = transfer->request;
    CURL *curl = transfer->curl;
    if (strcmp(request->method, "HEAD") == 0) {
        calls->easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (strcmp(request->method, "PUT") == 0) {
        calls->easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        calls->easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_bytes);
        calls->easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
        calls->easy_setopt(curl, CURLOPT_READDATA, transfer);
        calls->easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_rewind);
        calls->easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
    } else if (strcmp(request->method, "POST") == 0) {
        calls->easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
        calls->easy_setopt(curl, CURLOPT_POSTFIELDS, request->body_bytes ? request->body : "");
    } else if (strcmp(request->method, "GET") != 0) {
        calls->easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    }
}

static void set_user(const struct libraries *calls, CURL *curl, const struct http_request *request)
{
    if (!request->user)
        return;
    calls->easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    calls->easy_setopt(curl, CURLOPT_USERNAME, request->user);
    calls->easy_setopt(curl, CURLOPT_PASSWORD, request->password ? request->password : "");
}

static void set_trust(CURL *curl, const struct http_client *client)
{
    const struct libraries *calls = client->calls;
    if (client->ca_bundle)
        calls->easy_setopt(curl, CURLOPT_CAINFO, client->ca_bundle);
    if (client->client_certificate)
        calls->easy_setopt(curl, CURLOPT_SSLCERT, client->client_certificate);
    if (client->settings.trust_anyone) {
        calls->easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        calls->easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static void set_signature(const struct libraries *calls, CURL *curl,
                          const struct http_signature *signature)
{
    char scope[160];
    if (!signature)
        return;
    snprintf(scope, sizeof scope, "aws:amz:%s:%s", signature->region, signature->service);
    calls->easy_setopt(curl, CURLOPT_AWS_SIGV4, scope);
    calls->easy_setopt(curl, CURLOPT_USERNAME, signature->key_id);
    calls->easy_setopt(curl, CURLOPT_PASSWORD, signature->secret);
}

static void set_limits(CURL *curl, const struct http_client *client)
{
    const struct libraries *calls = client->calls;
    calls->easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                       (long)(client->settings.connect_seconds * 1000));
    calls->easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(client->settings.total_seconds * 1000));
    /* Who stops does not wait for a name server. */
    calls->easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    /* Not every server answers "Expect: 100-continue". The header cannot be taken away: libcurl
     * 7.88 would sign the line that does so. */
    calls->easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 200L);
    calls->easy_setopt(curl, CURLOPT_NOSIGNAL, 1L); /* other threads must not see its SIGALRM */
    calls->easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L); /* a signature is for one host */
    calls->easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    calls->easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    calls->easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* a key may well be "a/../b" */
    calls->easy_setopt(curl, CURLOPT_USERAGENT, "lockstep/" LOCKSTEP_VERSION);
}

static enum http_outcome judge(CURLcode code, const struct transfer *transfer)
{
    if (transfer->too_long)
        return HTTP_TOO_LONG;
    switch (code) {
    case CURLE_OK:
        return HTTP_REPLIED;
    case CURLE_ABORTED_BY_CALLBACK:
        return transfer->stalled ? HTTP_INTERRUPTED : HTTP_STOPPED;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_NOT_BUILT_IN:
    case CURLE_BAD_FUNCTION_ARGUMENT:
        return HTTP_IMPOSSIBLE;
    default:
        return HTTP_INTERRUPTED;
    }
}

static bool make_headers(const struct libraries *calls, const struct http_request *request,
                         struct curl_slist **out)
{
    *out = NULL;
    for (const char *const *at = request->headers; at && *at; at++) {
        struct curl_slist *longer = calls->slist_append(*out, *at);
        if (!longer)
            return false;
        *out = longer;
    }
    return true;
}

static void perform(struct http_client *client, CURL *curl, struct curl_slist *headers,
                    const struct http_request *request, struct http_reply *reply)
{
    char reason[CURL_ERROR_SIZE] = "";
    const struct libraries *calls = client->calls;
    struct transfer transfer = {.calls = calls,
                                .curl = curl,
                                .request = request,
                                .reply = reply,
                                .stop = request->despite_stop ? NULL : client->settings.stop,
                                .stall_seconds = client->settings.stall_seconds,
                                .moved_at = clock_seconds()};
    set_limits(curl, client);
    set_trust(curl, client);
    set_method(&transfer);
    set_user(calls, curl, request);
    set_signature(calls, curl, request->signature);
    calls->easy_setopt(curl, CURLOPT_URL, request->url);
    calls->easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    calls->easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    calls->easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    calls->easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    calls->easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    calls->easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    calls->easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
    calls->easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    calls->easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    CURLcode code = calls->easy_perform(curl);
    long status = 0;
    calls->easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (int)status;
    reply->outcome = judge(code, &transfer);
    if (transfer.stalled)
        snprintf(reason, sizeof reason, "nothing came for %g s", client->settings.stall_seconds);
    else if (code != CURLE_OK && !reason[0])
        snprintf(reason, sizeof reason, "%s", calls->easy_strerror(code));
    snprintf(reply->failure, sizeof reply->failure, "%s", reason);
}

int http_perform(struct http_client *client, const struct http_request *request,
                 struct http_reply *reply, struct error *err)
{
    strbuf_clear(&reply->body);
    reply->received = 0;
    reply->status = 0;
    forget_headers(reply);
    struct curl_slist *headers;
    struct handle *handle =
        make_headers(client->calls, request, &headers) ? take_handle(client) : NULL;
    if (handle) {
        perform(client, handle->curl, headers, request, reply);
        give_handle(client, handle, reply->outcome != HTTP_IMPOSSIBLE);
    }
    client->calls->slist_free_all(headers);
    if (!handle || reply->body.failed)
        return error_set(err, ERROR_MEMORY, "no memory for an HTTP request");
    return 0;
}

void http_reply_init(struct http_reply *reply)
{
    *reply = (struct http_reply){0};
    strbuf_init(&reply->body);
}

void http_reply_release(struct http_reply *reply)
{
    strbuf_release(&reply->body);
}

void http_encode(struct strbuf *out, const char *text, bool keep_slash)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text; text++) {
        if (strchr(plain, *text) || (keep_slash && *text == '/'))
            strbuf_add_char(out, *text);
        else
            strbuf_addf(out, "%%%02X", (unsigned char)*text);
    }
}
