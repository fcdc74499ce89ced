#include "launch/dial.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "launch/loop.h"
#include "net/reach.h"

struct dial {
    atomic_int holders; /* the loop's side and the thread: who leaves last frees */
    struct loop_watch *watch;
    int done[2]; /* a pipe: the thread closes its end when the result is there */
    dial_function *function;
    void *context;
    char host[256], port[8];
    double seconds;
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

static void *dial_main(void *context)
{
    struct dial *dial = context;
    int line = reach(dial->host, dial->port, dial->seconds, &dial->why);
    atomic_store(&dial->socket, line);
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
    dial->seconds = seconds;
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
