/* An agent of a group, and those who want to lead it. All on one loop. */
#include "base/clock.h"
#include "base/log.h"
#include "launch/agent.h"
#include "launch/loop.h"
#include "support/log_record.h"
#include "support/party.h"
#include "support/test.h"

static struct loop *loop;
static struct agent *agent;
static struct cluster cluster;
static struct channel_key key;
static struct party first, second;

static void start(double peer_timeout)
{
    struct error err = {0};
    log_record_start();
    ASSERT_OK(channel_key_derive("a secret of ours", 16, &key, &err), err);
    ASSERT_OK(cluster_from_peers("127.0.0.1:1,127.0.0.1:2", 1, &cluster, &err), err);
    struct agent_settings settings = {.cluster = &cluster,
                                      .host = "127.0.0.1",
                                      .loopback = true,
                                      .key = &key,
                                      .program = "/bin/echo",
                                      .words = "",
                                      .peer_timeout = peer_timeout};
    loop = loop_create();
    ASSERT_OK(agent_create(loop, &settings, &agent, &err), err);
    first = second = (struct party){.listener = -1};
}

static void stop(void)
{
    party_leave(&first);
    party_leave(&second);
    agent_destroy(agent);
    loop_destroy(loop);
    cluster_release(&cluster);
    log_set_sink(NULL, NULL);
}

static void turn(void)
{
    loop_turn(loop, 0.01);
    agent_tick(agent);
}

static struct hello leads(const char *incarnation, int64_t generation)
{
    struct hello hello = {.role = HELLO_LEADS, .index = 1, .generation = generation};
    snprintf(hello.group, sizeof hello.group, "%s", cluster.fingerprint);
    snprintf(hello.incarnation, sizeof hello.incarnation, "%s", incarnation);
    return hello;
}

static void call(struct party *party, struct hello hello)
{
    party_leave(party);
    party_call(party, loop, &key, agent_port(agent), &hello);
    UNTIL(party->heard[MESSAGE_WELCOME].count || party->heard[MESSAGE_REFUSED].count);
}

static void lead(struct party *party, const char *incarnation, int64_t before, int64_t generation,
                 const char *ticket)
{
    call(party, leads(incarnation, before));
    ASSERT_TEXT(party->heard[MESSAGE_REFUSED].text, "");
    party_say(party, MESSAGE_PREPARE, generation, ticket);
    UNTIL(party->heard[MESSAGE_READY].count);
    ASSERT_INT(party->heard[MESSAGE_READY].number, ==, generation);
}

TEST(agent, is_led_by_one_process_at_a_time)
{
    start(20);
    lead(&first, "one", 0, 1, "ticket");
    call(&second, leads("two", 0));
    ASSERT_CONTAINS(second.heard[MESSAGE_REFUSED].text,
                    "another process leads this group (generation 1) and lives");
    ASSERT_INT(second.heard[MESSAGE_REFUSED].number, ==, REFUSED_FOR_ANOTHER);
    ASSERT_TRUE(agent_is_led(agent));
    ASSERT_FALSE(first.ended);
    stop();
}

TEST(agent, tells_a_new_leader_which_generation_was_the_last)
{
    start(20);
    lead(&first, "one", 0, 7, "ticket");
    party_leave(&first);
    UNTIL(!agent_is_led(agent));
    call(&second, leads("two", 0));
    ASSERT_INT(second.heard[MESSAGE_WELCOME].number, ==, 7);
    stop();
}

TEST(agent, refuses_a_leader_without_whom_the_group_went_on)
{
    start(20);
    lead(&first, "one", 0, 3, "ticket");
    party_leave(&first);
    UNTIL(!agent_is_led(agent));
    lead(&second, "two", 0, 4, "another");
    party_leave(&second);
    UNTIL(!agent_is_led(agent));
    call(&first, leads("one", 3));
    ASSERT_CONTAINS(first.heard[MESSAGE_REFUSED].text,
                    "the group went on without it: it led generation 3, this is 4");
    ASSERT_INT(first.heard[MESSAGE_REFUSED].number, ==, REFUSED_FOR_GOOD);
    ASSERT_FALSE(agent_is_led(agent));
    stop();
}

TEST(agent, takes_back_its_own_leader_after_the_network_failed)
{
    start(20);
    lead(&first, "one", 0, 3, "ticket");
    party_leave(&first);
    UNTIL(!agent_is_led(agent));
    lead(&first, "one", 3, 4, "another");
    ASSERT_TRUE(agent_is_led(agent));
    stop();
}

TEST(agent, heeds_no_order_for_a_generation_that_is_over)
{
    start(20);
    lead(&first, "one", 0, 5, "ticket");
    party_say(&first, MESSAGE_PREPARE, 5, "another");
    UNTIL(strstr(log_record_text(), "a generation that is over was not heeded"));
    party_say(&first, MESSAGE_PREPARE, 6, "another");
    UNTIL(first.heard[MESSAGE_READY].count == 2);
    ASSERT_INT(first.heard[MESSAGE_READY].number, ==, 6);
    stop();
}

static struct hello runs(const char *ticket)
{
    struct hello hello = {.role = HELLO_RUNS, .index = -1};
    snprintf(hello.ticket, sizeof hello.ticket, "%s", ticket);
    return hello;
}

static void run(struct party *party, const char *ticket)
{
    struct hello hello = runs(ticket);
    party_leave(party);
    party_call(party, loop, &key, agent_port(agent), &hello);
    UNTIL(party->opened);
    message_text(link_begin(party->link, MESSAGE_RUN), "echo hello");
    link_send(party->link);
    UNTIL(party->heard[MESSAGE_EXIT].count || party->heard[MESSAGE_REFUSED].count);
}

TEST(agent, starts_processes_for_the_generation_that_is_on)
{
    start(20);
    lead(&first, "one", 0, 1, "an old ticket");
    run(&second, "an old ticket");
    ASSERT_INT(second.heard[MESSAGE_EXIT].count, ==, 1);
    ASSERT_TEXT(second.heard[MESSAGE_OUTPUT].text, "hello\n");
    party_say(&first, MESSAGE_PREPARE, 2, "a new ticket");
    UNTIL(first.heard[MESSAGE_READY].count == 2);
    run(&second, "an old ticket");
    ASSERT_CONTAINS(second.heard[MESSAGE_REFUSED].text, "a generation that is over");
    run(&second, "a new ticket");
    ASSERT_INT(second.heard[MESSAGE_EXIT].count, ==, 1);
    stop();
}

TEST(agent, refuses_a_leader_of_others)
{
    start(20);
    struct hello stranger = leads("one", 0);
    snprintf(stranger.group, sizeof stranger.group, "0123");
    call(&first, stranger);
    ASSERT_CONTAINS(first.heard[MESSAGE_REFUSED].text, "its list of members is another");
    struct hello wrong = leads("one", 0);
    wrong.index = 2;
    call(&second, wrong);
    ASSERT_CONTAINS(second.heard[MESSAGE_REFUSED].text, "which it took for another");
    stop();
}

TEST(agent, gives_up_a_leader_that_says_nothing)
{
    start(0.3);
    call(&first, leads("one", 0));
    UNTIL(!agent_is_led(agent));
    ASSERT_CONTAINS(log_record_text(), "is lost: it said nothing for 0.3 s");
    stop();
}

TEST(agent, hears_that_the_job_is_over)
{
    int status;
    const char *reason;
    start(20);
    lead(&first, "one", 0, 1, "ticket");
    ASSERT_FALSE(agent_is_over(agent, &status, &reason));
    party_say(&first, MESSAGE_OVER, 1, "as it had to be");
    UNTIL(agent_is_over(agent, &status, &reason));
    ASSERT_INT(status, ==, 1);
    ASSERT_TEXT(reason, "as it had to be");
    stop();
}
