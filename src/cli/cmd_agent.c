#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/members.h"
#include "cli/signals.h"
#include "launch/agent.h"
#include "launch/cluster.h"
#include "launch/errand.h"
#include "launch/loop.h"
#include "launch/rank_words.h"
#include "launch/secret.h"
#include "launch/words.h"

struct agent_command_settings {
    int port;
    const char *secret_file;
    bool insecure, exec, rank;
    double start_timeout;
};

static const struct option options[] = {
    OPTION_INT(agent_command_settings, port, "port", .letter = 'p', .min = 0, .max = 65535,
               .initial = "7077", .environment = "LOCKSTEP_AGENT_PORT", .value = "N",
               .help = "where it listens, and where --exec finds it; 0: any that is free"),
    MEMBERS_SECRET_OPTIONS(agent_command_settings, ),
    OPTION_SECTION("Instead of listening"),
    OPTION_FLAG(agent_command_settings, exec, "exec",
                .help = "what follows are ssh's words: [options] HOST COMMAND...; the agent there "
                        "runs COMMAND, which is Open MPI's daemon or lockstep"),
    OPTION_FLAG(agent_command_settings, rank, "rank",
                .help = "become this member's rank; for agents"),
    OPTION_SECONDS(agent_command_settings, start_timeout, "start-timeout", OPTION_AT_LEAST(0),
                   .initial = "60",
                   .help = "with --exec: how long an agent that is not there yet is waited for"),
    OPTION_END};

/* --- --exec --------------------------------------------------------------------------------------------------- */

static void pass_on(void *context, int stream, const void *bytes, size_t count)
{
    (void)context;
    fwrite(bytes, 1, count, stream == 2 ? stderr : stdout);
    fflush(stream == 2 ? stderr : stdout);
}

/* A leader's mpirun knows members by addresses that no machine has, with the rank in them. */
static int find_member(const char *host, struct cluster_member *out, struct error *err)
{
    const char *members = getenv("LOCKSTEP_MEMBERS");
    unsigned high, low;
    char address[CLUSTER_HOST_BYTES + 16], end;
    if (!members || sscanf(host, "240.0.%u.%u%c", &high, &low, &end) != 2 || low < 1)
        return 0;
    for (unsigned left = high * 250 + low - 1; left && members; left--) {
        members = strchr(members, ',');
        members = members ? members + 1 : NULL;
    }
    if (!members)
        return error_set(err, ERROR_USAGE, "%s is none of LOCKSTEP_MEMBERS", host);
    snprintf(address, sizeof address, "%.*s", (int)strcspn(members, ","), members);
    return cluster_parse_address(address, "LOCKSTEP_MEMBERS", out, err) < 0 ? -1 : 1;
}

static int run_elsewhere(const struct agent_command_settings *settings, int count,
                         char *const *words, struct arena *arena, struct error *err)
{
    struct words_ssh ssh;
    struct secret secret;
    struct cluster_member member;
    if (words_parse_ssh(arena, count, words, &ssh, err) < 0)
        return -1;
    const char *host = ssh.host;
    int port = ssh.port ? ssh.port : settings->port, found = find_member(host, &member, err);
    if (found < 0)
        return -1;
    if (found) {
        host = member.host;
        port = member.port;
    }
    bool local = !strcmp(host, "localhost") || !strncmp(host, "127.", 4);
    if (secret_load(settings->secret_file, settings->insecure, local, &secret, err) < 0)
        return -1;
    struct errand errand = {.host = host,
                            .port = port,
                            .key = secret_key(&secret),
                            .ticket = getenv("LOCKSTEP_TICKET"),
                            .patience = settings->start_timeout};
    return errand_run(&errand, ssh.line, pass_on, NULL, err);
}

/* Who started it is mpirun: when that dies, so must what it wanted. */
static int exec_words(const struct agent_command_settings *settings, const struct options *parsed,
                      struct error *err)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    struct arena *arena = arena_create();
    int status = arena ? run_elsewhere(settings, parsed->rest_count, parsed->rest, arena, err)
                       : error_set(err, ERROR_MEMORY, "no memory for a command");
    arena_destroy(arena);
    return status;
}

/* --- --rank --------------------------------------------------------------------------------------------------- */

static int become_rank(struct error *err)
{
    enum { MOST = 4096 };
    char program[PATH_MAX], *text, *words[MOST] = {"lockstep"};
    size_t bytes;
    int count = 1;
    if (members_program(program, sizeof program, err) < 0 || rank_words(&text, &bytes, err) < 0)
        return -1;
    if (chdir(text) < 0)
        error_set(err, ERROR_IO, "%s: %s", text, strerror(errno));
    for (size_t at = strlen(text) + 1; at < bytes && count < MOST - 1; at += strlen(text + at) + 1)
        words[count++] = text + at;
    if (!err->code) {
        execv(program, words);
        error_set(err, ERROR_IO, "%s: %s", program, strerror(errno));
    }
    memory_free(text);
    return -1;
}

/* --- listening ------------------------------------------------------------------------------------------------ */

static void notice(int number)
{
    (void)number; /* that a child ended ends a wait */
}

static int serve(struct loop *loop, const struct agent_settings *settings, struct error *err)
{
    struct agent *agent;
    if (agent_create(loop, settings, &agent, err) < 0)
        return -1;
    log_line(LOG_INFO, "agent on port %d%s%s", agent_port(agent),
             settings->loopback ? " of this machine" : "",
             settings->key ? "" : "; without a secret (--insecure)");
    while (!signals_status()) {
        loop_turn(loop, 0.1);
        agent_tick(agent);
    }
    agent_destroy(agent);
    return signals_status();
}

static int listen_for_others(const struct agent_command_settings *settings, struct error *err)
{
    struct secret secret;
    char program[PATH_MAX];
    struct error ignored = {0};
    /* Without a secret that others could have, only this machine can reach it. */
    bool loopback = !settings->insecure &&
                    secret_load(settings->secret_file, false, false, &secret, &ignored) < 0;
    if (secret_load(settings->secret_file, settings->insecure, loopback, &secret, err) < 0 ||
        members_program(program, sizeof program, err) < 0)
        return -1;
    struct agent_settings agent = {.host = loopback ? "127.0.0.1" : NULL,
                                   .port = settings->port,
                                   .loopback = loopback,
                                   .key = secret_key(&secret),
                                   .program = program,
                                   .words = "",
                                   .peer_timeout = 10};
    struct loop *loop = loop_create();
    if (!loop)
        return error_set(err, ERROR_MEMORY, "no memory for the agent");
    signals_catch();
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = notice}, NULL);
    int status = serve(loop, &agent, err);
    loop_destroy(loop);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    const struct agent_command_settings *wanted = settings;
    if (wanted->rank)
        return become_rank(err);
    return wanted->exec ? exec_words(wanted, parsed, err) : listen_for_others(wanted, err);
}

const struct command command_agent = {
    .name = "agent",
    .order = 72,
    .summary = "start ranks on other machines without ssh",
    .description =
        "Listens for those who know the secret, and starts Open MPI's daemon or lockstep for them: "
        "what sshd does in the pods of an MPIJob, without one. mpirun is told to ask it by "
        "OMPI_MCA_plm_rsh_agent='lockstep agent --exec'.\n"
        "\n"
        "A training that TF_CONFIG or --peers divides among members has its own agents; this "
        "command is not needed there.\n"
        "\n"
        "Without --secret-file only processes of the same user on the same machine are heard.",
    .examples = "# on each worker\n"
                "lockstep agent --secret-file /etc/lockstep/secret\n"
                "# where mpirun runs\n"
                "LOCKSTEP_SECRET_FILE=/etc/lockstep/secret mpirun -mca plm_rsh_agent 'lockstep "
                "agent --exec' -host a,b lockstep train resnet50 --data synthetic\n",
    .options = options,
    .rest_behind = "exec",
    .settings_size = sizeof(struct agent_command_settings),
    .run = run,
};
