#include "net/s3_request.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "net/sha256.h"
#include "net/xml.h"

enum { LONGEST_WAIT = 20 };

enum verdict { DONE, AGAIN, AGAIN_WITH_NEW_CREDENTIALS, HOPELESS };

/* The state of a request over its attempts. */
struct attempts {
    const struct s3_request *request;
    struct strbuf url;
    char hash[SHA256_TEXT];
    size_t got;        /* of a ranged read */
    char code[64];     /* the server's word for what is wrong, or "" */
    char message[200]; /* and its sentence */
    bool refreshed;
};

static void make_url(const struct s3 *s3, const struct s3_request *request, struct strbuf *url)
{
    strbuf_add(url, s3->base);
    strbuf_add_char(url, '/');
    if (request->key)
        http_encode(url, request->key, true);
    if (request->query)
        strbuf_addf(url, "?%s", request->query);
}

static int add_header(const char **list, int used, struct strbuf *text, const char *name,
                      const char *value)
{
    strbuf_clear(text);
    strbuf_addf(text, "%s: %s", name, value);
    list[used] = text->text;
    return used + 1;
}

enum { HEADER_TEXTS = 5 };

static int send_once(struct s3 *s3, struct attempts *state, const struct aws_credentials *who,
                     struct http_reply *reply, struct error *err)
{
    const struct s3_request *request = state->request;
    struct strbuf texts[HEADER_TEXTS];
    const char *headers[HEADER_TEXTS + 5];
    char range[64];
    int used = 0;
    for (int i = 0; i < HEADER_TEXTS; i++)
        strbuf_init(&texts[i]);
    /* Given by us, because libcurl 7.88 signs the host without its port, but sends it with one. */
    used = add_header(headers, used, &texts[used], "Host", s3->host);
    if (!who->anonymous)
        used = add_header(headers, used, &texts[used], "x-amz-content-sha256", state->hash);
    if (!who->anonymous && who->token[0])
        used = add_header(headers, used, &texts[used], "x-amz-security-token", who->token);
    if (request->ranged) {
        snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, request->offset + state->got,
                 request->offset + request->into_bytes - 1);
        used = add_header(headers, used, &texts[used], "Range", range);
        if (request->etag && request->etag[0])
            used = add_header(headers, used, &texts[used], "If-Match", request->etag);
    }
    for (int i = 0; i < 4 && request->headers[i]; i++)
        headers[used++] = request->headers[i];
    headers[used] = NULL;

    struct http_signature signature = {.region = aws_region(s3->identity),
                                       .service = "s3",
                                       .key_id = who->key_id,
                                       .secret = who->secret};
    struct http_request http = {
        .method = request->method,
        .url = state->url.text,
        .headers = headers,
        .body = request->body,
        .body_bytes = request->body_bytes,
        .signature = who->anonymous ? NULL : &signature,
        .into = request->into ? (char *)request->into + state->got : NULL,
        .into_bytes = request->into_bytes - state->got,
        .despite_stop = request->cleans_up,
    };
    int status = http_perform(s3->client, &http, reply, err);
    for (int i = 0; i < HEADER_TEXTS; i++) {
        if (texts[i].length)
            explicit_bzero(texts[i].text, texts[i].length);
        strbuf_release(&texts[i]);
    }
    return status;
}

/* The server's words may be anything; a terminal shall not obey them. */
static void keep_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

static void read_failure(struct attempts *state, const struct http_reply *reply)
{
    const struct strbuf *body = &reply->body;
    state->code[0] = state->message[0] = '\0';
    xml_find(body->text, body->length, "Code", state->code, sizeof state->code);
    xml_find(body->text, body->length, "Message", state->message, sizeof state->message);
    keep_printable(state->code);
    keep_printable(state->message);
}

/* The body of a ranged read came, whole or not; `got` counts it, unless it is of another object
 * or place. */
static enum verdict judge_range(struct attempts *state, const struct http_reply *reply)
{
    const struct s3_request *request = state->request;
    bool whole = reply->status == 200; /* a server that ignores the range sends all */
    uint64_t start = reply->range_start >= 0 ? (uint64_t)reply->range_start : 0;
    if (request->etag && request->etag[0] && strcmp(reply->etag, request->etag) != 0) {
        snprintf(state->code, sizeof state->code, "PreconditionFailed");
        return HOPELESS;
    }
    if (start != request->offset + state->got || (whole && reply->outcome == HTTP_TOO_LONG)) {
        snprintf(state->code, sizeof state->code, "NoRanges");
        return HOPELESS;
    }
    if (reply->outcome == HTTP_TOO_LONG)
        return HOPELESS;
    state->got += reply->received;
    return state->got == request->into_bytes ? DONE : AGAIN;
}

static bool passes_by_itself(const struct attempts *state, int status)
{
    static const char *const codes[] = {
        "SlowDown",   "RequestTimeout",      "InternalError",   "ServiceUnavailable",
        "Throttling", "ThrottlingException", "OperationAborted"};
    if (status >= 500 || status == 429 || status == 408)
        return status != 501 && status != 505;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(state->code, codes[i]) == 0)
            return true;
    return false;
}

static enum verdict judge(struct attempts *state, const struct http_reply *reply)
{
    state->code[0] = state->message[0] = '\0';
    if (reply->status / 100 == 2 && state->request->ranged)
        return judge_range(state, reply);
    if (reply->outcome == HTTP_INTERRUPTED)
        return AGAIN;
    if (reply->outcome != HTTP_REPLIED)
        return HOPELESS;
    if (reply->status / 100 == 2 || (reply->status == 404 && state->request->missing_fine))
        return DONE;
    read_failure(state, reply);
    if (strcmp(state->code, "ExpiredToken") == 0 && !state->refreshed)
        return AGAIN_WITH_NEW_CREDENTIALS;
    return passes_by_itself(state, reply->status) ? AGAIN : HOPELESS;
}

/* Half of it fixed, half at random, so that many ranks do not come back at the same moment. */
static double wait_before(const struct s3 *s3, int attempt, double asked)
{
    double wait = s3->settings.retry_wait;
    for (int i = 1; i < attempt && wait < LONGEST_WAIT; i++)
        wait *= 2;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    wait *= 0.5 + 0.5 * (double)(now.tv_nsec / 1000 % 1000) / 1000;
    if (asked > wait)
        wait = asked;
    return wait < LONGEST_WAIT ? wait : LONGEST_WAIT;
}

/* ---- what a user is told ---- */

static int tell_denied(const struct s3 *s3, const char *what, const struct attempts *state,
                       struct error *err)
{
    const char *source = aws_credentials_source(s3->identity);
    if (strncmp(source, "nowhere", 7) == 0)
        return error_set(err, ERROR_IO,
                         "%s: access denied. No credentials were found, so the request was not "
                         "signed; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE",
                         what);
    return error_set(err, ERROR_IO,
                     "%s: access denied%s%s; the credentials from %s must be allowed "
                     "s3:GetObject and s3:ListBucket (to write, s3:PutObject) there",
                     what, state->message[0] ? ": " : "", state->message, source);
}

static int tell_code(const struct s3 *s3, const char *what, const struct attempts *state,
                     const struct http_reply *reply, struct error *err)
{
    const char *code = state->code, *source = aws_credentials_source(s3->identity);
    if (strcmp(code, "RequestTimeTooSkewed") == 0)
        return error_set(err, ERROR_IO,
                         "%s: this machine's clock and the server's (%s) differ too much for a "
                         "signature; set the clock",
                         what, reply->date[0] ? reply->date : "unknown");
    if (strcmp(code, "SignatureDoesNotMatch") == 0 || strcmp(code, "InvalidAccessKeyId") == 0)
        return error_set(err, ERROR_IO,
                         "%s: the server at %s does not accept the credentials from %s (%s): %s",
                         what, s3_endpoint(s3), source, code,
                         code[0] == 'S' ? "the secret key is wrong" : "it does not know the key");
    if (strcmp(code, "ExpiredToken") == 0 || strcmp(code, "InvalidToken") == 0)
        return error_set(err, ERROR_IO, "%s: the session token from %s %s; get a new one", what,
                         source, code[0] == 'E' ? "has expired" : "is not valid");
    if (strcmp(code, "NoSuchBucket") == 0)
        return error_set(err, ERROR_IO, "%s: there is no bucket %s at %s", what, s3->bucket,
                         s3_endpoint(s3));
    if (strcmp(code, "PreconditionFailed") == 0)
        return error_set(err, ERROR_IO,
                         "%s: changed while it was being read; start again when nobody writes it",
                         what);
    if (strcmp(code, "NoRanges") == 0)
        return error_set(err, ERROR_IO,
                         "%s: the server did not send the range that was asked for; is %s an S3 "
                         "server?",
                         what, s3_endpoint(s3));
    if (strcmp(code, "AccessDenied") == 0 || reply->status == 403)
        return tell_denied(s3, what, state, err);
    return -2;
}

static bool wrong_region(const struct s3 *s3, const struct http_reply *reply, char region[64])
{
    snprintf(region, 64, "%s", reply->region);
    if (!region[0])
        xml_find(reply->body.text, reply->body.length, "Region", region, 64);
    keep_printable(region);
    return region[0] && strcmp(region, aws_region(s3->identity)) != 0;
}

static int tell_status(const struct s3 *s3, const char *what, const struct attempts *state,
                       const struct http_reply *reply, struct error *err)
{
    char region[64];
    if ((reply->status / 100 == 3 || reply->status == 400) && wrong_region(s3, reply, region))
        return error_set(err, ERROR_IO, "%s: the bucket is in region %s, not %s: set AWS_REGION=%s",
                         what, region, aws_region(s3->identity), region);
    int told = tell_code(s3, what, state, reply, err);
    if (told != -2)
        return told;
    if (reply->status == 404 && state->request->key &&
        (!state->code[0] || strcmp(state->code, "NoSuchKey") == 0))
        return error_set(err, ERROR_IO, "%s: there is no such object at %s", what, s3_endpoint(s3));
    return error_set(err, ERROR_IO, "%s: the server at %s answers with status %d%s%s%s%s", what,
                     s3_endpoint(s3), reply->status, state->code[0] ? " " : "", state->code,
                     state->message[0] ? ": " : "", state->message);
}

static int tell(const struct s3 *s3, const struct attempts *state, const struct http_reply *reply,
                int attempts, struct error *err)
{
    const struct s3_request *request = state->request;
    char what[S3_KEY_BYTES + S3_BUCKET_BYTES + 8], tries[40] = "";
    snprintf(what, sizeof what, "s3://%s%s%.200s", s3->bucket, request->key ? "/" : "",
             request->key ? request->key : "");
    if (reply->outcome == HTTP_TOO_LONG && !state->code[0])
        return error_set(err, ERROR_FORMAT, "%s: the server at %s sends more than was asked for",
                         what, s3_endpoint(s3));
    if (reply->outcome == HTTP_IMPOSSIBLE)
        return error_set(err, ERROR_IO, "%s: %s: %s", what, s3_endpoint(s3), reply->failure);
    int status;
    if (reply->outcome == HTTP_INTERRUPTED)
        status = error_set(err, ERROR_IO, "%s: %s: %s", what, s3_endpoint(s3), reply->failure);
    else if (request->ranged && reply->status / 100 == 2 && !state->code[0])
        status = error_set(err, ERROR_IO,
                           "%s: the server at %s sent only %zu of the %zu bytes from offset "
                           "%" PRIu64,
                           what, s3_endpoint(s3), state->got, request->into_bytes, request->offset);
    else
        status = tell_status(s3, what, state, reply, err);
    if (attempts > 1 && err) {
        snprintf(tries, sizeof tries, " (after %d attempts)", attempts);
        size_t length = strlen(err->message);
        snprintf(err->message + length, sizeof err->message - length, "%s", tries);
    }
    return status;
}

static int try_and_try(struct s3 *s3, struct attempts *state, struct http_reply *reply,
                       struct error *err)
{
    struct aws_credentials who;
    double start = clock_seconds();
    bool refresh = false;
    for (int attempt = 1;; attempt++) {
        if ((!state->request->cleans_up && stop_check(s3->settings.stop, err) < 0) ||
            aws_credentials_get(s3->identity, refresh, &who, err) < 0)
            return -1;
        int sent = send_once(s3, state, &who, reply, err);
        explicit_bzero(&who, sizeof who);
        if (sent < 0)
            return -1;
        enum verdict verdict = judge(state, reply);
        if (verdict == DONE)
            return 0;
        if (reply->outcome == HTTP_STOPPED)
            return stop_check(s3->settings.stop, err);
        double wait = wait_before(s3, attempt, reply->retry_after);
        bool late = clock_seconds() - start + wait > s3->settings.retry_total;
        if (verdict == HOPELESS || attempt >= s3->settings.attempts || late)
            return tell(s3, state, reply, attempt, err);
        refresh = verdict == AGAIN_WITH_NEW_CREDENTIALS;
        state->refreshed |= refresh;
        if (!refresh && stop_wait(s3->settings.stop, wait, err) < 0)
            return -1;
    }
}

int s3_perform(struct s3 *s3, const struct s3_request *request, struct http_reply *reply,
               struct error *err)
{
    struct attempts state = {.request = request};
    strbuf_init(&state.url);
    make_url(s3, request, &state.url);
    /* The real hash, not UNSIGNED-PAYLOAD: it is accepted over plain HTTP too, and the server
     * thereby checks that it got what was sent. */
    sha256_text(request->body ? request->body : "", request->body ? request->body_bytes : 0,
                state.hash);
    int status = state.url.failed ? error_set(err, ERROR_MEMORY, "no memory for a request")
                                  : try_and_try(s3, &state, reply, err);
    strbuf_release(&state.url);
    return status;
}
