#include "cli/members.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/proc.h"
#include "base/strbuf.h"
#include "cli/evaluator.h"
#include "cli/signals.h"
#include "cli/training.h"
#include "launch/agent.h"
#include "launch/cluster.h"
#include "launch/leader.h"
#include "launch/loop.h"
#include "launch/secret.h"

static const double tick_seconds = 0.1, farewell_seconds = 10;

/* --- what a rank runs ---------------------------------------------------------------------------------------- */

int members_program(char *path, size_t bytes, struct error *err)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length < 0)
        return error_set(err, ERROR_IO, "/proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
    /* mpirun takes its remote shell as words with blanks between them. */
    if (strpbrk(path, " \t"))
        return error_set(err, ERROR_USAGE,
                         "%s: members cannot be started by a program whose path has blanks", path);
    return 0;
}

/* This directory, and the words behind the program's name, each with a NUL behind it. */
static int copy_words(struct strbuf *out, struct error *err)
{
    enum { MOST = 128 << 10 };
    char directory[PATH_MAX], *words = memory_allocate(MOST);
    int count = words ? proc_read("/proc/self/cmdline", words, MOST) : -1;
    if (count <= 0 || count >= MOST - 1 || !getcwd(directory, sizeof directory)) {
        memory_free(words);
        return error_set(err, ERROR_IO, "this command line cannot be given to a rank");
    }
    size_t name = strlen(words) + 1;
    strbuf_add_bytes(out, directory, strlen(directory) + 1);
    strbuf_add_bytes(out, words + name, (size_t)count - name);
    memory_free(words);
    return out->failed ? error_set(err, ERROR_MEMORY, "no memory for a command line") : 0;
}

/* --- being a member -------------------------------------------------------------------------------------------- */

struct membership {
    const struct members_settings *settings;
    struct cluster cluster;
    struct secret secret;
    char program[PATH_MAX];
    struct strbuf words;
    struct loop *loop;
    struct agent *agent;
    struct leader *leader; /* NULL: this member follows */
    double stopped;        /* when a signal was passed on; 0: none came */
};

static void notice(int number)
{
    (void)number; /* that a child ended ends a wait */
}

static void heed_signals(struct membership *member)
{
    int number = atomic_load(signals_number());
    if (!number || member->stopped > 0)
        return;
    member->stopped = clock_seconds();
    log_line(LOG_INFO, "stopping: %s", strsignal(number));
    if (member->leader)
        leader_stop(member->leader, number);
    agent_pass_signal(member->agent, number);
}

static int lead(struct membership *member, struct error *err)
{
    int status;
    const char *reason;
    while (!leader_is_over(member->leader, &status, &reason)) {
        loop_turn(member->loop, tick_seconds);
        heed_signals(member);
        agent_tick(member->agent);
        leader_tick(member->leader);
    }
    if (!*reason)
        return status;
    error_set(err, status == 2 ? ERROR_USAGE : ERROR_PEER, "%s", reason);
    return -1;
}

/* Has stopped, and so has its rank; or that takes too long. */
static bool has_left(const struct membership *member)
{
    return member->stopped > 0 &&
           (agent_is_idle(member->agent) || clock_seconds() - member->stopped > farewell_seconds);
}

static int follow(struct membership *member, struct error *err)
{
    const struct cluster *cluster = &member->cluster;
    int status;
    const char *reason;
    double told = clock_seconds();
    while (!agent_is_over(member->agent, &status, &reason)) {
        loop_turn(member->loop, tick_seconds);
        heed_signals(member);
        agent_tick(member->agent);
        if (has_left(member))
            return signals_status();
        double unled = agent_unled_seconds(member->agent);
        if (unled > member->settings->start_timeout)
            return error_set(err, ERROR_PEER,
                             "gave up: %s, who leads, did not come for %.0f s (--start-timeout)",
                             cluster_name(cluster, 0), unled);
        if (unled > 10 && clock_seconds() - told > 10) {
            log_line(LOG_INFO, "waiting for %s, who leads", cluster_name(cluster, 0));
            told = clock_seconds();
        }
    }
    if (*reason) {
        error_set(err, status == 2 ? ERROR_USAGE : ERROR_PEER, "the leader ended the job: %s",
                  reason);
        return -1;
    }
    return status;
}

static int open_agent(struct membership *member, struct error *err)
{
    const struct cluster *cluster = &member->cluster;
    const struct cluster_member *self = &cluster->members[cluster->index];
    bool loopback = cluster_is_loopback(cluster);
    struct agent_settings agent = {
        .cluster = cluster,
        .host = !loopback                          ? NULL
                : !strcmp(self->host, "localhost") ? "127.0.0.1"
                                                   : self->host,
        .port = self->port,
        .loopback = loopback,
        .key = secret_key(&member->secret),
        .program = member->program,
        .words = member->words.text,
        .words_bytes = member->words.length,
        .peer_timeout = member->settings->peer_timeout,
    };
    struct leader_settings leader = {
        .cluster = cluster,
        .secret = &member->secret,
        .program = member->program,
        .loopback = loopback,
        .min_ranks = member->settings->min_ranks,
        .start_timeout = member->settings->start_timeout,
        .peer_timeout = member->settings->peer_timeout,
    };
    if (agent_create(member->loop, &agent, &member->agent, err) < 0)
        return -1;
    if (cluster->index > 0)
        return 0;
    return leader_create(member->loop, member->agent, &leader, &member->leader, err);
}

static int run_member(struct membership *member, struct error *err)
{
    const struct members_settings *settings = member->settings;
    const struct cluster *cluster = &member->cluster;
    if (settings->min_ranks > cluster->count)
        return error_set(err, ERROR_USAGE, "--min-ranks=%d: there are %d members",
                         settings->min_ranks, cluster->count);
    if (secret_load(settings->secret_file, settings->insecure, cluster_is_loopback(cluster),
                    &member->secret, err) < 0 ||
        members_program(member->program, sizeof member->program, err) < 0 ||
        copy_words(&member->words, err) < 0)
        return -1;
    signals_catch();
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = notice}, NULL);
    member->loop = loop_create();
    if (!member->loop)
        return error_set(err, ERROR_MEMORY, "no memory for the agent");
    if (open_agent(member, err) < 0)
        return -1;
    log_line(LOG_INFO, "%s of %d members%s%s", cluster_name(cluster, cluster->index),
             cluster->count, cluster->index ? "" : ", leads",
             member->secret.open ? "; without a secret (--insecure)" : "");
    return member->leader ? lead(member, err) : follow(member, err);
}

/* --- whether ---------------------------------------------------------------------------------------------------- */

/* --peers beats TF_CONFIG, as a flag does. */
static int find_cluster(const struct options *options, const struct members_settings *settings,
                        struct cluster *out, struct error *err)
{
    const char *config = getenv("TF_CONFIG");
    bool indexed = options_source(options, "index") > OPTION_FROM_TABLE;
    if (settings->peers && !indexed)
        return error_set(err, ERROR_USAGE, "--peers needs --index=N: which of them is this?");
    if (!settings->peers && indexed)
        return error_set(err, ERROR_USAGE, "--index needs --peers=HOST:PORT,...");
    if (settings->peers)
        return cluster_from_peers(settings->peers, settings->index, out, err);
    return config && *config ? cluster_from_tf_config(config, out, err) : 0;
}

bool members_take_over(const struct options *options, const struct training_settings *training,
                       int *status, struct error *err)
{
    struct membership member = {.settings = &training->members};
    if (getenv("OMPI_COMM_WORLD_SIZE")) /* mpirun started this rank, whoever started mpirun */
        return false;
    strbuf_init(&member.words);
    int result = find_cluster(options, member.settings, &member.cluster, err);
    bool evaluates = result == 0 && member.cluster.role == CLUSTER_EVALUATES;
    bool alone = result == 0 && !evaluates && member.cluster.count < 2;
    if (evaluates)
        result = evaluator_run(options, training, err);
    else if (result == 0 && !alone)
        result = run_member(&member, err);
    leader_destroy(member.leader);
    agent_destroy(member.agent);
    loop_destroy(member.loop);
    strbuf_release(&member.words);
    cluster_release(&member.cluster);
    if (!alone)
        *status = result;
    return !alone;
}
