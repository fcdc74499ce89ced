/* Who trains together, as TF_CONFIG and --peers say it. */
#include "launch/cluster.h"

#include "support/test.h"

static struct cluster cluster;
static struct error err;

static void read_config(const char *text)
{
    cluster_release(&cluster);
    err = (struct error){0};
    ASSERT_OK(cluster_from_tf_config(text, &cluster, &err), err);
}

static void refuses(const char *text, const char *part)
{
    struct cluster none = {0};
    ASSERT_FAILS(cluster_from_tf_config(text, &none, &err), err, ERROR_USAGE, part);
}

TEST(cluster, puts_the_chief_before_the_workers)
{
    read_config("{\"cluster\": {\"worker\": [\"w0:5000\", \"w1:5001\"], \"chief\": [\"c:4000\"]},"
                " \"task\": {\"type\": \"worker\", \"index\": 1}}");
    ASSERT_INT(cluster.count, ==, 3);
    ASSERT_TEXT(cluster.members[0].host, "c");
    ASSERT_INT(cluster.members[0].port, ==, 4000);
    ASSERT_TEXT(cluster.members[2].task, "worker 1");
    ASSERT_INT(cluster.index, ==, 2);
    ASSERT_TEXT(cluster_name(&cluster, 2), "worker 1 (w1:5001)");
    cluster_release(&cluster);
}

TEST(cluster, is_led_by_the_first_worker_where_there_is_no_chief)
{
    /* As the seed's template writes it, with an index in quotes. */
    read_config(
        "{\"cluster\": {\"worker\": [\"tf-learning-worker-0:5000\", "
        "\"tf-learning-worker-1:5000\"]}, \"task\": {\"type\": \"worker\", \"index\": \"0\"}}");
    ASSERT_INT(cluster.index, ==, 0);
    ASSERT_INT(cluster.role, ==, CLUSTER_TRAINS);
    ASSERT_FALSE(cluster_is_loopback(&cluster));
    cluster_release(&cluster);
}

TEST(cluster, keeps_the_evaluator_outside)
{
    read_config(
        "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"w:1\"], \"evaluator\": [\"e:1\"]},"
        " \"task\": {\"type\": \"evaluator\", \"index\": 0}}");
    ASSERT_INT(cluster.count, ==, 2);
    ASSERT_INT(cluster.role, ==, CLUSTER_EVALUATES);
    cluster_release(&cluster);
}

TEST(cluster, without_members_is_nobody)
{
    read_config("{}");
    ASSERT_INT(cluster.count, ==, 0);
    read_config("{\"cluster\": {}, \"task\": {}}");
    ASSERT_INT(cluster.count, ==, 0);
}

TEST(cluster, says_what_is_wrong_with_a_config)
{
    refuses("{\"cluster\"", "TF_CONFIG: ");
    refuses("{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}}", "not which of them this is");
    refuses("{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", "
            "\"index\": 2}}",
            "this is worker 2, whom its cluster lacks");
    refuses("{\"cluster\": {\"worker\": [\"a:1\", \"b\"]}, \"task\": {\"type\": \"worker\", "
            "\"index\": 0}}",
            "'b' is no HOST:PORT");
    refuses("{\"cluster\": {\"worker\": [\"a:1\", 7]}}", "worker 1 of the cluster has no");
    refuses("{\"cluster\": {\"worker\": [\"a:1\", \"a:1\"]}}",
            "names a:1 for worker 0 and for worker 1");
    refuses("{\"cluster\": {\"chief\": [\"a:1\", \"b:1\"]}}", "names 2 chiefs");
    refuses("{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"b:1\"]}}", "parameter servers");
    refuses("{\"cluster\": {\"wroker\": [\"a:1\"]}}", "no task is called wroker");
}

TEST(cluster, reads_peers)
{
    cluster_release(&cluster);
    ASSERT_OK(cluster_from_peers("127.0.0.1:5000,[::1]:5001,localhost:5002", 1, &cluster, &err),
              err);
    ASSERT_INT(cluster.count, ==, 3);
    ASSERT_TEXT(cluster.members[1].host, "::1");
    ASSERT_TEXT(cluster_name(&cluster, 1), "member 1 ([::1]:5001)");
    ASSERT_TRUE(cluster_is_loopback(&cluster));
    cluster_release(&cluster);
}

TEST(cluster, refuses_peers_that_are_none)
{
    struct cluster none = {0};
    ASSERT_FAILS(cluster_from_peers("a:1,b:1", 2, &none, &err), err, ERROR_USAGE,
                 "so it is 0 to 1");
    ASSERT_FAILS(cluster_from_peers("", 0, &none, &err), err, ERROR_USAGE, "names nobody");
    ASSERT_FAILS(cluster_from_peers("a:1,,b:1", 0, &none, &err), err, ERROR_USAGE,
                 "is no HOST:PORT");
    ASSERT_FAILS(cluster_from_peers("a:0,b:1", 0, &none, &err), err, ERROR_USAGE,
                 "is no HOST:PORT");
    ASSERT_FAILS(cluster_from_peers("::1:5,b:1", 0, &none, &err), err, ERROR_USAGE,
                 "is no HOST:PORT");
}

TEST(cluster, tells_different_lists_apart)
{
    struct cluster other = {0};
    cluster_release(&cluster);
    ASSERT_OK(cluster_from_peers("a:1,b:2", 0, &cluster, &err), err);
    ASSERT_OK(cluster_from_peers("a:1,b:2", 1, &other, &err), err);
    ASSERT_TEXT(other.fingerprint, cluster.fingerprint);
    cluster_release(&other);
    ASSERT_OK(cluster_from_peers("a:1,b:3", 0, &other, &err), err);
    ASSERT_TRUE(strcmp(other.fingerprint, cluster.fingerprint) != 0);
    cluster_release(&other);
    cluster_release(&cluster);
}
