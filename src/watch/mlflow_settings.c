#include "watch/mlflow_settings.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "net/aws_profile.h"

struct reader {
    char *(*environment)(const char *name);
    struct error *err;
};

static const char *look_up(const struct reader *in, const char *name)
{
    const char *value = in->environment(name);
    return value && *value ? value : NULL;
}

/* "" when the variable is not set. The value may be a secret: the message has none. */
static int copy(const struct reader *in, const char *name, char *out, size_t space)
{
    const char *value = look_up(in, name);
    int length = snprintf(out, space, "%s", value ? value : "");
    if (length < 0 || (size_t)length >= space)
        return error_set(in->err, ERROR_USAGE, "%s is longer than %zu bytes", name, space - 1);
    return 0;
}

void mlflow_hide_password(const char *url, char out[MLFLOW_URL_BYTES])
{
    const char *authority = strstr(url, "://");
    authority = authority ? authority + 3 : url;
    size_t length = strcspn(authority, "/?#");
    const char *host = authority;
    for (const char *at = authority; at < authority + length; at++)
        if (*at == '@')
            host = at + 1;
    snprintf(out, MLFLOW_URL_BYTES, "%.*s%s", (int)(authority - url), url, host);
}

static int read_url(const struct reader *in, struct mlflow_settings *out)
{
    if (copy(in, "MLFLOW_TRACKING_URI", out->url, sizeof out->url) < 0)
        return -1;
    mlflow_hide_password(out->url, out->shown);
    size_t length = strlen(out->url);
    if (length == 0)
        return 0;
    if (strncasecmp(out->url, "http://", 7) != 0 && strncasecmp(out->url, "https://", 8) != 0)
        return error_set(in->err, ERROR_USAGE,
                         "MLFLOW_TRACKING_URI=%s: lockstep speaks to a tracking server, by http:// "
                         "or https://; `mlflow server --backend-store-uri %s` makes one of a store",
                         out->shown, out->shown);
    if (strchr("/?#", strstr(out->url, "://")[3]))
        return error_set(in->err, ERROR_USAGE, "MLFLOW_TRACKING_URI=%s names no host", out->shown);
    while (out->url[length - 1] == '/')
        out->url[--length] = '\0';
    mlflow_hide_password(out->url, out->shown);
    return 0;
}

/* What MLflow's client would do, and we would get wrong by leaving it out. */
static int refuse_others(const struct reader *in)
{
    static const char *const others[][2] = {
        {"MLFLOW_TRACKING_AUTH", "plugins of the Python client are not there"},
        {"MLFLOW_TRACKING_AWS_SIGV4", "requests to MLflow are not signed"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *value = look_up(in, others[i][0]);
        if (value && strcasecmp(value, "false") != 0 && strcmp(value, "0") != 0)
            return error_set(in->err, ERROR_USAGE,
                             "%s=%s: %s; use MLFLOW_TRACKING_TOKEN or _USERNAME and _PASSWORD",
                             others[i][0], value, others[i][1]);
    }
    return 0;
}

static int read_trust(const struct reader *in, struct mlflow_settings *out)
{
    const char *insecure = look_up(in, "MLFLOW_TRACKING_INSECURE_TLS");
    out->trust_anyone = insecure && (strcasecmp(insecure, "true") == 0 || !strcmp(insecure, "1"));
    out->ca_bundle = look_up(in, "MLFLOW_TRACKING_SERVER_CERT_PATH");
    out->client_certificate = look_up(in, "MLFLOW_TRACKING_CLIENT_CERT_PATH");
    if (out->trust_anyone && out->ca_bundle)
        return error_set(in->err, ERROR_USAGE,
                         "MLFLOW_TRACKING_INSECURE_TLS and MLFLOW_TRACKING_SERVER_CERT_PATH "
                         "exclude each other");
    return 0;
}

/* ~/.mlflow/credentials fills what the environment leaves open. */
static void read_credentials_file(const struct reader *in, struct mlflow_settings *out)
{
    const char *home = look_up(in, "HOME");
    char path[4096], value[AWS_VALUE_BYTES], *text;
    size_t bytes;
    if (!home)
        return;
    snprintf(path, sizeof path, "%s/.mlflow/credentials", home);
    if (file_read(path, 1 << 20, &text, &bytes, NULL) < 0)
        return;
    if (!out->user[0] && aws_profile_get(text, bytes, "mlflow", "mlflow_tracking_username", value))
        snprintf(out->user, sizeof out->user, "%s", value);
    if (!out->password[0] &&
        aws_profile_get(text, bytes, "mlflow", "mlflow_tracking_password", value))
        snprintf(out->password, sizeof out->password, "%s", value);
    memory_free(text);
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return true;
    return false;
}

static int read_credentials(const struct reader *in, struct mlflow_settings *out)
{
    if (copy(in, "MLFLOW_TRACKING_USERNAME", out->user, sizeof out->user) < 0 ||
        copy(in, "MLFLOW_TRACKING_PASSWORD", out->password, sizeof out->password) < 0 ||
        copy(in, "MLFLOW_TRACKING_TOKEN", out->token, sizeof out->token) < 0 ||
        copy(in, "MLFLOW_WORKSPACE", out->workspace, sizeof out->workspace) < 0)
        return -1;
    if (has_control(out->token) || has_control(out->workspace))
        return error_set(in->err, ERROR_USAGE, "%s holds a line break or another control character",
                         has_control(out->token) ? "MLFLOW_TRACKING_TOKEN" : "MLFLOW_WORKSPACE");
    read_credentials_file(in, out);
    if (!out->user[0] || !out->password[0]) /* one alone is none, as for MLflow */
        out->user[0] = out->password[0] = '\0';
    return 0;
}

/* Like Python's getpass.getuser, which MLflow asks. */
static void find_user(const struct reader *in, struct mlflow_settings *out)
{
    static const char *const names[] = {"LOGNAME", "USER", "LNAME", "USERNAME"};
    const char *found = NULL;
    for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
        found = look_up(in, names[i]);
    struct passwd entry, *result = NULL;
    char space[4096];
    if (!found && getpwuid_r(getuid(), &entry, space, sizeof space, &result) == 0 && result)
        found = result->pw_name;
    snprintf(out->who, sizeof out->who, "%s", found ? found : "");
}

int mlflow_settings_read(char *(*environment)(const char *name), struct mlflow_settings *out,
                         struct error *err)
{
    struct reader in = {.environment = environment, .err = err};
    *out = (struct mlflow_settings){0};
    if (read_url(&in, out) < 0)
        return -1;
    if (!out->url[0])
        return 0;
    find_user(&in, out);
    if (refuse_others(&in) < 0 || read_trust(&in, out) < 0 || read_credentials(&in, out) < 0 ||
        copy(&in, "MLFLOW_EXPERIMENT_NAME", out->experiment, sizeof out->experiment) < 0 ||
        copy(&in, "MLFLOW_EXPERIMENT_ID", out->experiment_id, sizeof out->experiment_id) < 0 ||
        copy(&in, "MLFLOW_RUN_NAME", out->run_name, sizeof out->run_name) < 0 ||
        copy(&in, "MLFLOW_RUN_ID", out->run_id, sizeof out->run_id) < 0)
        return -1;
    return 0;
}
