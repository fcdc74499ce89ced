#include "support/s3_server.h"

#include <errno.h>
#include <unistd.h>

#include "support/test.h"

static int port;

static void start(void)
{
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0)
        FAIL("pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int i = 3; i < 256; i++)
            close(i);
        execl("/usr/bin/python3", "python3", "tests/support/s3_server.py", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]); /* in[1] stays open: when we end, so does the server */
    char line[32] = "";
    size_t length = 0;
    ssize_t got = child < 0 ? -1 : 1;
    while (got > 0 && length < sizeof line - 1 && !strchr(line, '\n'))
        length += (size_t)((got = read(out[0], line + length, 1)) > 0);
    close(out[0]);
    port = got > 0 ? (int)strtol(line, NULL, 10) : 0;
    if (port <= 0)
        FAIL("tests/support/s3_server.py does not start");
}

int s3_server(void)
{
    static const char *const unwanted[] = {"AWS_SESSION_TOKEN",
                                           "AWS_PROFILE",
                                           "AWS_REGION",
                                           "AWS_DEFAULT_REGION",
                                           "AWS_ENDPOINT_URL",
                                           "S3_ENDPOINT",
                                           "S3_USE_HTTPS",
                                           "AWS_WEB_IDENTITY_TOKEN_FILE",
                                           "AWS_ROLE_ARN",
                                           "AWS_NO_SIGN_REQUEST",
                                           "LOCKSTEP_S3_ADDRESSING",
                                           "AWS_CA_BUNDLE",
                                           "http_proxy",
                                           "LOCKSTEP_CACHE_BYTES"};
    if (port == 0)
        start();
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        unsetenv(unwanted[i]);
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
    setenv("AWS_ENDPOINT_URL_STS", endpoint, 1);
    setenv("AWS_ACCESS_KEY_ID", "AKIDTEST", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "test/secret+key=", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", test_path("no-credentials"), 1);
    setenv("AWS_CONFIG_FILE", test_path("no-config"), 1);
    setenv("AWS_MAX_ATTEMPTS", "4", 1);
    setenv("LOCKSTEP_S3_RETRY_SECONDS", "0.02", 1);
    setenv("LOCKSTEP_S3_STALL_SECONDS", "1", 1);
    setenv("LOCKSTEP_CACHE_DIR", test_path("cache"), 1);
    return port;
}
