#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "launch/child.h"
#include "launch/fabric.h"
#include "launch/leader_internal.h"

/* mpirun knows members by addresses that no machine has (class E), the rank in the last bytes: so it
 * looks no name up, takes none of them for its own machine, and starts all ranks through agents.
 * `lockstep agent --exec` finds the real ones in LOCKSTEP_MEMBERS. */
static void list_hosts(const struct leader *leader, struct strbuf *hosts, struct strbuf *real)
{
    int rank = 0;
    for (int i = 0; i < leader->count; i++) {
        const struct cluster_member *member = &leader->settings.cluster->members[i];
        if (!leader->members[i].taking_part)
            continue;
        strbuf_addf(hosts, "%s240.0.%d.%d:1", rank ? "," : "", rank / 250, rank % 250 + 1);
        /* The own agent is not called by a name, behind which a Service may be. */
        const char *host = i || leader->settings.loopback ? member->host : "127.0.0.1";
        strbuf_addf(real, strchr(host, ':') ? "%s[%s]:%d" : "%s%s:%d", rank ? "," : "", host,
                    member->port);
        rank++;
    }
}

static int own_line(const struct leader *leader)
{
    for (int i = 1; i < leader->count; i++)
        if (leader->members[i].present)
            return link_socket(leader->members[i].link);
    return -1;
}

enum { SETTINGS_MOST = 8, WORDS_OF_MPIRUN = 48 };

/* Parameters of Open MPI. */
static const struct {
    const char *name, *value;
} parameters[] = {
    {"plm", "rsh"},
    {"plm_rsh_no_tree_spawn", "1"},           /* each daemon is started by mpirun itself */
    {"orte_leave_session_attached", "1"},     /* and stays attached to its agent */
    {"plm_rsh_pass_environ_mca_params", "0"}, /* agents set what is right for their machines */
    {"pml", "ob1"},
    {"btl", "tcp,self"},
};

/* `words` is NULL-terminated; what it points to is borrowed. */
static void list_words(const struct leader *leader, const char *ranks, const char *hosts,
                       const char *agent, const char *words[WORDS_OF_MPIRUN])
{
    const char *const first[] = {"mpirun",    "-q",   "-np",  ranks,           "--host", hosts,
                                 "--bind-to", "none", "-mca", "plm_rsh_agent", agent};
    const char *const last[] = {leader->settings.program, "agent", "--rank", NULL};
    int count = 0;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        words[count++] = first[i];
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        words[count++] = "-mca";
        words[count++] = parameters[i].name;
        words[count++] = parameters[i].value;
    }
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        words[count++] = last[i];
}

static int start(struct leader *leader, char *const *words, const char *const *own,
                 struct error *err)
{
    const char *environment[SETTINGS_MOST + FABRIC_SETTINGS + 1];
    struct fabric fabric;
    int count = 0;
    while (own[count]) {
        environment[count] = own[count];
        count++;
    }
    fabric_for_mpirun(&fabric, own_line(leader), leader->settings.cluster->members[0].port,
                      leader->settings.loopback);
    for (int i = 0; i < fabric.count; i++)
        environment[count++] = fabric.settings[i];
    environment[count] = NULL;
    struct child child = {.program = "mpirun",
                          .words = words,
                          .environment = environment,
                          .input = -1,
                          .output = -1,
                          .errors = -1};
    leader->mpirun = child_start(&child, err);
    if (leader->mpirun < 0) {
        leader->mpirun = 0;
        return error_wrap(err, "Open MPI (install openmpi-bin)");
    }
    agent_know(leader->agent, leader->mpirun);
    return 0;
}

static int start_with(struct leader *leader, const char *hosts, const char *members,
                      struct error *err)
{
    const struct leader_settings *settings = &leader->settings;
    char agent[PATH_MAX + 32], ranks[16], members_setting[1 << 15], ticket[96],
        secret[PATH_MAX + 32], directory[96];
    snprintf(agent, sizeof agent, "%s agent --exec", settings->program);
    snprintf(ranks, sizeof ranks, "%d", leader->ranks);
    int length = snprintf(members_setting, sizeof members_setting, "LOCKSTEP_MEMBERS=%s", members);
    if (length >= (int)sizeof members_setting)
        return error_set(err, ERROR_USAGE, "the list of members is too long");
    snprintf(ticket, sizeof ticket, "LOCKSTEP_TICKET=%s", leader->ticket);
    snprintf(secret, sizeof secret,
             settings->secret->open ? "LOCKSTEP_INSECURE=1" : "LOCKSTEP_SECRET_FILE=%s",
             settings->secret->path);
    snprintf(directory, sizeof directory, "OMPI_MCA_orte_tmpdir_base=%s", leader->directory);
    const char *const environment[SETTINGS_MOST] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                                    members_setting,
                                                    ticket,
                                                    secret,
                                                    directory,
                                                    NULL};
    const char *words[WORDS_OF_MPIRUN];
    list_words(leader, ranks, hosts, agent, words);
    return start(leader, (char *const *)words, environment, err);
}

int leader_start_mpirun(struct leader *leader, struct error *err)
{
    struct strbuf hosts, members;
    strbuf_init(&hosts);
    strbuf_init(&members);
    list_hosts(leader, &hosts, &members);
    int status = hosts.failed || members.failed
                     ? error_set(err, ERROR_MEMORY, "no memory for the list of members")
                     : child_make_directory(leader->directory, err);
    if (status == 0)
        status = start_with(leader, hosts.text, members.text, err);
    strbuf_release(&hosts);
    strbuf_release(&members);
    return status;
}

void leader_kill_mpirun(struct leader *leader)
{
    leader->kill_at = 0;
    if (leader->mpirun > 0)
        kill(-leader->mpirun, SIGKILL);
}

void leader_on_child(void *context, pid_t pid, int status)
{
    struct leader *leader = context;
    struct error ignored = {0};
    if (pid != leader->mpirun)
        return;
    leader->mpirun = 0;
    agent_know(leader->agent, 0);
    if (leader->directory[0])
        directory_remove(leader->directory, &ignored);
    leader->directory[0] = '\0';
    leader_mpirun_ended(leader, status);
}
