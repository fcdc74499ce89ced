#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/agent_internal.h"
#include "launch/loop.h"

static const double proving_seconds = 10; /* to prove the secret and to say who it is */
static const double port_seconds = 3;     /* for an earlier process to give it up */
static const double refused_seconds = 1;  /* to hear why */

/* --- refusing --------------------------------------------------------------------------------------------- */

/* Strangers cannot fill the log: at most one line a second, which counts the others. */
static void log_refusal(struct agent *agent, const char *peer, const char *why)
{
    double now = clock_seconds();
    if (now - agent->refused_told < 1) {
        agent->refused_untold++;
        return;
    }
    char more[48] = "";
    if (agent->refused_untold)
        snprintf(more, sizeof more, " (and %d more before)", agent->refused_untold);
    log_line(LOG_WARNING, "refused %s: %s%s", peer, why, more);
    agent->refused_told = now;
    agent->refused_untold = 0;
}

static void unlink_visitor(struct visitor *visitor)
{
    for (struct visitor **at = &visitor->agent->visitors; *at; at = &(*at)->next)
        if (*at == visitor) {
            *at = visitor->next;
            return;
        }
}

static void release(void *context)
{
    memory_free(context);
}

void agent_dismiss(struct visitor *visitor)
{
    struct agent *agent = visitor->agent;
    if (visitor->run)
        agent_leave_run(visitor->run);
    if (agent->leader == visitor) {
        agent->leader = NULL;
        agent->unled_since = clock_seconds();
    }
    unlink_visitor(visitor);
    link_destroy(visitor->link);
    loop_release_later(agent->loop, release, visitor);
}

static void refuse(struct visitor *visitor, enum refusal kind, const char *why)
{
    log_refusal(visitor->agent, link_peer(visitor->link), why);
    struct strbuf *out = link_begin(visitor->link, MESSAGE_REFUSED);
    message_text(out, why);
    message_number(out, kind);
    link_send(visitor->link);
    /* It closes the line when it has heard why: who closes on words not yet read takes back its
     * own. */
    visitor->refused = true;
    visitor->since = clock_seconds();
}

/* --- who leads ---------------------------------------------------------------------------------------------- */

static bool lead_is_held(const struct agent *agent, const struct hello *hello)
{
    return agent->leader && strcmp(agent->leader_incarnation, hello->incarnation) != 0 &&
           link_silence(agent->leader->link) < agent->settings.peer_timeout;
}

/* Empty when it may lead. */
static void judge_leader(const struct agent *agent, const struct hello *hello, char *why,
                         size_t bytes, enum refusal *kind)
{
    const struct cluster *cluster = agent->settings.cluster;
    why[0] = '\0';
    *kind = REFUSED_FOR_NOW;
    if (!cluster)
        snprintf(why, bytes, "this agent belongs to no group");
    else if (strcmp(hello->group, cluster->fingerprint) != 0)
        snprintf(why, bytes, "its list of members is another than that of %s",
                 cluster_name(cluster, cluster->index));
    else if (hello->index != cluster->index || cluster->index == 0)
        snprintf(why, bytes, "this is %s, which it took for another",
                 cluster_name(cluster, cluster->index));
    else if (lead_is_held(agent, hello)) {
        snprintf(why, bytes, "another process leads this group (generation %" PRId64 ") and lives",
                 agent->generation);
        *kind = REFUSED_FOR_ANOTHER;
    } else if (!strcmp(agent->leader_incarnation, hello->incarnation) &&
               hello->generation < agent->generation)
        snprintf(why, bytes, "it speaks of generation %" PRId64 ", this is %" PRId64,
                 hello->generation, agent->generation);
    else if (*agent->leader_incarnation && hello->generation &&
             strcmp(agent->leader_incarnation, hello->incarnation) != 0 &&
             hello->generation <= agent->generation) {
        snprintf(why, bytes,
                 "the group went on without it: it led generation %" PRId64 ", this is %" PRId64,
                 hello->generation, agent->generation);
        *kind = REFUSED_FOR_GOOD;
    }
}

static void welcome_leader(struct visitor *visitor, const struct hello *hello)
{
    struct agent *agent = visitor->agent;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    if (agent->leader)
        agent_dismiss(agent->leader);
    agent_end_all(agent, NULL);
    if (strcmp(agent->leader_incarnation, hello->incarnation) != 0)
        log_line(LOG_INFO, "led by %s from %s", cluster_name(agent->settings.cluster, 0),
                 link_peer(visitor->link));
    agent->leader = visitor;
    snprintf(agent->leader_incarnation, sizeof agent->leader_incarnation, "%s", hello->incarnation);
    struct strbuf *out = link_begin(visitor->link, MESSAGE_WELCOME);
    message_number(out, agent->generation);
    message_text(out, agent->incarnation);
    message_text(out, host);
    link_send(visitor->link);
}

/* --- who comes in ------------------------------------------------------------------------------------------- */

static void hear_hello(struct visitor *visitor, struct message *message)
{
    struct agent *agent = visitor->agent;
    struct hello hello;
    struct error err = {0};
    char why[400];
    enum refusal kind;
    if (message_read_hello(message, &hello, &err) < 0) {
        refuse(visitor, REFUSED_FOR_NOW, err.message);
        return;
    }
    visitor->role = hello.role;
    if (hello.role == HELLO_LEADS) {
        judge_leader(agent, &hello, why, sizeof why, &kind);
        if (*why)
            refuse(visitor, kind, why);
        else
            welcome_leader(visitor, &hello);
    } else if (hello.role == HELLO_RUNS) {
        if (agent->settings.cluster &&
            (!*agent->ticket || strcmp(agent->ticket, hello.ticket) != 0 || agent->preparing))
            refuse(visitor, REFUSED_FOR_NOW,
                   "it wants to start a process for a generation that is over");
    } else if (hello.role == HELLO_ASKS) {
        struct strbuf *out = link_begin(visitor->link, MESSAGE_GROUP);
        message_text(out, agent->group ? agent->group : "{}");
        link_send(visitor->link);
    } else {
        refuse(visitor, REFUSED_FOR_NOW, "it wants something unknown");
    }
}

static void hear_run(struct visitor *visitor, struct message *message)
{
    char *line = memory_allocate(MESSAGE_MOST_BYTES);
    struct error err = {0};
    if (!line || !message_next_text(message, line, MESSAGE_MOST_BYTES))
        error_set(&err, ERROR_FORMAT, "a command that cannot be read");
    else
        agent_run(visitor, line, &err);
    memory_free(line);
    if (err.code)
        refuse(visitor, REFUSED_FOR_NOW, err.message);
}

static void on_heard(void *context, struct link *link, struct message *message)
{
    struct visitor *visitor = context;
    if (visitor->refused)
        return;
    if (!visitor->role)
        hear_hello(visitor, message);
    else if (visitor->agent->leader == visitor)
        agent_heard_leader(visitor->agent, link, message);
    else if (visitor->role == HELLO_RUNS && message->kind == MESSAGE_RUN && !visitor->run)
        hear_run(visitor, message);
    else
        refuse(visitor, REFUSED_FOR_NOW, "it spoke out of turn");
}

static void on_ended(void *context, struct link *link, const struct error *why)
{
    struct visitor *visitor = context;
    struct agent *agent = visitor->agent;
    bool led = agent->leader == visitor;
    if (!visitor->role && !visitor->refused)
        log_refusal(agent, link_peer(link), why->message);
    agent_dismiss(visitor);
    if (led && !agent->over)
        agent_end_all(agent, why->message);
}

static void on_connection(void *context, short events)
{
    struct agent *agent = context;
    struct error err = {0};
    (void)events;
    int line = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (line < 0)
        return;
    struct visitor *visitor = memory_allocate(sizeof *visitor);
    if (!visitor) {
        close(line);
        return;
    }
    *visitor = (struct visitor){.agent = agent, .since = clock_seconds()};
    struct link_owner owner = {.heard = on_heard, .ended = on_ended, .context = visitor};
    if (link_create(agent->loop, line, agent->settings.key, CHANNEL_ANSWERS, &owner, &visitor->link,
                    &err) < 0) {
        log_line(LOG_WARNING, "a connection was dropped: %s", err.message);
        memory_free(visitor);
        return;
    }
    visitor->next = agent->visitors;
    agent->visitors = visitor;
}

/* Who does not say in time who it is, and the oldest of too many, goes. The list is newest first. */
void agent_check_visitors(struct agent *agent)
{
    double now = clock_seconds();
    int unproved = 0;
    for (struct visitor *next, *visitor = agent->visitors; visitor; visitor = next) {
        next = visitor->next;
        if (visitor->refused && now - visitor->since > refused_seconds)
            agent_dismiss(visitor);
        if (visitor->role || visitor->refused)
            continue;
        if (++unproved > AGENT_UNPROVED_MOST || now - visitor->since > proving_seconds) {
            log_refusal(agent, link_peer(visitor->link),
                        unproved > AGENT_UNPROVED_MOST ? "too many at once say nothing"
                                                       : "it did not say who it is");
            agent_dismiss(visitor);
        }
    }
    if (agent->leader && link_silence(agent->leader->link) > agent->settings.peer_timeout) {
        char why[64];
        snprintf(why, sizeof why, "it said nothing for %g s", agent->settings.peer_timeout);
        agent_dismiss(agent->leader);
        agent_end_all(agent, why);
    }
}

/* --- the door ------------------------------------------------------------------------------------------------ */

/* On one address, or on all, of both families where there are both. */
static int open_socket(const char *host, int port, struct sockaddr_storage *address,
                       socklen_t *bytes)
{
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    int no = 0, yes = 1;
    memset(address, 0, sizeof *address);
    if (host && inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
    } else if (host && inet_pton(AF_INET6, host, &six->sin6_addr) != 1) {
        errno = EADDRNOTAVAIL;
        return -1;
    } else {
        six->sin6_family = AF_INET6;
    }
    int line = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line < 0 && !host) {
        memset(address, 0, sizeof *address);
        four->sin_family = AF_INET;
        line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (address->ss_family == AF_INET6)
        six->sin6_port = htons((uint16_t)port);
    else
        four->sin_port = htons((uint16_t)port);
    *bytes = address->ss_family == AF_INET6 ? sizeof *six : sizeof *four;
    if (line >= 0) {
        setsockopt(line, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (address->ss_family == AF_INET6)
            setsockopt(line, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    }
    return line;
}

/* A process of this member that was killed just now may still be on its way out. */
static int listen_soon(int line, const struct sockaddr *address, socklen_t bytes)
{
    double until = clock_seconds() + port_seconds;
    for (bool bound = false;; usleep(50000)) {
        bound = bound || bind(line, address, bytes) == 0;
        if (bound && listen(line, 128) == 0)
            return 0;
        if (errno != EADDRINUSE || clock_seconds() > until)
            return -1;
    }
}

int agent_open_door(struct agent *agent, struct error *err)
{
    const struct agent_settings *settings = &agent->settings;
    struct sockaddr_storage address;
    socklen_t bytes;
    agent->listener = open_socket(settings->host, settings->port, &address, &bytes);
    if (agent->listener < 0 || listen_soon(agent->listener, (struct sockaddr *)&address, bytes) < 0)
        return error_set(err, ERROR_IO, "cannot listen on port %d: %s%s", settings->port,
                         strerror(errno),
                         errno == EADDRINUSE ? "; is this member running already?" : "");
    bytes = sizeof address;
    getsockname(agent->listener, (struct sockaddr *)&address, &bytes);
    agent->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                      : ((struct sockaddr_in *)&address)->sin_port);
    agent->watch = loop_watch(agent->loop, agent->listener, POLLIN, on_connection, agent);
    return agent->watch ? 0 : error_set(err, ERROR_MEMORY, "no memory for the agent");
}

void agent_close_door(struct agent *agent)
{
    while (agent->visitors)
        agent_dismiss(agent->visitors);
    loop_forget(agent->watch);
    if (agent->listener >= 0)
        close(agent->listener);
    agent->listener = -1;
}
