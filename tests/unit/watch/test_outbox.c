#include <unistd.h>

#include "base/clock.h"
#include "net/http.h"
#include "support/http_server.h"
#include "support/log_record.h"
#include "support/test.h"
#include "watch/outbox.h"
#include "watch/reply.h"

/* A service that posts the numbers it was given, in one line each. */
struct service {
    const char *url;
    struct http_reply reply;
    struct outbox *outbox;
};

static enum outbox_result send_numbers(void *context, struct outbox *outbox, const void *items,
                                       int count, struct error *why)
{
    struct service *service = context;
    const int *numbers = items;
    char body[8192] = "";
    for (int i = 0; i < count; i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), "%d ", numbers[i]);
    struct http_request request = {
        .method = "POST", .url = service->url, .body = body, .body_bytes = strlen(body)};
    return outbox_request(outbox, &request, &service->reply, why);
}

static const struct outbox_times quick = {.interval = 0.01,
                                          .first_wait = 0.02,
                                          .last_wait = 0.05,
                                          .connect = 1,
                                          .stall = 1,
                                          .total = 2,
                                          .end = 1};

static void open_box(struct service *service, const char *url, int capacity,
                     struct outbox_times times, const atomic_int *stop_signal)
{
    struct error err = {0};
    *service = (struct service){.url = url};
    http_reply_init(&service->reply);
    log_record_start();
    struct outbox_options options = {.name = "Test service",
                                     .where = url,
                                     .item_bytes = sizeof(int),
                                     .capacity = capacity,
                                     .batch = 100,
                                     .send = send_numbers,
                                     .context = service,
                                     .times = times,
                                     .stop_signal = stop_signal};
    ASSERT_OK(outbox_create(&options, &service->outbox, &err), err);
}

static double close_box(struct service *service)
{
    double start = clock_seconds();
    outbox_destroy(service->outbox);
    http_reply_release(&service->reply);
    return clock_seconds() - start;
}

static void put(struct service *service, int first, int last)
{
    for (int i = first; i <= last; i++)
        outbox_put(service->outbox, &i, false);
}

static struct http_answer agree(void *context, const struct http_question *question, int number)
{
    (void)context, (void)question, (void)number;
    return (struct http_answer){.status = 200, .body = "{}"};
}

/* 500 so many times, then 200. */
static struct http_answer fail_first(void *times, const struct http_question *question, int number)
{
    (void)question;
    return (struct http_answer){.status = number < *(int *)times ? 500 : 200,
                                .body = "{\"message\": \"not\\ntoday\"}"};
}

static struct http_answer hang_up_once(void *context, const struct http_question *question,
                                       int number)
{
    (void)context, (void)question;
    return (struct http_answer){.status = 200, .hang_up = number == 0};
}

static struct http_answer refuse(void *context, const struct http_question *question, int number)
{
    (void)context, (void)question, (void)number;
    return (struct http_answer){.status = 403, .body = "{\"message\": \"go away\"}"};
}

static struct http_answer stall(void *context, const struct http_question *question, int number)
{
    (void)context, (void)question, (void)number;
    return (struct http_answer){.status = 200, .stall = 60};
}

TEST(outbox, sends_all_items_in_order_and_says_nothing)
{
    struct service service;
    struct http_server *server = http_server_start(agree, NULL);
    open_box(&service, http_server_url(server), 1000, quick, NULL);
    put(&service, 1, 250);
    close_box(&service);
    char all[8192] = "", expected[8192] = "";
    for (int i = 0; i < http_server_count(server); i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s",
                 http_server_question(server, i)->body);
    for (int i = 1; i <= 250; i++)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d ", i);
    ASSERT_TEXT(all, expected);
    ASSERT_INT(log_record_count(), ==, 0);
    http_server_stop(server);
}

TEST(outbox, gathers_items_between_two_sendings)
{
    struct service service;
    struct outbox_times slow = quick;
    slow.interval = 0.5;
    struct http_server *server = http_server_start(agree, NULL);
    open_box(&service, http_server_url(server), 1000, slow, NULL);
    put(&service, 1, 1);
    http_server_wait(server, 1);
    for (int i = 0; i < 20; i++) {
        put(&service, i, i);
        usleep(1000);
    }
    close_box(&service);
    ASSERT_INT(http_server_count(server), <=, 3);
    http_server_stop(server);
}

TEST(outbox, a_short_failure_is_tried_again_without_a_word)
{
    int failures = 2;
    struct service service;
    struct http_server *server = http_server_start(fail_first, &failures);
    open_box(&service, http_server_url(server), 10, quick, NULL);
    put(&service, 7, 7);
    http_server_wait(server, 3);
    close_box(&service);
    ASSERT_INT(log_record_count(), ==, 0);
    ASSERT_TEXT(http_server_question(server, 2)->body, "7 ");
    http_server_stop(server);
}

TEST(outbox, a_connection_that_is_closed_is_tried_again)
{
    struct service service;
    struct http_server *server = http_server_start(hang_up_once, NULL);
    open_box(&service, http_server_url(server), 10, quick, NULL);
    put(&service, 7, 7);
    http_server_wait(server, 2);
    close_box(&service);
    ASSERT_INT(log_record_count(), ==, 0);
    http_server_stop(server);
}

TEST(outbox, a_longer_failure_is_said_once_and_so_is_its_end)
{
    int failures = 12;
    struct service service;
    struct http_server *server = http_server_start(fail_first, &failures);
    open_box(&service, http_server_url(server), 10, quick, NULL);
    put(&service, 1, 5);
    http_server_wait(server, 13);
    close_box(&service);
    ASSERT_INT(log_record_count(), ==, 2);
    ASSERT_CONTAINS(log_record_text(), "Test service (http://127.0.0.1:");
    ASSERT_CONTAINS(log_record_text(), "cannot be told about this run: status 500: not today; ");
    ASSERT_CONTAINS(log_record_text(), " is back after ");
    http_server_stop(server);
}

TEST(outbox, what_is_refused_is_given_up_and_said_once)
{
    struct service service;
    struct http_server *server = http_server_start(refuse, NULL);
    open_box(&service, http_server_url(server), 10, quick, NULL);
    for (int i = 0; i < 3; i++) {
        put(&service, i, i);
        http_server_wait(server, i + 1);
    }
    close_box(&service);
    ASSERT_INT(http_server_count(server), ==, 3);
    ASSERT_INT(log_record_count(), ==, 1);
    ASSERT_CONTAINS(log_record_text(), "refuses what it is told: status 403: go away");
    http_server_stop(server);
}

TEST(outbox, a_full_queue_keeps_what_it_must_and_the_newest)
{
    struct service service;
    struct http_server *server = http_server_start(stall, NULL);
    struct outbox_times times = quick;
    times.end = 0.1;
    open_box(&service, http_server_url(server), 16, times, NULL);
    put(&service, 0, 0);
    http_server_wait(server, 1); /* and now it is busy */
    int precious = -1;
    outbox_put(service.outbox, &precious, true);
    put(&service, 1, 1000);
    ASSERT_INT(outbox_lost(service.outbox), >, 1000 - 16);
    ASSERT_INT(outbox_lost(service.outbox), <, 1000);
    close_box(&service);
    ASSERT_INT(log_record_count(), ==, 1);
    http_server_stop(server);
}

/* The queue is looked at through what arrives when the service is back. */
TEST(outbox, an_absence_leaves_a_coarser_picture_not_a_hole)
{
    int failures = 3;
    struct service service;
    struct http_server *server = http_server_start(fail_first, &failures);
    open_box(&service, http_server_url(server), 16, quick, NULL);
    put(&service, 0, 0);
    int precious = -1;
    http_server_wait(server, 1);
    outbox_put(service.outbox, &precious, true);
    put(&service, 1, 200);
    http_server_wait(server, 5);
    close_box(&service);
    const char *body = http_server_question(server, 4)->body;
    ASSERT_CONTAINS(body, "-1 "); /* kept */
    int numbers[16], count = 0, used;
    for (; count < 16 && sscanf(body, "%d%n", &numbers[count], &used) == 1; count++)
        body += used;
    ASSERT_INT(count, >, 8);
    ASSERT_INT(numbers[1], <, 100); /* from the beginning */
    ASSERT_INT(numbers[count - 1], ==, 200);
    http_server_stop(server);
}

TEST(outbox, with_room_for_one_the_newest_is_sent_also_when_trying_again)
{
    int failures = 2;
    struct service service;
    struct outbox_times times = quick;
    times.first_wait = times.last_wait = 0.3;
    struct http_server *server = http_server_start(fail_first, &failures);
    open_box(&service, http_server_url(server), 1, times, NULL);
    put(&service, 1, 1);
    http_server_wait(server, 1);
    put(&service, 2, 9);
    http_server_wait(server, 2);
    close_box(&service);
    ASSERT_TEXT(http_server_question(server, 0)->body, "1 ");
    ASSERT_TEXT(http_server_question(server, 1)->body, "9 ");
    ASSERT_INT(log_record_count(), ==, 0);
    http_server_stop(server);
}

/* Not once may putting take as long as a request could. */
static void check_never_waits(const char *url)
{
    struct service service;
    open_box(&service, url, 256, quick, NULL);
    double longest = 0;
    for (int i = 0; i < 20000; i++) {
        double start = clock_seconds();
        put(&service, i, i);
        double took = clock_seconds() - start;
        longest = took > longest ? took : longest;
    }
    ASSERT_NUMBER(longest, <, 0.5); /* on a machine that does other things, too */
    double end = close_box(&service);
    ASSERT_NUMBER(end, <, quick.end + 2);
    ASSERT_INT(log_record_count(), ==, 1);
}

TEST(outbox, a_refused_port_costs_no_time_and_one_line)
{
    check_never_waits(http_refused_url());
    ASSERT_CONTAINS(log_record_text(), "connect");
}

TEST(outbox, a_server_that_never_accepts_costs_no_time_and_one_line)
{
    struct http_server *server = http_server_start_deaf();
    check_never_waits(http_server_url(server));
    http_server_stop(server);
}

TEST(outbox, a_server_that_stalls_costs_no_time_and_one_line)
{
    struct http_server *server = http_server_start(stall, NULL);
    check_never_waits(http_server_url(server));
    http_server_stop(server);
}

TEST(outbox, a_signal_ends_the_waiting_at_the_end)
{
    atomic_int signal_number = 0;
    struct service service;
    struct outbox_times patient = quick;
    patient.end = patient.stall = patient.total = 60;
    struct http_server *server = http_server_start(stall, NULL);
    open_box(&service, http_server_url(server), 10, patient, &signal_number);
    put(&service, 1, 1);
    http_server_wait(server, 1);
    outbox_end(service.outbox);
    atomic_store(&signal_number, 2);
    ASSERT_NUMBER(close_box(&service), <, 5);
    http_server_stop(server);
}

TEST(outbox, nothing_put_is_nothing_sent)
{
    struct service service;
    open_box(&service, http_refused_url(), 10, quick, NULL);
    ASSERT_NUMBER(close_box(&service), <, 0.5);
    ASSERT_INT(log_record_count(), ==, 0);
}

TEST(outbox, tells_what_may_pass_from_what_will_not)
{
    struct error why = {0};
    struct http_reply reply;
    http_reply_init(&reply);
    reply.outcome = HTTP_REPLIED;
    static const struct {
        int status;
        enum outbox_result result;
    } cases[] = {{200, OUTBOX_SENT},    {204, OUTBOX_SENT},    {429, OUTBOX_LATER},
                 {503, OUTBOX_LATER},   {408, OUTBOX_LATER},   {400, OUTBOX_REFUSED},
                 {401, OUTBOX_REFUSED}, {301, OUTBOX_REFUSED}, {404, OUTBOX_REFUSED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply.status = cases[i].status;
        ASSERT_INT(reply_judge(&reply, &why), ==, cases[i].result);
    }
    strbuf_add(&reply.body, "<html>\n\033[31mno</html>");
    reply_describe(502, &reply.body, &why);
    ASSERT_TEXT(why.message, "status 502: <html>  [31mno</html>");
    http_reply_release(&reply);
}
