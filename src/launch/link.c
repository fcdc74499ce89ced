#include "launch/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "launch/loop.h"

enum { READ_BYTES = 16 << 10 };

struct link {
    struct loop *loop;
    struct loop_watch *watch;
    struct channel *channel;
    struct link_owner owner;
    struct strbuf in, out;
    size_t in_at, out_at, message_at; /* read, sent, begun */
    double heard;
    bool open, ended, destroyed;
    char peer[64];
};

static void name_peer(struct link *link, int socket)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?";
    int port = 0;
    if (getpeername(socket, (struct sockaddr *)&address, &bytes) == 0 &&
        address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        port = ntohs(six->sin6_port);
    } else if (address.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        port = ntohs(four->sin_port);
    }
    const char *plain = strncmp(host, "::ffff:", 7) ? host : host + 7;
    snprintf(link->peer, sizeof link->peer, strchr(plain, ':') ? "[%s]:%d" : "%s:%d", plain, port);
}

static void end(struct link *link, const struct error *why)
{
    if (link->ended || link->destroyed)
        return;
    link->ended = true;
    loop_await(link->watch, 0);
    link->owner.ended(link->owner.context, link, why);
}

/* --- out ------------------------------------------------------------------------------------------- */

static void await(struct link *link)
{
    short events = POLLIN;
    if (!link->open)
        events = channel_wants(link->channel);
    else if (link->out_at < link->out.length)
        events |= POLLOUT;
    if (!link->ended && !link->destroyed)
        loop_await(link->watch, events);
}

/* What fails here is told by the next read, which comes from the loop and not from who sends. */
static void flush(struct link *link)
{
    struct error err = {0};
    while (link->open && link->out_at < link->out.length) {
        ssize_t sent = channel_write(link->channel, link->out.text + link->out_at,
                                     link->out.length - link->out_at, &err);
        if (sent <= 0)
            break;
        link->out_at += (size_t)sent;
    }
    if (link->out_at == link->out.length) {
        strbuf_clear(&link->out);
        link->out_at = 0;
    }
    if (err.code)
        shutdown(channel_socket(link->channel), SHUT_RDWR);
    await(link);
}

struct strbuf *link_begin(struct link *link, enum message_kind kind)
{
    link->message_at = message_begin(&link->out, kind);
    return &link->out;
}

void link_send(struct link *link)
{
    message_end(&link->out, link->message_at);
    if (!link->ended && !link->destroyed)
        flush(link);
}

void link_send_bytes(struct link *link, const void *bytes, size_t count)
{
    strbuf_add_bytes(&link->out, bytes, count);
    if (!link->ended && !link->destroyed)
        flush(link);
}

void link_send_hello(struct link *link, const struct hello *hello)
{
    message_hello(&link->out, hello);
    flush(link);
}

/* --- in -------------------------------------------------------------------------------------------- */

/* Hands out whole messages; false when there is nobody to go on for. */
static bool hand_out(struct link *link, struct error *err)
{
    while (!link->ended && !link->destroyed) {
        struct message message;
        size_t used;
        int got = message_take(link->in.text + link->in_at, link->in.length - link->in_at, &message,
                               &used, err);
        if (got < 0)
            return false;
        if (got == 0)
            break;
        link->in_at += used;
        link->owner.heard(link->owner.context, link, &message);
    }
    link->in.length -= link->in_at;
    memmove(link->in.text, link->in.text + link->in_at, link->in.length);
    link->in_at = 0;
    return !link->ended && !link->destroyed;
}

static bool read_once(struct link *link, struct error *err)
{
    char bytes[READ_BYTES];
    ssize_t count = channel_read(link->channel, bytes, sizeof bytes, err);
    if (count <= 0)
        return false;
    link->heard = clock_seconds();
    strbuf_add_bytes(&link->in, bytes, (size_t)count);
    if (link->in.failed) {
        error_set(err, ERROR_MEMORY, "no memory for a message");
        return false;
    }
    return hand_out(link, err);
}

static void on_ready(void *context, short events)
{
    struct link *link = context;
    struct error err = {0};
    (void)events;
    if (!link->open) {
        int shaken = channel_shake(link->channel, &err);
        if (shaken == 1) {
            link->open = true;
            link->heard = clock_seconds();
            if (link->owner.opened)
                link->owner.opened(link->owner.context, link);
        }
    }
    while (link->open && !link->ended && !link->destroyed && read_once(link, &err)) {
    }
    if (err.code)
        end(link, &err);
    else if (!link->ended && !link->destroyed)
        flush(link);
}

/* --- making and ending ------------------------------------------------------------------------------- */

/* Messages are short and do not wait for more. A line on which nothing is said notices within a minute
 * that the other machine is gone. */
static void tune(int socket)
{
    int yes = 1, idle = 30, interval = 10, count = 3;
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

int link_create(struct loop *loop, int socket, const struct channel_key *key,
                enum channel_side side, const struct link_owner *owner, struct link **out,
                struct error *err)
{
    struct link *link = memory_allocate(sizeof *link);
    if (!link) {
        close(socket);
        return error_set(err, ERROR_MEMORY, "no memory for a connection");
    }
    tune(socket);
    *link = (struct link){.loop = loop, .owner = *owner, .heard = clock_seconds()};
    name_peer(link, socket);
    strbuf_init(&link->in);
    strbuf_init(&link->out);
    if (channel_create(socket, key, side, &link->channel, err) < 0) {
        memory_free(link);
        return -1;
    }
    link->watch = loop_watch(loop, channel_socket(link->channel), channel_wants(link->channel),
                             on_ready, link);
    if (!link->watch) {
        channel_destroy(link->channel);
        memory_free(link);
        return error_set(err, ERROR_MEMORY, "no memory for a connection");
    }
    *out = link;
    return 0;
}

static void release(void *context)
{
    struct link *link = context;
    strbuf_release(&link->in);
    strbuf_release(&link->out);
    memory_free(link);
}

void link_destroy(struct link *link)
{
    if (!link || link->destroyed)
        return;
    link->destroyed = true;
    loop_forget(link->watch);
    channel_destroy(link->channel);
    link->channel = NULL;
    loop_release_later(link->loop, release, link);
}

size_t link_backlog(const struct link *link)
{
    return link->out.length - link->out_at;
}

double link_silence(const struct link *link)
{
    return clock_seconds() - link->heard;
}

const char *link_peer(const struct link *link)
{
    return link->peer;
}

int link_socket(const struct link *link)
{
    return channel_socket(link->channel);
}
