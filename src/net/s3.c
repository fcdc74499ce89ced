#include "net/s3.h"

#include <ctype.h>
#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"
#include "net/s3_list.h"
#include "net/s3_request.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int number_from(const char *name, double least, double most, double *out, struct error *err)
{
    const char *text = variable(name);
    if (!text)
        return 0;
    char *end;
    double value = strtod(text, &end);
    if (*end || !(value >= least) || value > most)
        return error_set(err, ERROR_USAGE, "%s=%s: a number from %g to %g was expected", name, text,
                         least, most);
    *out = value;
    return 0;
}

static int endpoint_from(struct s3_settings *out, struct error *err)
{
    const char *given = variable("AWS_ENDPOINT_URL_S3"), *https = variable("S3_USE_HTTPS");
    if (!given)
        given = variable("AWS_ENDPOINT_URL");
    if (!given)
        given = variable("S3_ENDPOINT");
    if (!given)
        return 0;
    const char *scheme = strstr(given, "://")               ? ""
                         : https && strcmp(https, "0") == 0 ? "http://"
                                                            : "https://";
    size_t length = (size_t)snprintf(out->endpoint, sizeof out->endpoint, "%s%s", scheme, given);
    while (length > 0 && length < sizeof out->endpoint && out->endpoint[length - 1] == '/')
        out->endpoint[--length] = '\0';
    const char *host = strstr(out->endpoint, "://");
    if (length >= sizeof out->endpoint ||
        (strncmp(out->endpoint, "http://", 7) != 0 && strncmp(out->endpoint, "https://", 8) != 0) ||
        !host[3] || strpbrk(host + 3, "/?#@ \r\n"))
        return error_set(err, ERROR_USAGE,
                         "the S3 endpoint %.200s is not of the form http[s]://host[:port]", given);
    out->path_style = true;
    return 0;
}

static int addressing_from(struct s3_settings *out, struct error *err)
{
    const char *addressing = variable("LOCKSTEP_S3_ADDRESSING");
    if (!addressing)
        return 0;
    bool path = strcmp(addressing, "path") == 0;
    if (!path && strcmp(addressing, "virtual") != 0)
        return error_set(err, ERROR_USAGE, "LOCKSTEP_S3_ADDRESSING=%s: path or virtual",
                         addressing);
    out->path_style = path;
    return 0;
}

int s3_settings_read(struct s3_settings *out, struct error *err)
{
    double attempts = 8;
    *out = (struct s3_settings){.retry_wait = 0.2,
                                .retry_total = 180,
                                .connect_seconds = 10,
                                .stall_seconds = 30,
                                .list_limit = 20000000,
                                .part_bytes = (size_t)16 << 20};
    if (endpoint_from(out, err) < 0 || addressing_from(out, err) < 0 ||
        number_from("AWS_MAX_ATTEMPTS", 1, 100, &attempts, err) < 0 ||
        number_from("LOCKSTEP_S3_RETRY_SECONDS", 0, 60, &out->retry_wait, err) < 0)
        return -1;
    out->attempts = (int)attempts;
    return number_from("LOCKSTEP_S3_STALL_SECONDS", 1, 3600, &out->stall_seconds, err);
}

static bool valid_bucket(const char *name)
{
    size_t length = strlen(name);
    if (length < 3 || length >= S3_BUCKET_BYTES)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("-._", *name))
            return false;
    return true;
}

int s3_parse(const char *url, char bucket[S3_BUCKET_BYTES], char prefix[S3_KEY_BYTES],
             struct error *err)
{
    const char *at = strncmp(url, "s3://", 5) == 0 ? url + 5 : url;
    size_t length = strcspn(at, "/");
    snprintf(bucket, S3_BUCKET_BYTES, "%.*s", length < 512 ? (int)length : 512, at);
    if (at == url || length >= S3_BUCKET_BYTES || !valid_bucket(bucket))
        return error_set(
            err, ERROR_USAGE,
            "%.300s: expected s3://BUCKET or s3://BUCKET/PREFIX, with a bucket name of "
            "3 to 63 letters, digits, dots and hyphens",
            url);
    at += length;
    at += *at == '/';
    length = strlen(at);
    while (length > 0 && at[length - 1] == '/')
        length--;
    if (length >= S3_KEY_BYTES)
        return error_set(err, ERROR_USAGE, "%.300s...: the prefix is longer than %d bytes", url,
                         S3_KEY_BYTES - 1);
    memcpy(prefix, at, length);
    prefix[length] = '\0';
    return 0;
}

/* The profile may name an endpoint where the environment does not. */
static void endpoint_from_profile(struct s3 *s3)
{
    char *endpoint = s3->settings.endpoint;
    if (endpoint[0])
        return;
    aws_profile_setting(s3->identity, "endpoint_url", endpoint, sizeof s3->settings.endpoint);
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        endpoint[--length] = '\0';
    if (endpoint[0] && !variable("LOCKSTEP_S3_ADDRESSING"))
        s3->settings.path_style = true;
}

static void make_base(struct s3 *s3)
{
    endpoint_from_profile(s3);
    char *endpoint = s3->settings.endpoint;
    if (!endpoint[0]) {
        const char *region = aws_region(s3->identity);
        snprintf(endpoint, sizeof s3->settings.endpoint, "https://s3.%s.amazonaws.com%s", region,
                 strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
        /* The certificate is for *.s3...: no dots in the star. */
        s3->settings.path_style |= strchr(s3->bucket, '.') != NULL;
    }
    const char *colon = strstr(endpoint, "://");
    int scheme = colon ? (int)(colon - endpoint) : 0;
    const char *host = colon ? colon + 3 : endpoint;
    if (s3->settings.path_style) {
        snprintf(s3->host, sizeof s3->host, "%s", host);
        snprintf(s3->base, sizeof s3->base, "%s/%s", endpoint, s3->bucket);
    } else {
        snprintf(s3->host, sizeof s3->host, "%s.%s", s3->bucket, host);
        snprintf(s3->base, sizeof s3->base, "%.*s://%s", scheme, endpoint, s3->host);
    }
}

int s3_open(const char *bucket, const struct s3_settings *settings, struct s3 **out,
            struct error *err)
{
    struct s3 *s3 = memory_allocate(sizeof *s3);
    if (!s3)
        return error_set(err, ERROR_MEMORY, "no memory for an S3 client");
    s3->settings = *settings;
    snprintf(s3->bucket, sizeof s3->bucket, "%s", bucket);
    struct http_settings http = {.connect_seconds = settings->connect_seconds,
                                 .stall_seconds = settings->stall_seconds,
                                 .stop = settings->stop,
                                 .ca_bundle = variable("AWS_CA_BUNDLE")};
    if (http_client_create(&http, &s3->client, err) < 0 ||
        aws_identity_create(s3->client, &s3->identity, err) < 0) {
        s3_close(s3);
        return -1;
    }
    make_base(s3);
    *out = s3;
    return 0;
}

void s3_close(struct s3 *s3)
{
    if (!s3)
        return;
    aws_identity_destroy(s3->identity);
    http_client_destroy(s3->client);
    memory_free(s3);
}

const char *s3_endpoint(const struct s3 *s3)
{
    return s3->settings.endpoint;
}

struct listing {
    s3_visit *visit;
    void *context;
    int64_t objects, limit;
};

static int count_and_visit(void *context, const struct s3_object *object, struct error *err)
{
    struct listing *listing = context;
    if (++listing->objects > listing->limit)
        return error_set(err, ERROR_FORMAT, "the list has more than %" PRId64 " objects",
                         listing->limit);
    return listing->visit(listing->context, object, err);
}

static int list_page(struct s3 *s3, const char *prefix, struct listing *listing,
                     char token[S3_TOKEN_BYTES], struct http_reply *reply, struct error *err)
{
    struct strbuf query;
    strbuf_init(&query); /* by name: c, l, p */
    if (token[0]) {
        strbuf_add(&query, "continuation-token=");
        http_encode(&query, token, false);
        strbuf_add_char(&query, '&');
    }
    strbuf_add(&query, "list-type=2&prefix=");
    http_encode(&query, prefix, false);
    struct s3_request request = {.method = "GET", .query = query.text};
    int status = query.failed ? error_set(err, ERROR_MEMORY, "no memory for a request")
                              : s3_perform(s3, &request, reply, err);
    strbuf_release(&query);
    if (status < 0)
        return -1;
    char next[S3_TOKEN_BYTES];
    int objects =
        s3_list_page(reply->body.text, reply->body.length, count_and_visit, listing, next, err);
    if (objects < 0)
        return error_wrap(err, "s3://%s/%s", s3->bucket, prefix);
    /* A server that never comes to an end would hold us for ever. */
    if (next[0] && (objects == 0 || strcmp(next, token) == 0))
        return error_set(err, ERROR_FORMAT,
                         "s3://%s/%s: the server at %s goes round in circles while listing",
                         s3->bucket, prefix, s3_endpoint(s3));
    memcpy(token, next, S3_TOKEN_BYTES);
    return 0;
}

int s3_list(struct s3 *s3, const char *prefix, s3_visit *visit, void *context, struct error *err)
{
    struct listing listing = {visit, context, 0, s3->settings.list_limit};
    struct http_reply reply;
    char token[S3_TOKEN_BYTES] = "";
    int status;
    http_reply_init(&reply);
    do
        status = list_page(s3, prefix, &listing, token, &reply, err);
    while (status == 0 && token[0]);
    http_reply_release(&reply);
    return status;
}

int s3_find(struct s3 *s3, const char *key, bool *found, struct s3_object *out, struct error *err)
{
    struct http_reply reply;
    struct s3_request request = {.method = "HEAD", .key = key, .missing_fine = true};
    http_reply_init(&reply);
    int status = s3_perform(s3, &request, &reply, err);
    *found = status == 0 && reply.status / 100 == 2;
    *out = (struct s3_object){.key = key, .bytes = reply.length > 0 ? (uint64_t)reply.length : 0};
    snprintf(out->etag, sizeof out->etag, "%s", reply.etag);
    http_reply_release(&reply);
    return status;
}

int s3_read(struct s3 *s3, const char *key, const char *etag, uint64_t offset, size_t bytes,
            void *out, struct error *err)
{
    struct http_reply reply;
    struct s3_request request = {.method = "GET",
                                 .key = key,
                                 .etag = etag,
                                 .ranged = true,
                                 .offset = offset,
                                 .into = out,
                                 .into_bytes = bytes};
    http_reply_init(&reply);
    int status = s3_perform(s3, &request, &reply, err);
    http_reply_release(&reply);
    return status;
}
