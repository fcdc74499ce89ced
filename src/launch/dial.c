#include "launch/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "launch/loop.h"

struct dial {
    atomic_int holders; /* the loop's side and the thread: who leaves last frees */
    struct loop_watch *watch;
    int done[2]; /* a pipe: the thread closes its end when the result is there */
    dial_function *function;
    void *context;
    char host[256], port[8];
    int patience_ms;
    atomic_int socket; /* the result; -1: see `why` */
    struct error why;
};

static void leave(struct dial *dial)
{
    if (atomic_fetch_sub(&dial->holders, 1) > 1)
        return;
    int left = atomic_load(&dial->socket);
    if (left >= 0)
        close(left);
    memory_free(dial);
}

/* --- the thread --------------------------------------------------------------------------------------- */

static int connect_within(const struct addrinfo *address, int patience_ms)
{
    int number = 0;
    socklen_t bytes = sizeof number;
    int line = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line < 0)
        return -1;
    if (connect(line, address->ai_addr, address->ai_addrlen) == 0)
        return line;
    struct pollfd one = {.fd = line, .events = POLLOUT};
    if (errno != EINPROGRESS)
        number = errno;
    else if (poll(&one, 1, patience_ms) != 1)
        number = ETIMEDOUT;
    else
        getsockopt(line, SOL_SOCKET, SO_ERROR, &number, &bytes);
    if (!number)
        return line;
    close(line);
    errno = number;
    return -1;
}

static int look_up_and_connect(struct dial *dial)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int code = getaddrinfo(dial->host, dial->port, &hints, &list), line = -1, number = 0;
    if (code != 0)
        return error_set(&dial->why, ERROR_PEER, "%s: %s", dial->host,
                         code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    for (const struct addrinfo *address = list; address && line < 0; address = address->ai_next) {
        line = connect_within(address, dial->patience_ms);
        number = errno;
    }
    freeaddrinfo(list);
    return line >= 0 ? line : error_set(&dial->why, ERROR_PEER, "%s", strerror(number));
}

static void *dial_main(void *context)
{
    struct dial *dial = context;
    atomic_store(&dial->socket, look_up_and_connect(dial));
    close(dial->done[1]);
    leave(dial);
    return NULL;
}

/* --- the loop's side ---------------------------------------------------------------------------------- */

static void on_done(void *context, short events)
{
    struct dial *dial = context;
    (void)events;
    dial_function *function = dial->function;
    void *whose = dial->context;
    int line = atomic_exchange(&dial->socket, -1);
    struct error why = dial->why;
    dial_cancel(dial);
    function(whose, line, &why);
}

void dial_cancel(struct dial *dial)
{
    if (!dial)
        return;
    loop_forget(dial->watch);
    close(dial->done[0]);
    leave(dial);
}

struct dial *dial_start(struct loop *loop, const char *host, int port, double seconds,
                        dial_function *function, void *context)
{
    struct dial *dial = memory_allocate(sizeof *dial);
    pthread_t thread;
    if (!dial || pipe2(dial->done, O_CLOEXEC) < 0) {
        memory_free(dial);
        return NULL;
    }
    atomic_init(&dial->holders, 2);
    atomic_init(&dial->socket, -1);
    dial->function = function;
    dial->context = context;
    dial->patience_ms = (int)(seconds * 1000);
    snprintf(dial->host, sizeof dial->host, "%s", host);
    snprintf(dial->port, sizeof dial->port, "%d", port);
    dial->watch = loop_watch(loop, dial->done[0], POLLIN, on_done, dial);
    if (!dial->watch || thread_start(&thread, dial_main, dial) != 0) {
        loop_forget(dial->watch);
        close(dial->done[0]);
        close(dial->done[1]);
        memory_free(dial);
        return NULL;
    }
    pthread_detach(thread);
    return dial;
}
