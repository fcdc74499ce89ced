/* A leader, its own agent and members that are played by the test. In place of mpirun there is a
 * script that lasts until a file says with which status it ends. All on one loop. */
#include "launch/leader.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/agent.h"
#include "launch/loop.h"
#include "launch/secret.h"
#include "support/log_record.h"
#include "support/party.h"
#include "support/test.h"

enum { OTHERS = 2 };

static struct loop *loop;
static struct agent *agent;
static struct leader *leader;
static struct cluster cluster;
static struct secret secret;
static struct party others[OTHERS];
static int64_t step;          /* that the others' ranks have finished */
static bool standing[OTHERS]; /* this one says nothing */
static int status;
static const char *reason;

static void put_mpirun_in_place(void)
{
    static const char script[] = "#!/bin/sh\n"
                                 "while [ ! -e \"$LEADER_TEST/end\" ]; do sleep 0.02; done\n"
                                 "exit $(cat \"$LEADER_TEST/end\")\n";
    static char path[4096];
    const char *file = test_file("mpirun", script, sizeof script - 1);
    chmod(file, 0755);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", test_directory());
    setenv("PATH", path, 1);
    setenv("LEADER_TEST", test_directory(), 1);
    unlink(test_path("end"));
}

static void end_mpirun(const char *with)
{
    test_file("end", with, strlen(with));
}

static void start(int min_ranks, double start_timeout, double peer_timeout)
{
    struct error err = {0};
    char peers[128];
    signal(SIGPIPE, SIG_IGN);
    put_mpirun_in_place();
    log_record_start();
    secret = (struct secret){0};
    ASSERT_OK(channel_key_derive("a secret of ours", 16, &secret.key, &err), err);
    loop = loop_create();
    step = 0;
    for (int i = 0; i < OTHERS; i++) {
        standing[i] = false;
        party_listen(&others[i], loop, &secret.key);
    }
    snprintf(peers, sizeof peers, "127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d", others[0].port,
             others[1].port);
    ASSERT_OK(cluster_from_peers(peers, 0, &cluster, &err), err);
    struct agent_settings own = {.cluster = &cluster,
                                 .host = "127.0.0.1",
                                 .loopback = true,
                                 .key = &secret.key,
                                 .program = "/bin/true",
                                 .words = "",
                                 .peer_timeout = peer_timeout};
    struct leader_settings settings = {.cluster = &cluster,
                                       .secret = &secret,
                                       .program = "/bin/true",
                                       .loopback = true,
                                       .min_ranks = min_ranks,
                                       .start_timeout = start_timeout,
                                       .peer_timeout = peer_timeout};
    ASSERT_OK(agent_create(loop, &own, &agent, &err), err);
    ASSERT_OK(leader_create(loop, agent, &settings, &leader, &err), err);
}

static void stop(void)
{
    leader_destroy(leader);
    agent_destroy(agent);
    for (int i = 0; i < OTHERS; i++)
        party_leave(&others[i]);
    loop_destroy(loop);
    cluster_release(&cluster);
    log_set_sink(NULL, NULL);
}

static void turn(void)
{
    loop_turn(loop, 0.01);
    for (int i = 0; i < OTHERS; i++)
        if (!standing[i] && others[i].heard[MESSAGE_PREPARE].count)
            party_report(&others[i], others[i].heard[MESSAGE_PREPARE].number, 77, step);
        else if (!standing[i] && others[i].heard[MESSAGE_HELLO].count)
            party_report(&others[i], 0, 0, 0);
    agent_tick(agent);
    leader_tick(leader);
}

static bool said(const char *part)
{
    return strstr(log_record_text(), part);
}

static bool is_over(void)
{
    return leader_is_over(leader, &status, &reason);
}

/* Who hears that the job is over leaves, as members do. */
static bool leaves(int i)
{
    if (!others[i].heard[MESSAGE_OVER].count)
        return false;
    party_leave(&others[i]);
    return true;
}

TEST(leader, forms_a_generation_when_all_are_here)
{
    start(0, 20, 20);
    others[0].generation = 7; /* that an earlier leader formed */
    UNTIL(said("generation 8: 3 of 3 members train"));
    ASSERT_INT(others[0].heard[MESSAGE_PREPARE].number, ==, 8);
    ASSERT_INT(others[1].heard[MESSAGE_PREPARE].number, ==, 8);
    ASSERT_TEXT(others[0].heard[MESSAGE_PREPARE].text, others[1].heard[MESSAGE_PREPARE].text);
    UNTIL(strstr(others[1].heard[MESSAGE_GROUP].text, "\"phase\": \"training\""));
    stop();
}

TEST(leader, gives_up_naming_who_did_not_come)
{
    start(0, 0.5, 20);
    party_leave(&others[1]);
    UNTIL(leaves(0));
    UNTIL(is_over());
    ASSERT_INT(status, ==, 1);
    ASSERT_CONTAINS(reason, "2 of 3 members are here; member 2");
    ASSERT_CONTAINS(reason, "Connection refused");
    stop();
}

TEST(leader, forms_the_group_anew_when_a_member_hangs_up)
{
    start(0, 20, 20);
    UNTIL(said("generation 1: 3 of 3 members train"));
    link_destroy(others[1].link);
    others[1].link = NULL;
    UNTIL(others[0].heard[MESSAGE_ABANDON].count);
    ASSERT_INT(others[0].heard[MESSAGE_ABANDON].number, ==, 1);
    UNTIL(said("generation 2: 3 of 3 members train"));
    stop();
}

TEST(leader, does_not_wait_longer_than_that_for_a_member_that_says_nothing)
{
    start(0, 20, 1);
    UNTIL(said("generation 1: 3 of 3 members train"));
    standing[1] = true;
    double since = clock_seconds();
    UNTIL(said("is lost: it said nothing for 1 s"));
    ASSERT_NUMBER(clock_seconds() - since, >=, 0.9);
    standing[1] = false;
    UNTIL(said("generation 2: 3 of 3 members train"));
    stop();
}

TEST(leader, goes_on_with_fewer_and_takes_the_lost_back_at_a_step_boundary)
{
    start(2, 20, 20);
    UNTIL(said("generation 1: 3 of 3 members train"));
    int port = others[1].port;
    party_leave(&others[1]);
    UNTIL(said("generation 2: 2 of 3 members train"));
    ASSERT_INT(others[0].heard[MESSAGE_PAUSE].count, ==, 0);
    others[1].heard[MESSAGE_PREPARE].count = 0;
    party_return(&others[1], port);
    UNTIL(others[0].heard[MESSAGE_PAUSE].count);
    ASSERT_INT(others[0].heard[MESSAGE_PAUSE].number, ==, 2);
    stop();
}

TEST(leader, ends_a_job_whose_step_fails_three_times)
{
    start(0, 20, 20);
    step = 4;
    for (int i = 1; i <= 3; i++) {
        UNTIL(others[0].heard[MESSAGE_PREPARE].number == i && said("generation 1") &&
              strstr(others[0].heard[MESSAGE_GROUP].text, "\"phase\": \"training\""));
        others[0].heard[MESSAGE_GROUP].text[0] = '\0';
        struct strbuf *out = link_begin(others[0].link, MESSAGE_RANK_LOST);
        message_number(out, i);
        message_number(out, 4);
        message_text(out, "it broke");
        link_send(others[0].link);
        if (i < 3)
            UNTIL(others[0].heard[MESSAGE_ABANDON].count == i);
    }
    end_mpirun("139"); /* as mpirun does for a rank that was killed by signal 11 */
    UNTIL(leaves(0));
    UNTIL(leaves(1));
    UNTIL(is_over());
    ASSERT_INT(status, ==, 1);
    ASSERT_CONTAINS(reason, "step 5 failed 3 times in a row, last on member 1");
    ASSERT_CONTAINS(reason, "killed by signal 11");
    stop();
}

TEST(leader, that_the_group_went_on_without_ends)
{
    start(0, 20, 20);
    others[0].manner = REFUSES;
    others[0].refusal = REFUSED_FOR_GOOD;
    UNTIL(leaves(1));
    UNTIL(is_over());
    ASSERT_INT(status, ==, 1);
    ASSERT_CONTAINS(reason, "member 1");
    ASSERT_CONTAINS(reason, "refuses: not you");
    stop();
}

TEST(leader, tells_who_was_lost_that_the_job_is_over)
{
    start(2, 20, 5);
    UNTIL(said("generation 1: 3 of 3 members train"));
    int port = others[1].port;
    party_leave(&others[1]);
    UNTIL(said("generation 2: 2 of 3 members train"));
    end_mpirun("0");
    UNTIL(leaves(0));
    ASSERT_FALSE(is_over());
    party_return(&others[1], port);
    UNTIL(leaves(1));
    UNTIL(is_over());
    ASSERT_INT(status, ==, 0);
    stop();
}

TEST(leader, ends_at_last_although_the_lost_do_not_hear_it)
{
    start(2, 20, 0.5);
    UNTIL(said("generation 1: 3 of 3 members train"));
    party_leave(&others[1]);
    UNTIL(said("generation 2: 2 of 3 members train"));
    end_mpirun("0");
    UNTIL(leaves(0));
    UNTIL(is_over());
    ASSERT_INT(status, ==, 0);
    stop();
}
