/* Both ends of a line, on one loop. */
#include "launch/link.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "launch/loop.h"
#include "support/test.h"

struct side {
    struct link *link;
    int opened, ended, heard;
    int64_t last; /* number that was heard */
    size_t bytes;
    bool leaves_at_once;
    char why[128];
};

static struct loop *loop;
static struct channel_key key, other;
static struct side asks, answers;

static void on_opened(void *context, struct link *link)
{
    struct side *side = context;
    (void)link;
    side->opened++;
}

static void on_heard(void *context, struct link *link, struct message *message)
{
    struct side *side = context;
    const void *bytes;
    size_t count;
    side->heard++;
    message_next_number(message, &side->last);
    if (message_next_bytes(message, &bytes, &count))
        side->bytes += count;
    if (side->leaves_at_once) {
        link_destroy(link);
        side->link = NULL;
    }
}

static void on_ended(void *context, struct link *link, const struct error *why)
{
    struct side *side = context;
    (void)link;
    side->ended++;
    snprintf(side->why, sizeof side->why, "%s", why->message);
}

static void join(struct side *side, int socket, const struct channel_key *with,
                 enum channel_side which)
{
    struct error err = {0};
    struct link_owner owner = {
        .opened = on_opened, .heard = on_heard, .ended = on_ended, .context = side};
    *side = (struct side){0};
    ASSERT_OK(link_create(loop, socket, with, which, &owner, &side->link, &err), err);
}

static void start(const struct channel_key *one, const struct channel_key *two)
{
    int ends[2];
    struct error err = {0};
    signal(SIGPIPE, SIG_IGN);
    ASSERT_OK(channel_key_derive("a secret of ours", 16, &key, &err), err);
    ASSERT_OK(channel_key_derive("another's secret", 16, &other, &err), err);
    ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
    loop = loop_create();
    join(&asks, ends[0], one, CHANNEL_ASKS);
    join(&answers, ends[1], two, CHANNEL_ANSWERS);
}

static void stop(void)
{
    link_destroy(asks.link);
    link_destroy(answers.link);
    loop_destroy(loop);
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        for (double until_ = clock_seconds() + 20; !(condition); loop_turn(loop, 0.01))            \
            if (clock_seconds() > until_)                                                          \
                FAIL("never: %s", #condition);                                                     \
    } while (0)

static void say(struct side *side, int64_t number)
{
    message_number(link_begin(side->link, MESSAGE_READY), number);
    link_send(side->link);
}

TEST(link, carries_messages_both_ways_in_their_order)
{
    start(&key, &key);
    for (int i = 1; i <= 3; i++)
        say(&asks, i); /* before anything is proved: they wait */
    UNTIL(answers.heard == 3);
    ASSERT_INT(answers.last, ==, 3);
    say(&answers, 4);
    UNTIL(asks.heard == 1);
    ASSERT_INT(asks.last, ==, 4);
    ASSERT_INT(asks.opened, ==, 1);
    stop();
}

TEST(link, takes_more_than_the_socket_does)
{
    enum { MESSAGES = 8, BYTES = 1000000 };
    char *bytes = memory_allocate(BYTES);
    start(&key, &key);
    for (int i = 0; i < MESSAGES; i++) {
        struct strbuf *out = link_begin(asks.link, MESSAGE_OUTPUT);
        message_number(out, i);
        message_bytes(out, bytes, BYTES);
        link_send(asks.link);
    }
    ASSERT_INT(link_backlog(asks.link), >, 0);
    UNTIL(answers.heard == MESSAGES);
    ASSERT_INT(answers.bytes, ==, (size_t)MESSAGES * BYTES);
    ASSERT_INT(link_backlog(asks.link), ==, 0);
    memory_free(bytes);
    stop();
}

TEST(link, ends_once_and_says_why)
{
    start(&key, &key);
    UNTIL(asks.opened);
    link_destroy(asks.link);
    asks.link = NULL;
    UNTIL(answers.ended);
    ASSERT_CONTAINS(answers.why, "closed the connection");
    say(&answers, 1); /* to nobody */
    for (int i = 0; i < 5; i++)
        loop_turn(loop, 0.01);
    ASSERT_INT(answers.ended, ==, 1);
    stop();
}

TEST(link, ends_when_the_secrets_differ)
{
    start(&key, &other);
    UNTIL(asks.ended && answers.ended);
    ASSERT_INT(asks.opened, ==, 0);
    ASSERT_CONTAINS(asks.why, "does not accept our secret");
    ASSERT_CONTAINS(answers.why, "its secret is not ours");
    stop();
}

TEST(link, may_be_destroyed_by_who_hears_it)
{
    start(&key, &key);
    answers.leaves_at_once = true;
    say(&asks, 1);
    say(&asks, 2);
    UNTIL(asks.ended);
    ASSERT_INT(answers.heard, ==, 1);
    stop();
}

TEST(link, ends_when_something_else_is_spoken)
{
    start(NULL, NULL);
    ASSERT_INT(write(link_socket(asks.link), "GET / HTTP/1.1\r\n\r\n", 18), ==, 18);
    UNTIL(answers.ended);
    ASSERT_CONTAINS(answers.why, "no message of an agent");
    stop();
}

TEST(link, notices_that_a_silent_machine_is_gone)
{
    int yes = 0;
    socklen_t bytes = sizeof yes;
    start(&key, &key);
    ASSERT_INT(getsockopt(link_socket(asks.link), SOL_SOCKET, SO_KEEPALIVE, &yes, &bytes), ==, 0);
    ASSERT_INT(yes, ==, 1);
    stop();
}
