#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http.h"
#include "net/s3.h"
#include "support/s3_server.h"
#include "support/test.h"

enum { BYTES = 300000 };

static struct s3 *open_bucket(const char *bucket)
{
    struct s3_settings settings;
    struct s3 *s3;
    struct error err = {0};
    ASSERT_OK(s3_settings_read(&settings, &err), err);
    settings.list_limit = 5000;
    settings.part_bytes = 70000;
    ASSERT_OK(s3_open(bucket, &settings, &s3, &err), err);
    return s3;
}

static int requests_for(const char *key)
{
    struct http_settings settings = {.connect_seconds = 5, .stall_seconds = 5};
    struct http_client *client;
    struct http_reply reply;
    struct error err = {0};
    char url[256];
    http_reply_init(&reply);
    ASSERT_OK(http_client_create(&settings, &client, &err), err);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/_count/%s", s3_server(), key);
    struct http_request request = {.method = "GET", .url = url};
    ASSERT_OK(http_perform(client, &request, &reply, &err), err);
    int count = (int)strtol(reply.body.text, NULL, 10);
    http_reply_release(&reply);
    http_client_destroy(client);
    return count;
}

/* Names with everything a signature can stumble over. */
static const char *const odd_keys[] = {
    "plain",
    "with space",
    "a+b",
    "a=b&c=d",
    "100%",
    "per%20cent",
    "q?x=1",
    "hash#tag",
    "semi;colon:at@",
    "quote'\"<>",
    "back\\slash",
    "tilde~-_.",
    "a//b",
    "./a/../b",
    "umlaut-\xc3\xa4\xc3\xb6",
    "\xe6\x97\xa5\xe6\x9c\xac/\xf0\x9f\x90\xa7",
    "star*(paren)!$,",
    "tab\tcr\rctrl\x01",
    " lead",
    "trail ",
    "\xc3\xa9+ =&%",
    "[brackets]{}|^`",
    "deep/er/and/deeper/key.txt",
};
enum { ODD_KEYS = sizeof odd_keys / sizeof *odd_keys };

struct names {
    int count;
    char found[ODD_KEYS];
};

static int find_odd(void *context, const struct s3_object *object, struct error *err)
{
    struct names *names = context;
    (void)err;
    names->count++;
    for (int i = 0; i < ODD_KEYS; i++)
        if (strncmp(object->key, "odd/", 4) == 0 && strcmp(object->key + 4, odd_keys[i]) == 0 &&
            object->bytes == strlen(odd_keys[i]))
            names->found[i] = 1;
    return 0;
}

static void write_and_read_odd_keys(struct s3 *s3)
{
    struct error err = {0};
    for (int i = 0; i < ODD_KEYS; i++) {
        char key[256], back[256];
        size_t length = strlen(odd_keys[i]);
        snprintf(key, sizeof key, "odd/%s", odd_keys[i]);
        ASSERT_OK(s3_write(s3, key, odd_keys[i], length, &err), err);
        ASSERT_OK(s3_read(s3, key, "", 0, length, back, &err), err);
        ASSERT_BYTES(back, odd_keys[i], length);
    }
}

TEST(s3, signs_odd_keys_as_the_specification_says)
{
    s3_server();
    struct error err = {0};
    struct s3 *s3 = open_bucket("plain");
    write_and_read_odd_keys(s3);
    struct names names = {0};
    ASSERT_OK(s3_list(s3, "odd/", find_odd, &names, &err), err);
    ASSERT_INT(names.count, ==, ODD_KEYS);
    for (int i = 0; i < ODD_KEYS; i++)
        if (!names.found[i])
            FAIL("%s is not in the list", odd_keys[i]);
    s3_close(s3);
}

TEST(s3, addresses_a_bucket_by_host_name)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://localhost:%d", s3_server());
    setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
    setenv("LOCKSTEP_S3_ADDRESSING", "virtual", 1);
    struct s3 *s3 = open_bucket("dotted.bucket");
    write_and_read_odd_keys(s3);
    s3_close(s3);
}

static int count_one(void *context, const struct s3_object *object, struct error *err)
{
    (void)object, (void)err;
    ++*(int *)context;
    return 0;
}

TEST(s3, lists_more_than_one_page_and_prefixes_that_need_encoding)
{
    s3_server();
    struct error err = {0};
    struct s3 *s3 = open_bucket("plain");
    int count = 0;
    for (int i = 0; i < 1100; i++) {
        char key[64];
        snprintf(key, sizeof key, "many &+%%/%04d", i);
        ASSERT_OK(s3_write(s3, key, "x", 1, &err), err);
    }
    ASSERT_OK(s3_list(s3, "many &+%/", count_one, &count, &err), err);
    ASSERT_INT(count, ==, 1100);
    s3_close(s3);
}

/* Reads `KIND/name` whole and gives the result. */
static int read_key(const char *key, char *data, struct error *err)
{
    struct s3 *s3 = open_bucket("plain");
    struct s3_object object;
    bool found;
    ASSERT_OK(s3_find(s3, key, &found, &object, err), *err);
    ASSERT_TRUE(found);
    ASSERT_INT(object.bytes, ==, BYTES);
    int status = s3_read(s3, key, object.etag, 0, BYTES, data, err);
    s3_close(s3);
    return status;
}

TEST(s3, overcomes_what_passes_by_itself)
{
    static const char *const keys[] = {"503-twice/a", "429-once/a", "stall-once/a",
                                       "truncate-twice/a", "reset-once/a"};
    static char data[BYTES], whole[BYTES];
    s3_server();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct error err = {0};
        memset(data, 0, BYTES);
        ASSERT_OK(read_key(keys[i], data, &err), err);
        struct s3 *s3 = open_bucket("plain"); /* once more, when it behaves */
        ASSERT_OK(s3_read(s3, keys[i], "", 0, BYTES, whole, &err), err);
        ASSERT_BYTES(data, whole, BYTES);
        s3_close(s3);
    }
}

TEST(s3, gives_up_on_what_does_not_pass_in_bounded_time)
{
    static const struct {
        const char *key, *says;
        int requests; /* with the one that asks for the size */
    } cases[] = {
        {"500-always/a", "status 500 InternalError", 5},
        {"stall/a", "nothing came for 1 s (after 4 attempts)", 5},
        {"reset/a", "(after 4 attempts)", 6}, /* a kept connection gets a second chance */
        {"403/a", "access denied", 2},
        {"404/a", "no such object", 2},
        {"wrong-etag/a", "changed while it was being read", 2},
        {"short/a", "", 5},
        {"long/a", "more than was asked for", 2},
    };
    static char data[BYTES];
    s3_server();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        double start = clock_seconds();
        if (strcmp(cases[i].key, "short/a") == 0)
            continue; /* each attempt comes nearer: below */
        ASSERT_FAILS(read_key(cases[i].key, data, &err), err,
                     strncmp(cases[i].key, "long", 4) == 0 ? ERROR_FORMAT : ERROR_IO,
                     cases[i].says);
        ASSERT_NUMBER(clock_seconds() - start, <, 15);
        if (requests_for(cases[i].key) != cases[i].requests)
            FAIL("%s: %d requests, expected %d", cases[i].key, requests_for(cases[i].key),
                 cases[i].requests);
    }
}

TEST(s3, goes_on_where_a_body_stopped)
{
    static char data[BYTES], part[1000];
    struct error err = {0};
    s3_server();
    /* Half, a half of the rest, ...: never whole in four attempts. */
    ASSERT_FAILS(read_key("truncate/a", data, &err), err, ERROR_IO, "(after 4 attempts)");
    ASSERT_INT(requests_for("truncate/a"), ==, 5);
    /* 100 bytes short each time, so the second attempt asks for the last 100 and gets none. */
    ASSERT_FAILS(read_key("short/a", data, &err), err, ERROR_IO, "sent only 299900 of the 300000");
    struct s3 *s3 = open_bucket("plain");
    ASSERT_FAILS(s3_read(s3, "no-ranges/a", "", 500, sizeof part, part, &err), err, ERROR_IO,
                 "did not send the range");
    s3_close(s3);
}

static int list_bucket(const char *bucket, struct error *err)
{
    int count = 0;
    struct s3 *s3 = open_bucket(bucket);
    int status = s3_list(s3, "", count_one, &count, err);
    s3_close(s3);
    return status;
}

TEST(s3, says_what_to_do_about_a_refused_list)
{
    struct error err = {0};
    s3_server();
    ASSERT_FAILS(list_bucket("denied", &err), err, ERROR_IO, "must be allowed s3:GetObject");
    ASSERT_FAILS(list_bucket("missing", &err), err, ERROR_IO, "there is no bucket missing at");
    ASSERT_FAILS(list_bucket("skewed", &err), err, ERROR_IO, "set the clock");
    ASSERT_FAILS(list_bucket("elsewhere", &err), err, ERROR_IO, "set AWS_REGION=eu-x-1");
    ASSERT_FAILS(list_bucket("broken", &err), err, ERROR_FORMAT, "no list of objects");
    ASSERT_FAILS(list_bucket("endless", &err), err, ERROR_FORMAT, "more than 5000 objects");
    ASSERT_FAILS(list_bucket("circle", &err), err, ERROR_FORMAT, "goes round in circles");
    ASSERT_OK(list_bucket("flaky", &err), err);
    setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "127.0.0.1:1");
    setenv("AWS_ENDPOINT_URL_S3", "ftp://127.0.0.1", 1);
    struct s3_settings settings;
    ASSERT_FAILS(s3_settings_read(&settings, &err), err, ERROR_USAGE, "http[s]://host[:port]");
}

static void assert_no_secret(const struct error *err)
{
    static const char *const secrets[] = {"test/secret", "mistaken", "pod/secret", "pod+session",
                                          "pod token"};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(err->message, secrets[i]))
            FAIL("the message holds a secret: %s", err->message);
}

TEST(s3, refuses_wrong_credentials_without_showing_them)
{
    struct error err = {0};
    s3_server();
    setenv("AWS_SECRET_ACCESS_KEY", "mistaken", 1);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "the secret key is wrong");
    assert_no_secret(&err);
    setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER", 1);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "does not know the key");
    setenv("AWS_ACCESS_KEY_ID", "ASIAOLD", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "old/secret", 1);
    setenv("AWS_SESSION_TOKEN", "old", 1);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "has expired");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    struct s3_settings settings;
    struct s3 *s3;
    ASSERT_OK(s3_settings_read(&settings, &err), err);
    ASSERT_FAILS(s3_open("plain", &settings, &s3, &err), err, ERROR_USAGE, "but not both");
}

static void no_environment(void)
{
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST(s3, signs_with_a_session_token)
{
    struct error err = {0};
    s3_server();
    setenv("AWS_ACCESS_KEY_ID", "ASIAPOD", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "pod/secret", 1);
    setenv("AWS_SESSION_TOKEN", "pod+session/token==", 1);
    ASSERT_OK(list_bucket("plain", &err), err);
}

TEST(s3, takes_credentials_from_a_profile)
{
    static const char files[] = "[default]\naws_access_key_id = nobody\n\n[work] # mine\n"
                                "aws_access_key_id=AKIDTEST\n"
                                "aws_secret_access_key = test/secret+key=\n";
    struct error err = {0};
    s3_server();
    no_environment();
    setenv("AWS_SHARED_CREDENTIALS_FILE", test_file("credentials", files, sizeof files - 1), 1);
    setenv("AWS_PROFILE", "work", 1);
    ASSERT_OK(list_bucket("plain", &err), err);
    setenv("AWS_PROFILE", "typo", 1);
    struct s3_settings settings;
    struct s3 *s3;
    ASSERT_OK(s3_settings_read(&settings, &err), err);
    ASSERT_FAILS(s3_open("plain", &settings, &s3, &err), err, ERROR_USAGE, "AWS_PROFILE=typo");
}

TEST(s3, reads_region_and_endpoint_from_the_config_file)
{
    char text[200];
    struct error err = {0};
    int length = snprintf(text, sizeof text,
                          "[profile work]\nregion = eu-central-1\ns3 =\n  region = nested\n"
                          "endpoint_url = http://127.0.0.1:%d/\n",
                          s3_server());
    setenv("AWS_CONFIG_FILE", test_file("config", text, (size_t)length), 1);
    setenv("AWS_PROFILE", "work", 1);
    unsetenv("AWS_ENDPOINT_URL_S3");
    ASSERT_OK(list_bucket("plain", &err), err);
}

TEST(s3, exchanges_a_pods_web_identity_and_does_so_again_when_it_ends)
{
    struct error err = {0};
    s3_server();
    no_environment();
    const char *file = test_file("token", "pod token/1+2=\n", 15);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file, 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/old-first", 1);
    ASSERT_OK(list_bucket("plain", &err), err); /* refused once: ExpiredToken */
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", test_file("bad-token", "pod token/2", 11), 1);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "InvalidIdentityToken");
    assert_no_secret(&err);
}

TEST(s3, reads_public_objects_without_credentials_and_says_so_when_refused)
{
    static char data[BYTES];
    struct error err = {0};
    s3_server();
    no_environment();
    ASSERT_OK(read_key("public/a", data, &err), err);
    ASSERT_FAILS(list_bucket("plain", &err), err, ERROR_IO, "No credentials were found");
}

TEST(s3, uploads_parts_and_takes_them_back_when_one_fails)
{
    static char data[BYTES], back[BYTES];
    struct error err = {0};
    s3_server();
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 2654435761u >> 24);
    struct s3 *s3 = open_bucket("plain");
    ASSERT_OK(s3_write(s3, "503-once/small", data, 1000, &err), err);
    ASSERT_OK(s3_write(s3, "large", data, BYTES, &err), err);
    ASSERT_OK(s3_read(s3, "large", "", 0, BYTES, back, &err), err);
    ASSERT_BYTES(back, data, BYTES);
    ASSERT_FAILS(s3_write(s3, "bad-part/x", data, BYTES, &err), err, ERROR_IO, "access denied");
    ASSERT_INT(requests_for("aborted"), ==, 1);
    ASSERT_FAILS(s3_write(s3, "bad-end/x", data, BYTES, &err), err, ERROR_IO, "InternalError");
    bool found;
    struct s3_object object;
    ASSERT_OK(s3_find(s3, "bad-part/x", &found, &object, &err), err);
    ASSERT_FALSE(found);
    s3_close(s3);
}

TEST(s3, takes_urls_apart)
{
    char bucket[S3_BUCKET_BYTES], prefix[S3_KEY_BYTES];
    struct error err = {0};
    ASSERT_OK(s3_parse("s3://my.bucket/a/b//", bucket, prefix, &err), err);
    ASSERT_TEXT(bucket, "my.bucket");
    ASSERT_TEXT(prefix, "a/b");
    ASSERT_OK(s3_parse("s3://my.bucket", bucket, prefix, &err), err);
    ASSERT_TEXT(prefix, "");
    ASSERT_FAILS(s3_parse("s3:///a", bucket, prefix, &err), err, ERROR_USAGE, "s3://BUCKET");
    ASSERT_FAILS(s3_parse("s3://a@b/c", bucket, prefix, &err), err, ERROR_USAGE, "s3://BUCKET");
}

/* ---- a stop ---- */

struct stopper {
    atomic_int stop;
    pthread_t thread;
};

static void *stop_soon(void *context)
{
    usleep(200000);
    atomic_store(&((struct stopper *)context)->stop, 2);
    return NULL;
}

/* A client that is told to stop after a fifth of a second, and would wait for minutes. */
static struct s3 *open_stopped(struct stopper *stopper, size_t part_bytes)
{
    struct s3_settings settings;
    struct s3 *s3;
    struct error err = {0};
    s3_server();
    ASSERT_OK(s3_settings_read(&settings, &err), err);
    settings.retry_wait = settings.stall_seconds = 100;
    settings.part_bytes = part_bytes;
    settings.stop = &stopper->stop;
    atomic_store(&stopper->stop, 0);
    ASSERT_OK(s3_open("plain", &settings, &s3, &err), err);
    pthread_create(&stopper->thread, NULL, stop_soon, stopper);
    return s3;
}

TEST(s3, a_stop_ends_the_wait_before_the_next_attempt)
{
    struct stopper stopper;
    struct error err;
    char text[10];
    struct s3 *s3 = open_stopped(&stopper, 70000);
    double start = clock_seconds();
    ASSERT_FAILS(s3_read(s3, "500-always/stopped", "", 0, 10, text, &err), err, ERROR_CANCELLED,
                 "stopped");
    ASSERT_NUMBER(clock_seconds() - start, <, 20); /* of 100 */
    ASSERT_INT(requests_for("500-always/stopped"), ==, 1);
    pthread_join(stopper.thread, NULL);
    /* And nothing is begun any more. */
    ASSERT_FAILS(s3_read(s3, "plain", "", 0, 10, text, &err), err, ERROR_CANCELLED, "stopped");
    s3_close(s3);
}

TEST(s3, a_stop_ends_a_transfer_that_hangs)
{
    static char data[BYTES];
    struct stopper stopper;
    struct error err;
    struct s3 *s3 = open_stopped(&stopper, 70000);
    double start = clock_seconds();
    ASSERT_FAILS(s3_read(s3, "hang/stopped", "", 0, BYTES, data, &err), err, ERROR_CANCELLED,
                 "stopped");
    ASSERT_NUMBER(clock_seconds() - start, <, 20); /* of 60 */
    pthread_join(stopper.thread, NULL);
    s3_close(s3);
}

TEST(s3, a_stopped_upload_is_taken_back)
{
    enum { LARGE = 40 << 20 };
    struct stopper stopper;
    struct error err;
    char *data = calloc(1, LARGE);
    int before = requests_for("aborted");
    struct s3 *s3 = open_stopped(&stopper, 10000); /* 4000 requests */
    ASSERT_FAILS(s3_write(s3, "stopped", data, LARGE, &err), err, ERROR_CANCELLED, "stopped");
    ASSERT_INT(requests_for("aborted"), ==, before + 1);
    pthread_join(stopper.thread, NULL);
    s3_close(s3);
    free(data);
}
