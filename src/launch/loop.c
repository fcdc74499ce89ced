#include "launch/loop.h"

#include <poll.h>
#include <stdbool.h>

#include "base/memory.h"

struct loop_watch {
    struct loop_watch *next;
    int descriptor;
    short events;
    bool dead;
    loop_function *function;
    void *context;
};

struct released {
    struct released *next;
    void (*release)(void *context);
    void *context;
};

struct loop {
    struct loop_watch *watches;
    struct released *released;
    struct pollfd *polled; /* in the order of the watches when a turn began */
    struct loop_watch **awaited;
    int room, count;
};

struct loop *loop_create(void)
{
    return memory_allocate(sizeof(struct loop));
}

static void sweep(struct loop *loop)
{
    for (struct loop_watch **at = &loop->watches; *at;) {
        struct loop_watch *watch = *at;
        if (watch->dead) {
            *at = watch->next;
            loop->count--;
            memory_free(watch);
        } else {
            at = &watch->next;
        }
    }
    while (loop->released) {
        struct released *first = loop->released;
        loop->released = first->next;
        first->release(first->context);
        memory_free(first);
    }
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    for (struct loop_watch *watch = loop->watches; watch; watch = watch->next)
        watch->dead = true;
    sweep(loop);
    memory_free(loop->polled);
    memory_free(loop->awaited);
    memory_free(loop);
}

static bool make_room(struct loop *loop)
{
    if (loop->count < loop->room)
        return true;
    int room = loop->room ? 2 * loop->room : 16;
    struct pollfd *polled = memory_resize(loop->polled, (size_t)room * sizeof *polled);
    if (polled)
        loop->polled = polled;
    struct loop_watch **awaited = memory_resize(loop->awaited, (size_t)room * sizeof *awaited);
    if (awaited)
        loop->awaited = awaited;
    if (!polled || !awaited)
        return false;
    loop->room = room;
    return true;
}

struct loop_watch *loop_watch(struct loop *loop, int descriptor, short events,
                              loop_function *function, void *context)
{
    struct loop_watch *watch = make_room(loop) ? memory_allocate(sizeof *watch) : NULL;
    if (!watch)
        return NULL;
    *watch = (struct loop_watch){.next = loop->watches,
                                 .descriptor = descriptor,
                                 .events = events,
                                 .function = function,
                                 .context = context};
    loop->watches = watch;
    loop->count++;
    return watch;
}

void loop_await(struct loop_watch *watch, short events)
{
    watch->events = events;
}

void loop_forget(struct loop_watch *watch)
{
    if (watch)
        watch->dead = true;
}

void loop_release_later(struct loop *loop, void (*release)(void *context), void *context)
{
    struct released *released = memory_allocate(sizeof *released);
    if (!released)
        return; /* rather a leak than a use after its end */
    *released = (struct released){.next = loop->released, .release = release, .context = context};
    loop->released = released;
}

void loop_turn(struct loop *loop, double seconds)
{
    int count = 0;
    sweep(loop);
    for (struct loop_watch *watch = loop->watches; watch; watch = watch->next) {
        /* A descriptor that is not awaited at all would still tell that it broke, for ever. */
        loop->polled[count] =
            (struct pollfd){.fd = watch->events ? watch->descriptor : -1, .events = watch->events};
        loop->awaited[count++] = watch;
    }
    int ready = poll(loop->polled, (nfds_t)count, (int)(seconds * 1000));
    for (int i = 0; ready > 0 && i < count; i++) {
        struct loop_watch *watch = loop->awaited[i];
        if (loop->polled[i].revents && !watch->dead)
            watch->function(watch->context, loop->polled[i].revents);
    }
    sweep(loop);
}
