#include "launch/vault.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/keeper_wire.h"
#include "launch/loop.h"
#include "launch/secret.h"

enum { VISITORS = 8 }; /* at once; a rank asks for its words and then for its memory */

struct visitor {
    struct vault *vault;
    struct loop_watch *watch;
    int socket; /* -1: none */
    pid_t pid;
};

struct vault {
    struct loop *loop;
    struct vault_owner owner;
    const char *words;
    size_t words_bytes;
    int listener, state;
    struct loop_watch *watch;
    char variable[64];
    struct visitor visitors[VISITORS];

    int64_t generation;   /* whose rank may come; 0: none may */
    struct visitor *rank; /* NULL: there is none */
    struct vault_rank told;
    double heard;
    bool finished;
    struct keeper_packet last_word;
};

/* --- a rank ------------------------------------------------------------------------------------------- */

static void send_state(struct vault *vault, struct visitor *visitor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct keeper_packet packet = {.kind = KEEPER_PACKET_STATE, .number = vault->generation};
    struct iovec part = {.iov_base = &packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &vault->state, sizeof vault->state);
    sendmsg(visitor->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say(const struct visitor *visitor, enum keeper_packet_kind kind, int outcome,
                const char *text)
{
    struct keeper_packet packet = {.kind = kind, .outcome = outcome};
    snprintf(packet.text, sizeof packet.text, "%s", text);
    send(visitor->socket, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void admit(struct vault *vault, struct visitor *visitor)
{
    if (!vault->generation || (vault->rank && vault->rank != visitor)) {
        say(visitor, KEEPER_PACKET_REFUSED, 0,
            vault->generation ? "this member has a rank already" : "its group is over");
        return;
    }
    vault->rank = visitor;
    vault->finished = false;
    vault->told = (struct vault_rank){.pid = visitor->pid};
    snprintf(vault->told.doing, sizeof vault->told.doing, "starting");
    vault->heard = clock_seconds();
    send_state(vault, visitor);
}

static void hear(struct vault *vault, struct visitor *visitor, struct keeper_packet *packet)
{
    packet->text[sizeof packet->text - 1] = '\0';
    if (packet->kind == KEEPER_PACKET_STATE) {
        admit(vault, visitor);
    } else if (packet->kind == KEEPER_PACKET_WORDS) {
        send(visitor->socket, vault->words, vault->words_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (visitor == vault->rank) {
        vault->heard = clock_seconds();
        if (packet->kind == KEEPER_PACKET_FINISH) {
            vault->finished = true;
            vault->last_word = *packet;
        } else if (packet->kind == KEEPER_PACKET_TELL) {
            vault->told.step = packet->number;
            snprintf(vault->told.doing, sizeof vault->told.doing, "%.31s", packet->text);
        }
    }
}

static void dismiss(struct visitor *visitor)
{
    loop_forget(visitor->watch);
    close(visitor->socket);
    visitor->watch = NULL;
    visitor->socket = -1;
}

static void on_visitor(void *context, short events)
{
    struct visitor *visitor = context;
    struct vault *vault = visitor->vault;
    struct keeper_packet packet;
    ssize_t got;
    (void)events;
    while ((got = recv(visitor->socket, &packet, sizeof packet, MSG_DONTWAIT)) > 0)
        if (got == sizeof packet)
            hear(vault, visitor, &packet);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    dismiss(visitor);
    if (visitor != vault->rank)
        return;
    struct vault_end end = {.finished = vault->finished,
                            .outcome = (enum keeper_outcome)vault->last_word.outcome,
                            .status = vault->last_word.status,
                            .step = vault->told.step,
                            .reason = vault->finished ? vault->last_word.text : ""};
    vault->rank = NULL;
    vault->told.pid = 0;
    vault->owner.gone(vault->owner.context, &end);
}

/* --- the door ------------------------------------------------------------------------------------------- */

/* The name is no secret to who lists sockets; who may come in is decided by the user it is. */
static void on_knock(void *context, short events)
{
    struct vault *vault = context;
    struct ucred peer = {0};
    socklen_t bytes = sizeof peer;
    (void)events;
    int line = accept4(vault->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (line < 0)
        return;
    struct visitor *place = NULL;
    for (int i = 0; i < VISITORS && !place; i++)
        if (vault->visitors[i].socket < 0)
            place = &vault->visitors[i];
    bool own =
        getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
    if (!own)
        log_line(LOG_WARNING, "process %d of user %d wanted this member's memory: refused",
                 (int)peer.pid, (int)peer.uid);
    if (!own || !place) {
        close(line);
        return;
    }
    *place = (struct visitor){.vault = vault, .socket = line, .pid = peer.pid};
    place->watch = loop_watch(vault->loop, line, POLLIN, on_visitor, place);
    if (!place->watch)
        dismiss(place);
}

static int open_door(struct vault *vault, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[SECRET_NAME_BYTES];
    if (secret_name(name, err) < 0)
        return -1;
    snprintf(vault->variable, sizeof vault->variable, KEEPER_VARIABLE "=lockstep-%s", name);
    const char *path = strchr(vault->variable, '=') + 1;
    memcpy(address.sun_path + 1, path, strlen(path));
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path));
    vault->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (vault->listener < 0 || bind(vault->listener, (struct sockaddr *)&address, bytes) < 0 ||
        listen(vault->listener, VISITORS) < 0)
        return error_set(err, ERROR_IO, "no socket for ranks: %s", strerror(errno));
    vault->watch = loop_watch(vault->loop, vault->listener, POLLIN, on_knock, vault);
    return vault->watch ? 0 : error_set(err, ERROR_MEMORY, "no memory for the agent");
}

int vault_create(struct loop *loop, const struct vault_owner *owner, const char *words,
                 size_t words_bytes, struct vault **out, struct error *err)
{
    struct vault *vault = memory_allocate(sizeof *vault);
    if (!vault)
        return error_set(err, ERROR_MEMORY, "no memory for the agent");
    *vault = (struct vault){
        .loop = loop, .owner = *owner, .words = words, .words_bytes = words_bytes, .listener = -1};
    for (int i = 0; i < VISITORS; i++)
        vault->visitors[i].socket = -1;
    vault->state = memfd_create("lockstep-state", MFD_CLOEXEC);
    if (vault->state < 0)
        error_set(err, ERROR_IO, "no memory for a rank's state: %s", strerror(errno));
    if (vault->state < 0 || open_door(vault, err) < 0) {
        vault_destroy(vault);
        return -1;
    }
    *out = vault;
    return 0;
}

void vault_destroy(struct vault *vault)
{
    if (!vault)
        return;
    for (int i = 0; i < VISITORS; i++)
        if (vault->visitors[i].socket >= 0)
            dismiss(&vault->visitors[i]);
    loop_forget(vault->watch);
    if (vault->listener >= 0)
        close(vault->listener);
    if (vault->state >= 0)
        close(vault->state);
    memory_free(vault);
}

const char *vault_variable(const struct vault *vault)
{
    return vault->variable;
}

void vault_admit(struct vault *vault, int64_t generation)
{
    vault->generation = generation;
}

void vault_wish(struct vault *vault, enum keeper_wish wish)
{
    if (vault->rank)
        say(vault->rank, KEEPER_PACKET_WISH, (int)wish, "");
}

struct vault_rank vault_look(const struct vault *vault)
{
    struct vault_rank rank = vault->told;
    rank.silence = rank.pid ? clock_seconds() - vault->heard : 0;
    return rank;
}

size_t vault_bytes(const struct vault *vault)
{
    struct stat info;
    return fstat(vault->state, &info) == 0 ? (size_t)info.st_blocks * 512 : 0;
}
