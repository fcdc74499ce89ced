#include "support/party.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "launch/loop.h"
#include "support/test.h"

static void remember(struct party *party, struct message message)
{
    struct party_heard *heard = &party->heard[message.kind];
    const void *bytes;
    size_t count;
    bool number = false, text = false;
    heard->count++;
    while (message.at != message.end) {
        int64_t value;
        if (message_next_number(&message, &value)) {
            heard->number = number ? heard->number : value;
            number = true;
        } else if (message_next_bytes(&message, &bytes, &count)) {
            if (!text)
                snprintf(heard->text, sizeof heard->text, "%.*s", (int)count, (const char *)bytes);
            text = true;
        }
    }
}

static void answer(struct party *party)
{
    if (party->manner == REFUSES) {
        struct strbuf *out = link_begin(party->link, MESSAGE_REFUSED);
        message_text(out, "not you");
        message_number(out, party->refusal);
    } else {
        struct strbuf *out = link_begin(party->link, MESSAGE_WELCOME);
        message_number(out, party->generation);
        message_text(out, "an incarnation");
        message_text(out, "a host");
    }
    link_send(party->link);
}

static void on_heard(void *context, struct link *link, struct message *message)
{
    struct party *party = context;
    (void)link;
    remember(party, *message);
    if (message->kind == MESSAGE_HELLO)
        answer(party);
    if (message->kind == MESSAGE_PREPARE && party->ready)
        party_say(party, MESSAGE_READY, party->heard[MESSAGE_PREPARE].number, NULL);
}

static void on_opened(void *context, struct link *link)
{
    struct party *party = context;
    party->opened = true;
    link_send_hello(link, &party->hello);
}

static void on_ended(void *context, struct link *link, const struct error *why)
{
    struct party *party = context;
    (void)why;
    link_destroy(link);
    party->link = NULL;
    party->ended = true;
}

static struct sockaddr_in address_of(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return to;
}

void party_call(struct party *party, struct loop *loop, const struct channel_key *key, int port,
                const struct hello *hello)
{
    struct error err = {0};
    struct sockaddr_in to = address_of(port);
    struct link_owner owner = {
        .opened = on_opened, .heard = on_heard, .ended = on_ended, .context = party};
    *party = (struct party){.loop = loop, .key = key, .hello = *hello, .listener = -1};
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(connect(line, (struct sockaddr *)&to, sizeof to), ==, 0);
    ASSERT_OK(link_create(loop, line, key, CHANNEL_ASKS, &owner, &party->link, &err), err);
}

static void on_call(void *context, short events)
{
    struct party *party = context;
    struct error err = {0};
    struct link_owner owner = {.heard = on_heard, .ended = on_ended, .context = party};
    (void)events;
    int line = accept4(party->listener, NULL, NULL, SOCK_CLOEXEC);
    if (line < 0)
        return;
    link_destroy(party->link);
    ASSERT_OK(
        link_create(party->loop, line, party->key, CHANNEL_ANSWERS, &owner, &party->link, &err),
        err);
}

void party_return(struct party *party, int port)
{
    struct sockaddr_in own = address_of(port);
    socklen_t bytes = sizeof own;
    int yes = 1;
    party->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(party->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ASSERT_INT(bind(party->listener, (struct sockaddr *)&own, sizeof own), ==, 0);
    ASSERT_INT(listen(party->listener, 8), ==, 0);
    getsockname(party->listener, (struct sockaddr *)&own, &bytes);
    party->port = ntohs(own.sin_port);
    party->watch = loop_watch(party->loop, party->listener, POLLIN, on_call, party);
}

void party_listen(struct party *party, struct loop *loop, const struct channel_key *key)
{
    *party = (struct party){.loop = loop, .key = key, .ready = true};
    party_return(party, 0);
}

void party_leave(struct party *party)
{
    link_destroy(party->link);
    party->link = NULL;
    loop_forget(party->watch);
    party->watch = NULL;
    if (party->listener >= 0)
        close(party->listener);
    party->listener = -1;
}

void party_say(struct party *party, enum message_kind kind, int64_t number, const char *text)
{
    if (!party->link)
        return;
    struct strbuf *out = link_begin(party->link, kind);
    message_number(out, number);
    if (text)
        message_text(out, text);
    link_send(party->link);
}

void party_report(struct party *party, int64_t generation, int64_t pid, int64_t step)
{
    if (!party->link)
        return;
    struct strbuf *out = link_begin(party->link, MESSAGE_REPORT);
    message_number(out, generation);
    message_number(out, pid);
    message_number(out, step);
    message_number(out, 0);
    message_text(out, "training");
    message_number(out, 0);
    link_send(party->link);
}
