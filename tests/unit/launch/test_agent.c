/* An agent, asked by who has the secret and by who has not. It serves from a thread of its own. */
#include "launch/agent.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/errand.h"
#include "launch/loop.h"
#include "launch/secret.h"
#include "support/test.h"

static struct loop *loop;
static struct agent *agent;
static struct channel_key key, other;
static pthread_t thread;
static atomic_bool stopping;
static int port;

/* What the agent's thread says. */
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[1 << 14];

static void keep(void *context, enum log_level level, const char *line)
{
    (void)context, (void)level;
    pthread_mutex_lock(&said_lock);
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s\n", line);
    pthread_mutex_unlock(&said_lock);
}

static bool has_said(const char *part)
{
    pthread_mutex_lock(&said_lock);
    bool found = strstr(said, part) != NULL;
    pthread_mutex_unlock(&said_lock);
    return found;
}

static void *serve(void *context)
{
    (void)context;
    while (!atomic_load(&stopping)) {
        loop_turn(loop, 0.02);
        agent_tick(agent);
    }
    return NULL;
}

static void start(const struct cluster *cluster)
{
    struct error err = {0};
    signal(SIGPIPE, SIG_IGN);
    said[0] = '\0'; /* before there is another thread */
    log_set_sink(keep, NULL);
    ASSERT_OK(channel_key_derive("a secret of ours", 16, &key, &err), err);
    ASSERT_OK(channel_key_derive("another's secret", 16, &other, &err), err);
    struct agent_settings settings = {.cluster = cluster,
                                      .host = "127.0.0.1",
                                      .loopback = true,
                                      .key = &key,
                                      .program = "/bin/echo",
                                      .words = "",
                                      .peer_timeout = 5};
    loop = loop_create();
    ASSERT_OK(agent_create(loop, &settings, &agent, &err), err);
    port = agent_port(agent);
    atomic_store(&stopping, false);
    ASSERT_INT(pthread_create(&thread, NULL, serve, NULL), ==, 0);
}

static void stop(void)
{
    atomic_store(&stopping, true);
    pthread_join(thread, NULL);
    agent_destroy(agent);
    loop_destroy(loop);
    log_set_sink(NULL, NULL);
}

static char printed[256];

static void take(void *context, int stream, const void *bytes, size_t count)
{
    (void)context, (void)stream;
    size_t at = strlen(printed);
    snprintf(printed + at, sizeof printed - at, "%.*s", (int)count, (const char *)bytes);
}

static struct error err;

static int run(const struct channel_key *with, const char *line)
{
    struct errand errand = {.host = "127.0.0.1", .port = port, .key = with, .patience = 20};
    printed[0] = '\0';
    err = (struct error){0};
    return errand_run(&errand, line, take, NULL, &err);
}

/* Lines come from another thread, soon. */
static void says_soon(const char *part)
{
    for (double until = clock_seconds() + 20; clock_seconds() < until; usleep(10000))
        if (has_said(part))
            return;
    FAIL("it never said '%s', but '%s'", part, said);
}

TEST(agent, runs_a_program_and_says_how_it_ended)
{
    start(NULL);
    ASSERT_INT(run(&key, "echo \"hello, \" world"), ==, 0);
    ASSERT_TEXT(printed, "hello,  world\n");
    stop();
}

TEST(agent, starts_nothing_else)
{
    start(NULL);
    ASSERT_INT(run(&key, "sh -c 'echo hello'"), ==, -1);
    ASSERT_CONTAINS(err.message, "starts Open MPI's daemon and lockstep itself, not sh");
    ASSERT_INT(run(&key, "echo hello > /tmp/x"), ==, -1);
    ASSERT_CONTAINS(err.message, "means something to a shell");
    ASSERT_TEXT(printed, "");
    stop();
}

TEST(agent, refuses_who_has_another_secret_or_none)
{
    start(NULL);
    ASSERT_INT(run(&other, "echo hello"), ==, -1);
    ASSERT_CONTAINS(err.message, "does not accept our secret");
    says_soon("its secret is not ours");
    usleep(1100000); /* strangers are named once a second */
    ASSERT_INT(run(NULL, "echo hello"), ==, -1);
    says_soon("wrong version number");
    ASSERT_INT(run(&key, "echo hello"), ==, 0);
    stop();
}

static int connect_only(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(connect(line, (struct sockaddr *)&to, sizeof to), ==, 0);
    return line;
}

TEST(agent, is_not_held_up_by_those_who_say_nothing)
{
    enum { MANY = 200 };
    int lines[MANY];
    start(NULL);
    for (int i = 0; i < MANY; i++)
        lines[i] = connect_only();
    ASSERT_INT(run(&key, "echo hello"), ==, 0);
    ASSERT_TEXT(printed, "hello\n");
    says_soon("too many at once say nothing");
    for (int i = 0; i < MANY; i++)
        close(lines[i]);
    stop();
}

TEST(agent, of_a_group_starts_nothing_without_the_leaders_ticket)
{
    struct cluster cluster;
    ASSERT_OK(cluster_from_peers("127.0.0.1:1,127.0.0.1:2", 1, &cluster, &err), err);
    start(&cluster);
    ASSERT_INT(run(&key, "echo hello"), ==, -1);
    ASSERT_CONTAINS(err.message, "a generation that is over");
    stop();
    cluster_release(&cluster);
}

static int listen_on(int where)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)where)};
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof own;
    int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_INT(bind(line, (struct sockaddr *)&own, sizeof own), ==, 0);
    ASSERT_INT(listen(line, 1), ==, 0);
    getsockname(line, (struct sockaddr *)&own, &bytes);
    port = ntohs(own.sin_port);
    return line;
}

static void *close_soon(void *context)
{
    usleep(300000);
    close(*(int *)context);
    return NULL;
}

TEST(agent, waits_a_moment_for_the_port_of_a_process_that_is_ending)
{
    struct agent_settings settings = {.host = "127.0.0.1", .program = "/bin/echo", .words = ""};
    int held = listen_on(0);
    loop = loop_create();
    settings.port = port;
    ASSERT_FAILS(agent_create(loop, &settings, &agent, &err), err, ERROR_IO,
                 "is this member running already?");
    ASSERT_INT(pthread_create(&thread, NULL, close_soon, &held), ==, 0);
    ASSERT_OK(agent_create(loop, &settings, &agent, &err), err);
    pthread_join(thread, NULL);
    ASSERT_INT(agent_port(agent), ==, port);
    agent_destroy(agent);
    loop_destroy(loop);
}

TEST(agent, answers_who_asks_for_the_group)
{
    start(NULL);
    struct errand errand = {.host = "127.0.0.1", .port = port, .key = &key, .patience = 20};
    char *json = NULL;
    ASSERT_OK(errand_ask(&errand, &json, &err), err);
    ASSERT_TEXT(json, "{}");
    memory_free(json);
    stop();
}
