/* The whole server without its program: core, REST door and a network of the test's, spoken to over
 * sockets. */
#include "serve/rest.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "serve/core.h"
#include "serve/door.h"
#include "serve/inference.h"
#include "support/fake_model.h"
#include "support/test.h"

static struct serve_core *core;
static struct rest_door *door;
static const char *directory;

struct settings {
    struct batch_rules rules;
    const char *token_file;
    double answer_seconds, request_seconds;
    int connections;
};

static void open_door(struct settings settings)
{
    static int number;
    struct error err = {0};
    if (!settings.rules.max_rows)
        settings.rules = (struct batch_rules){.max_rows = 8, .max_batches = 4};
    struct core_settings made = {
        .repository = {.poll_seconds = 0.01, .threads = 1, .calls = &fake_model_calls},
        .batcher = {.rules = settings.rules, .workers = 1},
        .token_file = settings.token_file,
        .start = true};
    struct door_options options = {.message_limit = 1 << 20,
                                   .idle_seconds = 60,
                                   .request_seconds = settings.request_seconds,
                                   .answer_seconds = settings.answer_seconds,
                                   .connections = settings.connections,
                                   .metrics_path = "/monitoring/prometheus/metrics",
                                   .cors = true,
                                   .status_page = true};
    fake_gate_open();
    directory = test_path("door%d", number++);
    fake_model_write(directory, 1, "1");
    struct model_config model = {.name = "m", .base_path = directory, .latest = 1};
    ASSERT_OK(core_create(&made, &core, &err), err);
    ASSERT_OK(repository_configure(core_repository(core), &(struct model_list){&model, 1}, &err),
              err);
    ASSERT_TRUE(repository_wait(core_repository(core), 60));
    ASSERT_OK(address_parse("0", "--rest-port", &options.address, &err), err);
    ASSERT_OK(rest_door_start(core, &options, &door, &err), err);
}

static void close_door(void)
{
    rest_door_stop(door);
    core_destroy(core);
    ASSERT_INT(fake_models_alive(), ==, 0);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(rest_door_port(door))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(connect(line, (struct sockaddr *)&to, sizeof to), ==, 0);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return line;
}

static void say(int line, const char *text, size_t bytes)
{
    ASSERT_INT(send(line, text, bytes, MSG_NOSIGNAL), ==, bytes);
}

static char heard[1 << 18];

static const char *hear(int line)
{
    size_t used = 0;
    for (ssize_t got; used + 1 < sizeof heard &&
                      (got = recv(line, heard + used, sizeof heard - 1 - used, 0)) > 0;)
        used += (size_t)got;
    heard[used] = '\0';
    return heard;
}

/* Says it all; the answer is heard later. */
static int begin(const char *method, const char *path, const char *more, const char *body)
{
    static char request[1 << 17];
    int line = dial();
    int bytes = snprintf(request, sizeof request,
                         "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s"
                         "Content-Length: %zu\r\n\r\n%s",
                         method, path, more, strlen(body), body);
    say(line, request, (size_t)bytes);
    return line;
}

static const char *ask_with(const char *method, const char *path, const char *more,
                            const char *body)
{
    int line = begin(method, path, more, body);
    hear(line);
    close(line);
    return heard;
}

static const char *post(const char *path, const char *body)
{
    return ask_with("POST", path, "", body);
}

static const char *get(const char *path)
{
    return ask_with("GET", path, "", "");
}

static const char row[] = "{\"instances\": [[1, 2, 3, 4]]}";

TEST(rest_door, answers_predict_in_both_formats)
{
    open_door((struct settings){0});
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 200 OK");
    ASSERT_CONTAINS(heard, "\"predictions\": [[");
    ASSERT_CONTAINS(heard, "Content-Type: application/json");
    ASSERT_CONTAINS(post("/v1/models/m/versions/1:predict", "{\"inputs\": [[1,2,3,4]]}"),
                    "\"outputs\": [[");
    ASSERT_CONTAINS(post("/v1/models/m:predict",
                         "{\"signature_name\": \"scored\", \"instances\": [[1,2,3,4]]}"),
                    "\"first\": ");
    close_door();
}

TEST(rest_door, tells_what_is_wrong_as_json)
{
    open_door((struct settings){0});
    ASSERT_CONTAINS(post("/v1/models/other:predict", row), "HTTP/1.1 404");
    ASSERT_CONTAINS(heard, "{ \"error\": \"Servable not found for request: Latest(other)");
    ASSERT_CONTAINS(post("/v1/models/m:predict", "{"), "HTTP/1.1 400");
    ASSERT_CONTAINS(post("/v1/models/m:predict", "{\"instances\": [[1, 2]]}"), "a list of 2");
    ASSERT_CONTAINS(post("/v1/models/m:predict", "{\"instances\": [[666, 2, 3, 4]]}"),
                    "666 is a bad value");
    ASSERT_CONTAINS(
        post("/v1/models/m:predict", "{\"signature_name\": \"none\", \"instances\": [[1,2,3,4]]}"),
        "Serving signature name: \\\"none\\\" not found");
    ASSERT_CONTAINS(get("/v1/models/m:predict"), "use POST");
    ASSERT_CONTAINS(get("/v1/models/"), "Missing model name");
    ASSERT_CONTAINS(
        ask_with("POST", "/v2/models/m/infer", "Inference-Header-Content-Length: 2abc\r\n", "{}"),
        "HTTP/1.1 400");
    ASSERT_CONTAINS(heard, "'2abc' is no number of bytes");
    ASSERT_CONTAINS(get("/nowhere"), "HTTP/1.1 404");
    ASSERT_CONTAINS(heard, "{\"error\":");
    ASSERT_CONTAINS(ask_with("DELETE", "/v1/models/m", "", ""), "HTTP/1.1 405");
    close_door();
}

TEST(rest_door, tells_of_models)
{
    open_door((struct settings){0});
    ASSERT_CONTAINS(get("/v1/models/m"), "\"state\": \"AVAILABLE\"");
    ASSERT_CONTAINS(get("/v1/models/m/versions/7"), "HTTP/1.1 404");
    ASSERT_CONTAINS(get("/v1/models/m/metadata"),
                    "\"method_name\": \"tensorflow/serving/predict\"");
    ASSERT_CONTAINS(get("/v2/models/m"), "\"datatype\": \"FP32\", \"shape\": [-1, 4]");
    ASSERT_CONTAINS(heard, "\"platform\": \"" INFERENCE_PLATFORM "\"");
    ASSERT_CONTAINS(get("/v2"), "binary_tensor_data");
    ASSERT_CONTAINS(get("/v2/models/m/ready"), "HTTP/1.1 200");
    ASSERT_CONTAINS(get("/v2/models/n/ready"), "HTTP/1.1 404");
    ASSERT_CONTAINS(get("/livez"), "HTTP/1.1 200");
    ASSERT_CONTAINS(get("/readyz"), "{\"ready\": true}");
    ASSERT_CONTAINS(get("/"), "lockstep serve");
    ASSERT_CONTAINS(get("/data"), "\"latency_limits_us\"");
    core_begin_ending(core);
    ASSERT_CONTAINS(get("/readyz"), "HTTP/1.1 503");
    close_door();
}

TEST(rest_door, answers_classify_regress_and_infer)
{
    open_door((struct settings){0});
    ASSERT_CONTAINS(post("/v1/models/m:classify",
                         "{\"signature_name\": \"scored\", \"examples\": [{\"x\": [1, 2, 3, 4]}]}"),
                    "\"results\": [[[\"\", ");
    ASSERT_CONTAINS(post("/v1/models/m:regress", "{\"examples\": [{\"x\": [1, 2, 3, 4]}]}"),
                    "HTTP/1.1 400");
    ASSERT_CONTAINS(post("/v2/models/m/infer",
                         "{\"id\": \"7\", \"inputs\": [{\"name\": \"x\", \"shape\": [1, 4], "
                         "\"datatype\": \"FP32\", \"data\": [1, 2, 3, 4]}]}"),
                    "\"model_name\": \"m\", \"model_version\": \"1\", \"id\": \"7\", \"outputs\"");
    close_door();
}

TEST(rest_door, gives_the_same_numbers_through_every_door)
{
    char predicted[128];
    open_door((struct settings){0});
    post("/v1/models/m:predict", row);
    const char *numbers = strstr(heard, "[[") + 2;
    snprintf(predicted, sizeof predicted, "%.*s", (int)strcspn(numbers, "]"), numbers);
    ASSERT_CONTAINS(
        post("/v2/models/m/infer",
             "{\"inputs\": [{\"name\": \"x\", \"shape\": [1, 4], \"datatype\": \"FP32\", "
             "\"data\": [1, 2, 3, 4]}]}"),
        predicted);
    ASSERT_CONTAINS(post("/v1/models/m:predict", "{\"inputs\": {\"x\": [[1, 2, 3, 4]]}}"),
                    predicted);
    close_door();
}

/* Large enough for the pool to read it and to write the answer. */
TEST(rest_door, answers_large_requests)
{
    static char body[1 << 17];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"instances\": [");
    for (int i = 0; i < 4000; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "%s[1, 2, %d, 4]", i ? "," : "",
                                 i % 10);
    snprintf(body + used, sizeof body - used, "]}");
    open_door((struct settings){0});
    ASSERT_CONTAINS(post("/v1/models/m:predict", body), "HTTP/1.1 200 OK");
    int rows = 0;
    for (const char *at = heard; (at = strstr(at, "]")); at++)
        rows++;
    ASSERT_INT(rows, ==, 4001);
    close_door();
}

TEST(rest_door, refuses_at_once_when_too_much_waits)
{
    int lines[6];
    open_door((struct settings){.rules = {.max_rows = 1, .max_batches = 4}});
    fake_gate_close();
    lines[0] = begin("POST", "/v1/models/m:predict", "", row);
    fake_gate_wait(1);
    for (int i = 1; i < 5; i++)
        lines[i] = begin("POST", "/v1/models/m:predict", "", row);
    while (batcher_pending(core_batcher(core)) < 5)
        ;
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 429");
    ASSERT_CONTAINS(heard, "Retry-After: 1");
    fake_gate_open();
    for (int i = 0; i < 5; i++) {
        ASSERT_CONTAINS(hear(lines[i]), "HTTP/1.1 200");
        close(lines[i]);
    }
    ASSERT_CONTAINS(get("/monitoring/prometheus/metrics"),
                    "request_count{model_name=\"m\",status=\"RESOURCE_EXHAUSTED\"} 1");
    close_door();
}

TEST(rest_door, keeps_its_deadline)
{
    open_door((struct settings){.answer_seconds = 2});
    fake_gate_close();
    int first = begin("POST", "/v1/models/m:predict", "", row);
    fake_gate_wait(1);
    int second = begin("POST", "/v1/models/m:predict", "", row);
    while (batcher_pending(core_batcher(core)) < 2)
        ;
    double until = clock_seconds() + 2;
    while (clock_seconds() < until)
        ;
    fake_gate_open();
    ASSERT_CONTAINS(hear(first), "HTTP/1.1 200"); /* it was being computed already */
    ASSERT_CONTAINS(hear(second), "HTTP/1.1 504");
    close(first);
    close(second);
    close_door();
}

TEST(rest_door, does_not_compute_for_who_has_left)
{
    open_door((struct settings){0});
    fake_gate_close();
    int first = begin("POST", "/v1/models/m:predict", "", row);
    fake_gate_wait(1);
    int second = begin("POST", "/v1/models/m:predict", "", row);
    while (batcher_pending(core_batcher(core)) < 2)
        ;
    close(second);
    while (
        !strstr(get("/monitoring/prometheus/metrics"), "client_gone_total{entrypoint=\"REST\"} 1"))
        ;
    fake_gate_open();
    ASSERT_CONTAINS(hear(first), "HTTP/1.1 200");
    close(first);
    while (!strstr(get("/monitoring/prometheus/metrics"), "status=\"CANCELLED\"} 1"))
        ;
    close_door();
}

TEST(rest_door, admits_only_who_knows_a_token)
{
    const char *file = test_file("tokens", "# ours\nsecret-one\nsecret-two\n", 29);
    open_door((struct settings){.token_file = file});
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 401");
    ASSERT_CONTAINS(heard, "WWW-Authenticate: Bearer");
    ASSERT_CONTAINS(heard, "{\"error\":");
    ASSERT_CONTAINS(
        ask_with("POST", "/v1/models/m:predict", "Authorization: Bearer secret-two\r\n", row),
        "HTTP/1.1 200");
    ASSERT_CONTAINS(
        ask_with("POST", "/v1/models/m:predict", "Authorization: Bearer secret-tw\r\n", row),
        "HTTP/1.1 401");
    ASSERT_CONTAINS(get("/readyz"), "HTTP/1.1 200");
    /* a page from elsewhere: its browser asks without the token, and may read what is wrong */
    ASSERT_CONTAINS(ask_with("OPTIONS", "/v1/models/m:predict", "Origin: http://a\r\n", ""),
                    "Access-Control-Allow-Methods: POST, GET");
    ASSERT_CONTAINS(get("/v1/models/m"), "HTTP/1.1 401");
    ASSERT_CONTAINS(heard, "Access-Control-Allow-Origin: *");
    ASSERT_CONTAINS(get("/?token=secret-one"), "Set-Cookie: ");
    test_file("tokens", "another-one\n", 12);
    while (!strstr(ask_with("GET", "/v1/models/m", "Authorization: Bearer another-one\r\n", ""),
                   "HTTP/1.1 200"))
        ;
    ASSERT_CONTAINS(ask_with("GET", "/v1/models/m", "Authorization: Bearer secret-one\r\n", ""),
                    "HTTP/1.1 401");
    close_door();
}

TEST(rest_door, closes_on_who_takes_too_long_to_ask)
{
    open_door((struct settings){.request_seconds = 0.3});
    int slow = dial();
    say(slow, "POST /v1/models/m:predict HTTP/1.1\r\n", 36);
    ASSERT_TEXT(hear(slow), "");
    close(slow);
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 200");
    close_door();
}

TEST(rest_door, answers_a_page_from_elsewhere)
{
    open_door((struct settings){0});
    ASSERT_CONTAINS(ask_with("OPTIONS", "/v1/models/m:predict", "Origin: http://a\r\n", ""),
                    "Access-Control-Allow-Methods: POST, GET");
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "Access-Control-Allow-Origin: *");
    close_door();
}

TEST(rest_door, changes_version_between_two_requests)
{
    open_door((struct settings){0});
    post("/v1/models/m:predict", row);
    fake_model_write(directory, 2, "2");
    while (!strstr(get("/v2/models/m"), "\"versions\": [\"2\"]"))
        ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 200");
    ASSERT_CONTAINS(post("/v1/models/m:predict", row), "HTTP/1.1 200");
    while (!strstr(get("/v1/models/m"), "\"state\": \"END\"")) /* the old one goes a moment later */
        ;
    close_door();
}

TEST(rest_door, lets_requests_in_flight_finish_when_it_drains)
{
    open_door((struct settings){0});
    fake_gate_close();
    int line = begin("POST", "/v1/models/m:predict", "", row);
    fake_gate_wait(1);
    rest_door_drain(door, 0.05); /* not yet answered: the time passes */
    ASSERT_INT(batcher_pending(core_batcher(core)), ==, 1);
    fake_gate_open();
    rest_door_drain(door, 60);
    ASSERT_CONTAINS(hear(line), "HTTP/1.1 200");
    close(line);
    close_door();
}
