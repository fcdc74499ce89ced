#include "launch/loop.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { MANY = 40 }; /* more than there is room for at first */

static struct loop *loop;
static int pipes[MANY][2];
static struct loop_watch *watches[MANY];
static int called[MANY], released;

static void note(void *context, short events)
{
    int *count = context;
    (void)events;
    ++*count;
}

static void start(loop_function *function)
{
    loop = loop_create();
    released = 0;
    for (int i = 0; i < MANY; i++) {
        called[i] = 0;
        ASSERT_INT(pipe(pipes[i]), ==, 0);
        watches[i] = loop_watch(loop, pipes[i][0], POLLIN, function, &called[i]);
    }
}

static void stop(void)
{
    loop_destroy(loop);
    for (int i = 0; i < MANY; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

static void ring(int i)
{
    ASSERT_INT(write(pipes[i][1], "x", 1), ==, 1);
}

TEST(loop, calls_those_who_are_concerned)
{
    start(note);
    ring(3);
    ring(MANY - 1);
    loop_turn(loop, 1);
    for (int i = 0; i < MANY; i++)
        ASSERT_INT(called[i], ==, i == 3 || i == MANY - 1);
    stop();
}

TEST(loop, waits_no_longer_than_it_was_told)
{
    start(note);
    double since = clock_seconds();
    loop_turn(loop, 0.05);
    ASSERT_NUMBER(clock_seconds() - since, >=, 0.04);
    stop();
}

TEST(loop, does_not_call_who_awaits_nothing)
{
    start(note);
    ring(0);
    loop_await(watches[0], 0);
    loop_turn(loop, 0);
    ASSERT_INT(called[0], ==, 0);
    loop_await(watches[0], POLLIN);
    loop_turn(loop, 0);
    ASSERT_INT(called[0], ==, 1);
    stop();
}

/* The first who is called sends all others away. */
static void send_away(void *context, short events)
{
    note(context, events);
    for (int i = 0; i < MANY; i++)
        if (&called[i] != context) {
            loop_forget(watches[i]);
            watches[i] = NULL; /* it is gone after this turn */
        }
}

TEST(loop, does_not_call_who_was_forgotten_in_the_same_turn)
{
    int calls = 0;
    start(send_away);
    for (int i = 0; i < MANY; i++)
        ring(i);
    loop_turn(loop, 1);
    loop_turn(loop, 0);
    for (int i = 0; i < MANY; i++)
        calls += called[i] > 0;
    ASSERT_INT(calls, ==, 1);
    stop();
}

static void count_release(void *context)
{
    (void)context;
    released++;
}

static void release_later(void *context, short events)
{
    note(context, events);
    loop_release_later(loop, count_release, NULL);
    ASSERT_INT(released, ==, 0);
}

TEST(loop, releases_when_no_callback_runs)
{
    start(release_later);
    ring(0);
    loop_turn(loop, 1);
    ASSERT_INT(released, ==, 1);
    stop();
}

static void watch_more(void *context, short events)
{
    note(context, events);
    loop_forget(loop_watch(loop, pipes[0][0], POLLIN, note, context));
    for (int i = 0; i < MANY; i++)
        loop_watch(loop, pipes[i][0], POLLIN, note, &called[i]);
}

TEST(loop, takes_new_ones_while_it_calls)
{
    start(watch_more);
    ring(5);
    loop_turn(loop, 1);
    ASSERT_INT(called[5], ==, 1);
    loop_turn(loop, 0);
    ASSERT_INT(called[5], >=, 2);
    stop();
}
