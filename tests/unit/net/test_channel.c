/* Two ends of a connection that share a secret, or do not. */
#include "net/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"

static struct channel_key key, other;
static struct channel *asks, *answers;
static struct error asked, answered;

static void make_keys(void)
{
    struct error err = {0};
    ASSERT_OK(channel_key_derive("a secret of ours", 16, &key, &err), err);
    ASSERT_OK(channel_key_derive("another's secret", 16, &other, &err), err);
    signal(SIGPIPE, SIG_IGN);
}

static void make_sockets(int ends[2])
{
    ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), ==, 0);
}

static void close_both(void)
{
    channel_destroy(asks);
    channel_destroy(answers);
    asks = answers = NULL;
}

/* Until both are through, or one fails: 1 or -1 for each. */
static void shake(const struct channel_key *one, const struct channel_key *two, int *first,
                  int *second)
{
    int ends[2];
    struct error err = {0};
    make_sockets(ends);
    close_both();
    asked = answered = (struct error){0};
    ASSERT_OK(channel_create(ends[0], one, CHANNEL_ASKS, &asks, &err), err);
    ASSERT_OK(channel_create(ends[1], two, CHANNEL_ANSWERS, &answers, &err), err);
    *first = *second = 0;
    for (int i = 0; i < 20 && (!*first || !*second); i++) {
        if (!*first)
            *first = channel_shake(asks, &asked);
        if (!*second)
            *second = channel_shake(answers, &answered);
        if (*first < 0 && !*second)
            shutdown(channel_socket(asks), SHUT_RDWR);
    }
}

TEST(channel, opens_for_who_has_the_key)
{
    int first, second;
    char heard[16] = "";
    make_keys();
    shake(&key, &key, &first, &second);
    ASSERT_INT(first, ==, 1);
    ASSERT_INT(second, ==, 1);
    ASSERT_INT(channel_write(asks, "hello", 5, &asked), ==, 5);
    ASSERT_INT(channel_read(answers, heard, sizeof heard, &answered), ==, 5);
    ASSERT_TEXT(heard, "hello");
    ASSERT_INT(channel_read(answers, heard, sizeof heard, &answered), ==, 0);
    ASSERT_INT(channel_wants(answers), ==, POLLIN);
    channel_destroy(asks);
    asks = NULL;
    ASSERT_FAILS(channel_read(answers, heard, sizeof heard, &answered), answered, ERROR_PEER,
                 "closed");
    close_both();
}

TEST(channel, stays_closed_for_who_has_another_key)
{
    int first, second;
    make_keys();
    shake(&other, &key, &first, &second);
    ASSERT_INT(first, ==, -1);
    ASSERT_INT(second, ==, -1);
    ASSERT_CONTAINS(answered.message, "its secret is not ours");
    ASSERT_CONTAINS(asked.message, "does not accept our secret");
    close_both();
}

TEST(channel, stays_closed_for_who_speaks_no_tls)
{
    int first, second;
    make_keys();
    shake(NULL, &key, &first, &second);
    ASSERT_INT(first, ==, 1);
    ASSERT_INT(channel_write(asks, "GET / HTTP/1.1\r\n\r\n", 18, &asked), ==, 18);
    ASSERT_INT(channel_shake(answers, &answered), ==, -1);
    close_both();
}

/* Everything that one side said, recorded from between, said again to another. */
TEST(channel, stays_closed_for_a_recording)
{
    int left[2], right[2], again[2];
    struct error err = {0};
    static char recorded[1 << 16];
    size_t count = 0;
    int first = 0, second = 0;
    make_keys();
    make_sockets(left);
    make_sockets(right);
    ASSERT_OK(channel_create(left[0], &key, CHANNEL_ASKS, &asks, &err), err);
    ASSERT_OK(channel_create(right[0], &key, CHANNEL_ANSWERS, &answers, &err), err);
    for (int i = 0; i < 20 && (first != 1 || second != 1); i++) {
        char bytes[1 << 14];
        ssize_t got;
        first = channel_shake(asks, &asked);
        if (first == 1 && i > 2)
            channel_write(asks, "start a process", 15, &asked);
        while ((got = read(left[1], bytes, sizeof bytes)) > 0) {
            memcpy(recorded + count, bytes, (size_t)got);
            count += (size_t)got;
            ASSERT_INT(write(right[1], bytes, (size_t)got), ==, got);
        }
        second = channel_shake(answers, &answered);
        while ((got = read(right[1], bytes, sizeof bytes)) > 0)
            ASSERT_INT(write(left[1], bytes, (size_t)got), ==, got);
    }
    ASSERT_INT(first, ==, 1);
    ASSERT_INT(second, ==, 1);
    close_both();
    close(left[1]);
    close(right[1]);

    make_sockets(again);
    ASSERT_OK(channel_create(again[0], &key, CHANNEL_ANSWERS, &answers, &err), err);
    ASSERT_INT(write(again[1], recorded, count), ==, (ssize_t)count);
    second = 0;
    answered = (struct error){0};
    for (int i = 0; i < 20 && !second; i++)
        second = channel_shake(answers, &answered);
    ASSERT_INT(second, ==, -1);
    close_both();
    close(again[1]);
}

TEST(channel, without_a_key_hides_nothing)
{
    int first, second;
    char heard[16] = "";
    shake(NULL, NULL, &first, &second);
    ASSERT_INT(first, ==, 1);
    ASSERT_INT(channel_write(asks, "hello", 5, &asked), ==, 5);
    ASSERT_INT(channel_read(answers, heard, sizeof heard, &answered), ==, 5);
    ASSERT_TEXT(heard, "hello");
    close_both();
}
