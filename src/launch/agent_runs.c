#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/agent_internal.h"
#include "launch/child.h"
#include "launch/fabric.h"
#include "launch/loop.h"
#include "launch/words.h"

/* --- what may be started -------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Behind mpirun's --daemonize nobody would know what became of it. */
static void drop_word(char **words, const char *word)
{
    char **to = words;
    for (char **from = words; *from; from++)
        if (strcmp(*from, word) != 0)
            *to++ = *from;
    *to = NULL;
}

/* The program that the words ask for: Open MPI's daemon, wherever this machine has it, or this one. */
static int choose_program(const struct agent *agent, char **words, const char **program,
                          struct error *err)
{
    const char *name = base_name(words[0]);
    if (!strcmp(name, "orted")) {
        drop_word(words, "--daemonize");
        *program = "orted";
        return 0;
    }
    if (!strcmp(name, base_name(agent->settings.program))) {
        *program = agent->settings.program;
        return 0;
    }
    return error_set(err, ERROR_USAGE,
                     "an agent starts Open MPI's daemon and lockstep itself, not %.80s", words[0]);
}

/* --- starting ---------------------------------------------------------------------------------------------- */

static void on_output(void *context, short events);

static int open_pipes(struct run *run, int theirs[2], struct error *err)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            return error_set(err, ERROR_IO, "no pipe: %s", strerror(errno));
        run->pipes[i] = ends[0];
        theirs[i] = ends[1];
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        run->watches[i] = loop_watch(run->agent->loop, ends[0], POLLIN, on_output, run);
        if (!run->watches[i])
            return error_set(err, ERROR_MEMORY, "no memory for a process");
    }
    return 0;
}

static int start(struct run *run, const char *program, char **words, struct error *err)
{
    struct agent *agent = run->agent;
    const struct agent_settings *settings = &agent->settings;
    const char *environment[FABRIC_SETTINGS + 3];
    char directory[96];
    struct fabric fabric = {0};
    int theirs[2] = {-1, -1}, count = 0;
    if (child_make_directory(run->directory, err) < 0)
        return -1;
    snprintf(directory, sizeof directory, "OMPI_MCA_orte_tmpdir_base=%s", run->directory);
    environment[count++] = directory;
    if (settings->cluster) {
        environment[count++] = vault_variable(agent->vault);
        fabric_for_daemon(&fabric, agent->leader ? link_socket(agent->leader->link) : -1,
                          settings->port, settings->loopback);
    }
    for (int i = 0; i < fabric.count; i++)
        environment[count++] = fabric.settings[i];
    environment[count] = NULL;
    if (open_pipes(run, theirs, err) == 0) {
        struct child child = {.program = program,
                              .words = words,
                              .environment = environment,
                              .input = -1,
                              .output = theirs[0],
                              .errors = theirs[1]};
        run->pid = child_start(&child, err);
    }
    for (int i = 0; i < 2; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    return run->pid > 0 ? 0 : -1;
}

static void release(struct run *run)
{
    struct error ignored = {0};
    for (int i = 0; i < 2; i++) {
        loop_forget(run->watches[i]);
        if (run->pipes[i] >= 0)
            close(run->pipes[i]);
    }
    if (run->directory[0])
        directory_remove(run->directory, &ignored);
    memory_free(run);
}

static int count_runs(const struct agent *agent)
{
    int count = 0;
    for (const struct run *run = agent->runs; run; run = run->next)
        count++;
    return count;
}

int agent_run(struct visitor *visitor, const char *line, struct error *err)
{
    struct agent *agent = visitor->agent;
    struct arena *arena = arena_create();
    struct run *run = memory_allocate(sizeof *run);
    const char *program = NULL;
    char **words;
    int status = -1;
    if (!arena || !run) {
        error_set(err, ERROR_MEMORY, "no memory for a process");
        goto out;
    }
    *run = (struct run){.agent = agent, .visitor = visitor, .pipes = {-1, -1}};
    if (count_runs(agent) == AGENT_RUNS_MOST) {
        error_set(err, ERROR_USAGE, "%d processes run here already", AGENT_RUNS_MOST);
        goto out;
    }
    if (words_parse(arena, line, &words, err) < 0 ||
        choose_program(agent, words, &program, err) < 0 || start(run, program, words, err) < 0)
        goto out;
    log_line(LOG_DEBUG, "started %s (process %d) for %s", program, (int)run->pid,
             link_peer(visitor->link));
    run->next = agent->runs;
    agent->runs = run;
    visitor->run = run;
    run = NULL; /* the agent's */
    status = 0;
out:
    if (run)
        release(run);
    arena_destroy(arena);
    return status;
}

/* --- while it runs ---------------------------------------------------------------------------------------- */

static bool pass_on(struct run *run, int which)
{
    enum { PIECE = 16 << 10, BACKLOG_MOST = 1 << 20 };
    char bytes[PIECE];
    ssize_t count;
    while ((count = read(run->pipes[which], bytes, sizeof bytes)) > 0) {
        if (!run->visitor)
            continue;
        struct strbuf *out = link_begin(run->visitor->link, MESSAGE_OUTPUT);
        message_number(out, which + 1);
        message_bytes(out, bytes, (size_t)count);
        link_send(run->visitor->link);
        if (link_backlog(run->visitor->link) > BACKLOG_MOST)
            return true; /* the pipe keeps the rest until it has left */
    }
    return count < 0 && (errno == EAGAIN || errno == EINTR);
}

static void on_output(void *context, short events)
{
    struct run *run = context;
    (void)events;
    for (int i = 0; i < 2; i++)
        if (run->watches[i] && !pass_on(run, i)) {
            loop_forget(run->watches[i]);
            run->watches[i] = NULL;
        }
}

void agent_leave_run(struct run *run)
{
    run->visitor = NULL;
    if (!run->exited)
        kill(-run->pid, SIGKILL);
}

void agent_kill_runs(struct agent *agent)
{
    pid_t known[AGENT_RUNS_MOST + 1];
    int count = 0;
    struct vault_rank rank = agent->vault ? vault_look(agent->vault) : (struct vault_rank){0};
    if (rank.pid)
        kill(rank.pid, SIGKILL);
    for (const struct run *run = agent->runs; run; run = run->next) {
        if (!run->exited)
            kill(-run->pid, SIGKILL);
        if (count < AGENT_RUNS_MOST)
            known[count++] = run->pid;
    }
    known[count++] = agent->known;
    child_kill_others(known, count);
}

/* A daemon that ended by itself may have left ranks behind. */
static void kill_orphans(struct agent *agent)
{
    pid_t known[AGENT_RUNS_MOST + 1];
    int count = 0;
    for (const struct run *run = agent->runs; run && count < AGENT_RUNS_MOST; run = run->next)
        if (!run->exited)
            known[count++] = run->pid;
    known[count++] = agent->known;
    child_kill_others(known, count);
}

static void say_exit(struct run *run)
{
    on_output(run, POLLIN); /* what it said last */
    if (!run->visitor)
        return;
    struct strbuf *out = link_begin(run->visitor->link, MESSAGE_EXIT);
    message_number(out, child_exit_status(run->status));
    link_send(run->visitor->link);
    run->visitor->run = NULL;
    run->visitor = NULL;
}

void agent_reap(struct agent *agent)
{
    int status;
    bool any = false;
    for (pid_t pid; (pid = child_reap(&status)) > 0;) {
        struct run *run = agent->runs;
        while (run && run->pid != pid)
            run = run->next;
        if (run) {
            run->exited = any = true;
            run->status = status;
        } else if (agent->stranger) {
            agent->stranger(agent->upstream_context, pid, status);
        }
    }
    if (any && agent->settings.cluster)
        kill_orphans(agent);
    for (struct run **at = &agent->runs; *at;) {
        struct run *run = *at;
        if (!run->exited) {
            at = &run->next;
            continue;
        }
        say_exit(run);
        *at = run->next;
        release(run);
    }
}
