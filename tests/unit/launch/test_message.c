/* What agents say to each other, byte by byte. */
#include "launch/message.h"

#include "base/strbuf.h"
#include "support/test.h"

static struct strbuf sent;
static struct message message;
static struct error err;
static size_t used;

static void write_report(void)
{
    strbuf_init(&sent);
    size_t begin = message_begin(&sent, MESSAGE_REPORT);
    message_number(&sent, -7);
    message_text(&sent, "training");
    message_bytes(&sent, "a\0b", 3);
    message_end(&sent, begin);
}

TEST(message, comes_out_as_it_went_in)
{
    int64_t number;
    char text[16];
    const void *bytes;
    size_t count;
    write_report();
    ASSERT_INT(message_take(sent.text, sent.length, &message, &used, &err), ==, 1);
    ASSERT_INT(used, ==, sent.length);
    ASSERT_INT(message.kind, ==, MESSAGE_REPORT);
    ASSERT_TRUE(message_next_number(&message, &number));
    ASSERT_INT(number, ==, -7);
    ASSERT_TRUE(message_next_text(&message, text, sizeof text));
    ASSERT_TEXT(text, "training");
    ASSERT_TRUE(message_next_bytes(&message, &bytes, &count));
    ASSERT_BYTES(bytes, "a\0b", 3);
    ASSERT_FALSE(message_next_number(&message, &number));
    strbuf_release(&sent);
}

TEST(message, waits_until_all_of_it_is_there)
{
    write_report();
    for (size_t count = 0; count < sent.length; count++)
        ASSERT_INT(message_take(sent.text, count, &message, &used, &err), ==, 0);
    strbuf_release(&sent);
}

TEST(message, gives_no_field_of_another_kind_or_size)
{
    int64_t number;
    char text[16], small[4];
    write_report();
    ASSERT_INT(message_take(sent.text, sent.length, &message, &used, &err), ==, 1);
    ASSERT_FALSE(message_next_text(&message, text, sizeof text));
    ASSERT_TRUE(message_next_number(&message, &number));
    ASSERT_FALSE(message_next_number(&message, &number));
    ASSERT_FALSE(message_next_text(&message, small, sizeof small));
    ASSERT_TRUE(message_next_text(&message, text, sizeof text));
    ASSERT_FALSE(message_next_text(&message, text, sizeof text)); /* a NUL is in it */
    strbuf_release(&sent);
}

TEST(message, that_is_damaged_is_refused_before_it_is_looked_at)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *part;
    } damaged[] = {
        {"\0\0\0\0", 4, "no message"},
        {"\xff\xff\xff\xff", 4, "no message"},
        {"GET / HTTP/1.1\r\n", 16, "no message"},
        {"\x16\x03\x01\x02\0", 5, "it speaks TLS"},
        {"\0\0\0\1\0", 5, "unknown kind 0"},
        {"\0\0\0\1\x7f", 5, "unknown kind 127"},
        {"\0\0\0\3\1nn", 7, "damaged message of kind 1"},
        {"\0\0\0\6\1t\0\0\0\1", 10, "damaged message"},
        {"\0\0\0\6\1t\xff\xff\xff\xff", 10, "damaged message"},
        {"\0\0\0\2\1x", 6, "damaged message"},
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        ASSERT_FAILS(message_take(damaged[i].bytes, damaged[i].count, &message, &used, &err), err,
                     ERROR_FORMAT, damaged[i].part);
}

TEST(message, of_greeting_tells_who_it_is)
{
    struct hello hello = {.role = HELLO_LEADS, .index = 3, .generation = 17}, heard = {0};
    snprintf(hello.group, sizeof hello.group, "0123456789abcdef");
    snprintf(hello.ticket, sizeof hello.ticket, "ticket");
    strbuf_init(&sent);
    message_hello(&sent, &hello);
    ASSERT_INT(message_take(sent.text, sent.length, &message, &used, &err), ==, 1);
    ASSERT_OK(message_read_hello(&message, &heard, &err), err);
    ASSERT_BYTES(&heard, &hello, sizeof hello);
    sent.text[sizeof "\0\0\0\0\1n" - 1 + 7]++; /* the version's last byte */
    ASSERT_INT(message_take(sent.text, sent.length, &message, &used, &err), ==, 1);
    ASSERT_FAILS(message_read_hello(&message, &heard, &err), err, ERROR_FORMAT,
                 "use the same release everywhere");
    strbuf_release(&sent);
}
