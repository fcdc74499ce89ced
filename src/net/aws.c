#include "net/aws.h"

#include <limits.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "net/aws_profile.h"
#include "net/http.h"
#include "net/xml.h"

enum { FILE_LIMIT = 1 << 20, EARLY_SECONDS = 300, STS_ATTEMPTS = 4 };

struct aws_identity {
    struct http_client *client;
    char profile[128], region[64], source[160];
    char *files[2]; /* credentials and config; NULL: not there */
    size_t bytes[2];
    bool web;             /* the rest comes from STS and changes */
    pthread_mutex_t lock; /* guards `current`; held while STS is asked */
    struct aws_credentials current;
};

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The section of each file that is this profile's: only config says "profile " before the name. */
static void section_of(const struct aws_identity *identity, int file, char out[160])
{
    bool plain = file == 0 || strcmp(identity->profile, "default") == 0;
    snprintf(out, 160, "%s%s", plain ? "" : "profile ", identity->profile);
}

static bool profile_value(const struct aws_identity *identity, const char *name,
                          char out[AWS_VALUE_BYTES])
{
    char section[160];
    for (int i = 0; i < 2; i++) {
        section_of(identity, i, section);
        if (identity->files[i] &&
            aws_profile_get(identity->files[i], identity->bytes[i], section, name, out))
            return true;
    }
    return out[0] = '\0', false;
}

void aws_profile_setting(const struct aws_identity *identity, const char *name, char *out,
                         size_t space)
{
    char value[AWS_VALUE_BYTES];
    snprintf(out, space, "%s", profile_value(identity, name, value) ? value : "");
}

static int read_files(struct aws_identity *identity, struct error *err)
{
    static const char *const variables[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
    static const char *const names[] = {"credentials", "config"};
    bool found = false;
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX], section[160];
        const char *given = setting(variables[i]), *home = setting("HOME");
        snprintf(path, sizeof path, "%s%s%s",
                 given  ? given
                 : home ? home
                        : "",
                 given ? "" : "/.aws/", given ? "" : names[i]);
        if (access(path, F_OK) < 0)
            continue;
        if (file_read(path, FILE_LIMIT, &identity->files[i], &identity->bytes[i], err) < 0)
            return -1;
        section_of(identity, i, section);
        found |= aws_profile_has(identity->files[i], identity->bytes[i], section);
    }
    if (!found && setting("AWS_PROFILE"))
        return error_set(err, ERROR_USAGE,
                         "AWS_PROFILE=%s: neither the credentials file nor the config file has a "
                         "profile of this name",
                         identity->profile);
    return 0;
}

static int copy_secret(char *out, size_t space, const char *value, const char *name,
                       struct error *err)
{
    if ((size_t)snprintf(out, space, "%s", value ? value : "") >= space)
        return error_set(err, ERROR_USAGE, "%s is longer than %zu bytes", name, space - 1);
    if (strpbrk(out, "\r\n"))
        return error_set(err, ERROR_USAGE, "%s holds a line break", name);
    return 0;
}

static int set_static(struct aws_identity *identity, const char *key_id, const char *secret,
                      const char *token, struct error *err)
{
    struct aws_credentials *to = &identity->current;
    if (!key_id || !secret || !*key_id || !*secret)
        return error_set(err, ERROR_USAGE,
                         "the credentials from %s have an access key or a secret key, but not both",
                         identity->source);
    if (copy_secret(to->key_id, sizeof to->key_id, key_id, "the access key", err) < 0 ||
        copy_secret(to->secret, sizeof to->secret, secret, "the secret key", err) < 0)
        return -1;
    return copy_secret(to->token, sizeof to->token, token, "the session token", err);
}

/* What a profile may say and we cannot do: better said than tried without a signature. */
static int refuse_foreign(const struct aws_identity *identity, struct error *err)
{
    static const char *const names[] = {"credential_process", "sso_session", "sso_start_url",
                                        "source_profile", "credential_source"};
    char value[AWS_VALUE_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (profile_value(identity, names[i], value))
            return error_set(err, ERROR_USAGE,
                             "profile %s gets its credentials by %s, which lockstep does not do; "
                             "put them into the environment: eval \"$(aws configure "
                             "export-credentials --profile %s --format env)\"",
                             identity->profile, names[i], identity->profile);
    return 0;
}

static int find_credentials(struct aws_identity *identity, struct error *err)
{
    const char *unsigned_wanted = setting("AWS_NO_SIGN_REQUEST");
    if (unsigned_wanted &&
        (strcasecmp(unsigned_wanted, "true") == 0 || strcmp(unsigned_wanted, "1") == 0)) {
        identity->current.anonymous = true;
        snprintf(identity->source, sizeof identity->source, "nowhere (AWS_NO_SIGN_REQUEST)");
        return 0;
    }
    if (setting("AWS_ACCESS_KEY_ID") || setting("AWS_SECRET_ACCESS_KEY")) {
        snprintf(identity->source, sizeof identity->source, "the environment");
        return set_static(identity, setting("AWS_ACCESS_KEY_ID"), setting("AWS_SECRET_ACCESS_KEY"),
                          setting("AWS_SESSION_TOKEN"), err);
    }
    char id[AWS_VALUE_BYTES], secret[AWS_VALUE_BYTES], token[AWS_VALUE_BYTES];
    if (profile_value(identity, "aws_access_key_id", id)) {
        profile_value(identity, "aws_secret_access_key", secret);
        profile_value(identity, "aws_session_token", token);
        snprintf(identity->source, sizeof identity->source, "profile %s", identity->profile);
        return set_static(identity, id, secret, token, err);
    }
    if (setting("AWS_WEB_IDENTITY_TOKEN_FILE") && setting("AWS_ROLE_ARN")) {
        identity->web = true;
        snprintf(identity->source, sizeof identity->source, "the web identity");
        return 0;
    }
    identity->current.anonymous = true;
    snprintf(identity->source, sizeof identity->source, "nowhere");
    return refuse_foreign(identity, err);
}

int aws_identity_create(struct http_client *client, struct aws_identity **out, struct error *err)
{
    struct aws_identity *identity = memory_allocate(sizeof *identity);
    if (!identity)
        return error_set(err, ERROR_MEMORY, "no memory for credentials");
    identity->client = client;
    pthread_mutex_init(&identity->lock, NULL);
    const char *profile = setting("AWS_PROFILE"), *region = setting("AWS_REGION");
    snprintf(identity->profile, sizeof identity->profile, "%s", profile ? profile : "default");
    if (read_files(identity, err) < 0 || find_credentials(identity, err) < 0) {
        aws_identity_destroy(identity);
        return -1;
    }
    char from_profile[AWS_VALUE_BYTES];
    if (!region)
        region = setting("AWS_DEFAULT_REGION");
    if (!region && profile_value(identity, "region", from_profile))
        region = from_profile;
    snprintf(identity->region, sizeof identity->region, "%s", region ? region : "us-east-1");
    *out = identity;
    return 0;
}

void aws_identity_destroy(struct aws_identity *identity)
{
    if (!identity)
        return;
    for (int i = 0; i < 2; i++) {
        if (identity->files[i])
            explicit_bzero(identity->files[i], identity->bytes[i]);
        memory_free(identity->files[i]);
    }
    pthread_mutex_destroy(&identity->lock);
    explicit_bzero(identity, sizeof *identity);
    memory_free(identity);
}

const char *aws_region(const struct aws_identity *identity)
{
    return identity->region;
}

const char *aws_credentials_source(const struct aws_identity *identity)
{
    return identity->source;
}

int aws_sts_reply(const void *bytes, size_t count, struct aws_credentials *out, struct error *err)
{
    char when[40];
    struct tm time = {0};
    *out = (struct aws_credentials){0};
    if (!xml_find(bytes, count, "AccessKeyId", out->key_id, sizeof out->key_id) ||
        !xml_find(bytes, count, "SecretAccessKey", out->secret, sizeof out->secret) ||
        !xml_find(bytes, count, "SessionToken", out->token, sizeof out->token) ||
        !xml_find(bytes, count, "Expiration", when, sizeof when) ||
        !strptime(when, "%Y-%m-%dT%H:%M:%S", &time) || strpbrk(out->token, "\r\n"))
        return error_set(err, ERROR_FORMAT, "the token service's answer holds no credentials");
    out->expires = timegm(&time);
    return 0;
}

static int make_sts_body(struct strbuf *body, struct error *err)
{
    const char *path = setting("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = setting("AWS_ROLE_ARN");
    const char *session = setting("AWS_ROLE_SESSION_NAME");
    char *token;
    size_t bytes;
    /* Read each time: the kubelet replaces it long before it ends. */
    if (file_read(path ? path : "", FILE_LIMIT, &token, &bytes, err) < 0)
        return error_wrap(err, "AWS_WEB_IDENTITY_TOKEN_FILE");
    token[strcspn(token, "\r\n")] = '\0';
    strbuf_add(body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    http_encode(body, role ? role : "", false);
    strbuf_add(body, "&RoleSessionName=");
    http_encode(body, session ? session : "lockstep", false);
    strbuf_add(body, "&WebIdentityToken=");
    http_encode(body, token, false);
    explicit_bzero(token, bytes);
    memory_free(token);
    return body->failed ? error_set(err, ERROR_MEMORY, "no memory for a token") : 0;
}

/* Only the code is repeated: STS's messages may quote the token. */
static int sts_refused(const struct http_reply *reply, struct error *err)
{
    char code[64] = "";
    if (reply->outcome != HTTP_REPLIED)
        return error_set(err, ERROR_IO,
                         "the token service (STS) does not answer: %s; "
                         "AWS_ENDPOINT_URL_STS names another",
                         reply->failure);
    xml_find(reply->body.text, reply->body.length, "Code", code, sizeof code);
    return error_set(err, ERROR_IO,
                     "the token service (STS) refuses the web identity with status %d%s%s; look "
                     "at the trust policy of AWS_ROLE_ARN and at AWS_WEB_IDENTITY_TOKEN_FILE",
                     reply->status, code[0] ? " " : "", code);
}

static int ask_sts(struct aws_identity *identity, const char *body, size_t bytes,
                   struct http_reply *reply, struct error *err)
{
    char regional[128];
    const char *endpoint = setting("AWS_ENDPOINT_URL_STS");
    const char *headers[] = {"Content-Type: application/x-www-form-urlencoded", NULL};
    snprintf(regional, sizeof regional, "https://sts.%s.amazonaws.com%s/", identity->region,
             strncmp(identity->region, "cn-", 3) == 0 ? ".cn" : "");
    struct http_request request = {.method = "POST",
                                   .url = endpoint ? endpoint : regional,
                                   .headers = headers,
                                   .body = body,
                                   .body_bytes = bytes};
    for (int attempt = 0; attempt < STS_ATTEMPTS; attempt++) {
        if (attempt > 0)
            usleep(100000u << attempt);
        if (http_perform(identity->client, &request, reply, err) < 0)
            return -1;
        if (reply->outcome == HTTP_STOPPED)
            return error_set(err, ERROR_CANCELLED, "stopped");
        if (reply->outcome == HTTP_REPLIED && reply->status < 500 && reply->status != 429)
            break;
    }
    if (reply->outcome != HTTP_REPLIED || reply->status != 200)
        return sts_refused(reply, err);
    return aws_sts_reply(reply->body.text, reply->body.length, &identity->current, err);
}

static int exchange(struct aws_identity *identity, struct error *err)
{
    struct strbuf body;
    struct http_reply reply;
    strbuf_init(&body);
    http_reply_init(&reply);
    int status = make_sts_body(&body, err);
    if (status == 0)
        status = ask_sts(identity, body.text, body.length, &reply, err);
    if (reply.body.text)
        explicit_bzero(reply.body.text, reply.body.length);
    if (body.text)
        explicit_bzero(body.text, body.length);
    http_reply_release(&reply);
    strbuf_release(&body);
    return status;
}

int aws_credentials_get(struct aws_identity *identity, bool refresh, struct aws_credentials *out,
                        struct error *err)
{
    pthread_mutex_lock(&identity->lock);
    struct aws_credentials *current = &identity->current;
    bool old = current->expires - EARLY_SECONDS < (int64_t)clock_wall_seconds();
    int status = identity->web && (refresh || old) ? exchange(identity, err) : 0;
    /* Asked early, answered badly: what is still valid will do, and the next call asks again. */
    if (status < 0 && !refresh && current->expires > (int64_t)clock_wall_seconds())
        status = 0;
    if (status == 0)
        *out = *current;
    pthread_mutex_unlock(&identity->lock);
    return status;
}
