#include "launch/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "launch/keeper_wire.h"
#include "launch/rank_words.h"

struct keeper {
    int socket, state;
    int64_t generation;
    atomic_int wish;
};

/* -1: not connected, in words. */
static int connect_to(const char *name, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length >= sizeof address.sun_path)
        return error_set(err, ERROR_USAGE, KEEPER_VARIABLE "=%s is no agent", name);
    memcpy(address.sun_path + 1, name, length); /* behind a NUL: in no directory */
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (line >= 0 && connect(line, (struct sockaddr *)&address, bytes) == 0)
        return line;
    error_set(err, ERROR_PEER, "the agent of this rank does not answer: %s", strerror(errno));
    if (line >= 0)
        close(line);
    return -1;
}

static int say(int line, const struct keeper_packet *packet, int flags)
{
    return send(line, packet, sizeof *packet, MSG_NOSIGNAL | flags) == sizeof *packet ? 0 : -1;
}

/* The agent answers at once, or is not well. */
static bool await_answer(int line)
{
    enum { PATIENCE_MS = 20000 };
    struct pollfd one = {.fd = line, .events = POLLIN};
    return poll(&one, 1, PATIENCE_MS) == 1;
}

static int receive_state(struct keeper *keeper, struct error *err)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct keeper_packet packet = {0};
    struct iovec part = {.iov_base = &packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (!await_answer(keeper->socket) ||
        recvmsg(keeper->socket, &message, MSG_CMSG_CLOEXEC) != sizeof packet)
        return error_set(err, ERROR_PEER, "the agent of this rank does not answer");
    if (packet.kind == KEEPER_PACKET_REFUSED)
        return error_set(err, ERROR_PEER, "refused by the agent: %.*s", KEEPER_TEXT_BYTES - 1,
                         packet.text);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return error_set(err, ERROR_PEER, "the agent gave this rank no memory");
    memcpy(&keeper->state, CMSG_DATA(header), sizeof keeper->state);
    keeper->generation = packet.number;
    return 0;
}

int keeper_connect(struct keeper **out, struct error *err)
{
    const char *name = getenv(KEEPER_VARIABLE);
    *out = NULL;
    if (!name || !*name)
        return 0;
    struct keeper *keeper = memory_allocate(sizeof *keeper);
    if (!keeper)
        return error_set(err, ERROR_MEMORY, "no memory for the line to the agent");
    *keeper = (struct keeper){.socket = -1, .state = -1};
    struct keeper_packet ask = {.kind = KEEPER_PACKET_STATE};
    keeper->socket = connect_to(name, err);
    if (keeper->socket < 0 || say(keeper->socket, &ask, 0) < 0 || receive_state(keeper, err) < 0) {
        if (err && !err->code)
            error_set(err, ERROR_PEER, "the agent of this rank does not answer");
        keeper_close(keeper);
        return -1;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    *out = keeper;
    return 0;
}

void keeper_close(struct keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->socket >= 0)
        close(keeper->socket);
    if (keeper->state >= 0)
        close(keeper->state);
    memory_free(keeper);
}

int keeper_state(const struct keeper *keeper)
{
    return keeper->state;
}

int64_t keeper_generation(const struct keeper *keeper)
{
    return keeper->generation;
}

/* A wish stays, whichever thread reads it. */
static void hear(struct keeper *keeper)
{
    struct keeper_packet packet;
    ssize_t got;
    while ((got = recv(keeper->socket, &packet, sizeof packet, MSG_DONTWAIT)) == sizeof packet)
        if (packet.kind == KEEPER_PACKET_WISH)
            atomic_store(&keeper->wish, packet.outcome);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        atomic_store(&keeper->wish, KEEPER_ALONE);
}

enum keeper_wish keeper_tell(struct keeper *keeper, int64_t step, const char *doing)
{
    struct keeper_packet packet = {.kind = KEEPER_PACKET_TELL, .number = step};
    snprintf(packet.text, 32, "%s", doing);
    hear(keeper);
    say(keeper->socket, &packet, MSG_DONTWAIT); /* a full line: the agent has enough to read */
    return (enum keeper_wish)atomic_load(&keeper->wish);
}

void keeper_finish(struct keeper *keeper, enum keeper_outcome outcome, int status,
                   const char *reason)
{
    struct keeper_packet packet = {
        .kind = KEEPER_PACKET_FINISH, .outcome = (int32_t)outcome, .status = status};
    snprintf(packet.text, sizeof packet.text, "%s", reason);
    say(keeper->socket, &packet, 0);
}

/* --- before there is a rank --------------------------------------------------------------------------- */

int rank_words(char **out, size_t *bytes, struct error *err)
{
    const char *name = getenv(KEEPER_VARIABLE);
    struct keeper_packet ask = {.kind = KEEPER_PACKET_WORDS};
    if (!name || !*name)
        return error_set(err, ERROR_USAGE,
                         "--rank is for agents, which start ranks with it; there is none here");
    char *words = memory_allocate(KEEPER_WORDS_BYTES);
    if (!words)
        return error_set(err, ERROR_MEMORY, "no memory for the words of a rank");
    int line = connect_to(name, err);
    ssize_t got = -1;
    if (line >= 0 && say(line, &ask, 0) == 0 && await_answer(line))
        got = recv(line, words, KEEPER_WORDS_BYTES - 1, 0);
    if (line >= 0)
        close(line);
    if (got <= 0) {
        memory_free(words);
        return line < 0 ? -1 : error_set(err, ERROR_PEER, "the agent says no words for a rank");
    }
    *out = words;
    *bytes = (size_t)got;
    return 0;
}
