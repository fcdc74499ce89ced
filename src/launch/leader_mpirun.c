#include <errno.h>
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

static int make_directory(struct leader *leader, struct error *err)
{
    const char *base = getenv("TMPDIR");
    snprintf(leader->directory, sizeof leader->directory, "%s/lockstep-XXXXXX",
             base && *base && strlen(base) < 40 ? base : "/tmp");
    if (mkdtemp(leader->directory))
        return 0;
    error_set(err, ERROR_IO, "%s: %s", leader->directory, strerror(errno));
    leader->directory[0] = '\0';
    return -1;
}

static int own_line(const struct leader *leader)
{
    for (int i = 1; i < leader->count; i++)
        if (leader->members[i].present)
            return link_socket(leader->members[i].link);
    return -1;
}

enum { SETTINGS_MOST = 8 };

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

static int start_with(struct leader *leader, char *hosts, const char *members, struct error *err)
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
    /* Daemons stay attached to their agents, and each is started by mpirun itself. What is set in the
     * environment is for mpirun alone: each agent sets what is right for its own machine. */
    char *const words[] = {"mpirun",
                           "-q",
                           "-np",
                           ranks,
                           "--host",
                           hosts,
                           "--bind-to",
                           "none",
                           "-mca",
                           "plm",
                           "rsh",
                           "-mca",
                           "plm_rsh_agent",
                           agent,
                           "-mca",
                           "plm_rsh_no_tree_spawn",
                           "1",
                           "-mca",
                           "orte_leave_session_attached",
                           "1",
                           "-mca",
                           "plm_rsh_pass_environ_mca_params",
                           "0",
                           "-mca",
                           "pml",
                           "ob1",
                           "-mca",
                           "btl",
                           "tcp,self",
                           (char *)settings->program,
                           "agent",
                           "--rank",
                           NULL};
    return start(leader, words, environment, err);
}

int leader_start_mpirun(struct leader *leader, struct error *err)
{
    struct strbuf hosts, members;
    strbuf_init(&hosts);
    strbuf_init(&members);
    list_hosts(leader, &hosts, &members);
    int status = hosts.failed || members.failed
                     ? error_set(err, ERROR_MEMORY, "no memory for the list of members")
                     : make_directory(leader, err);
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
