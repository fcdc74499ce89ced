#include "launch/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/proc.h"

void child_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* --- starting --------------------------------------------------------------------------------------- */

/* Whether one of the changes is about the variable that `entry` ("NAME=value") sets. */
static bool is_changed(const char *entry, const char *const *changes)
{
    size_t name = strcspn(entry, "=");
    for (; changes && *changes; changes++)
        if (strcspn(*changes, "=") == name && !strncmp(*changes, entry, name))
            return true;
    return false;
}

/* Made before the fork, for behind it nothing may allocate. To be freed; its texts are borrowed. */
static char **make_environment(const char *const *changes)
{
    size_t count = 0, more = 0;
    while (environ[count])
        count++;
    while (changes && changes[more])
        more++;
    char **all = memory_allocate((count + more + 1) * sizeof *all);
    size_t at = 0;
    for (size_t i = 0; all && i < count; i++)
        if (!is_changed(environ[i], changes))
            all[at++] = environ[i];
    for (size_t i = 0; all && i < more; i++)
        if (strchr(changes[i], '='))
            all[at++] = (char *)changes[i];
    return all;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGXFSZ};
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        signal(caught[i], SIG_DFL);
}

static void become(int from, int to)
{
    if (from >= 0 && from != to)
        dup2(from, to);
}

/* In the child; reports a failure as an errno through `report`. */
static void run(const struct child *child, char *const *environment, pid_t parent, int report)
{
    setpgid(0, 0);
    reset_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) /* it died before that */
        _exit(1);
    int input = child->input >= 0 ? child->input : open("/dev/null", O_RDONLY | O_CLOEXEC);
    become(input, STDIN_FILENO);
    become(child->output, STDOUT_FILENO);
    become(child->errors, STDERR_FILENO);
    execvpe(child->program, child->words, environment);
    int number = errno;
    ssize_t told = write(report, &number, sizeof number);
    (void)told;
    _exit(127);
}

pid_t child_start(const struct child *child, struct error *err)
{
    int report[2], number = 0;
    char **environment = make_environment(child->environment);
    if (!environment)
        return error_set(err, ERROR_MEMORY, "no memory to start %s", child->program);
    if (pipe2(report, O_CLOEXEC) < 0) {
        memory_free(environment);
        return error_set(err, ERROR_IO, "%s: %s", child->program, strerror(errno));
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        run(child, environment, parent, report[1]);
    int failed = pid < 0 ? errno : 0;
    close(report[1]);
    if (pid > 0) {
        setpgid(pid, pid); /* whichever of the two comes first */
        ssize_t got;
        while ((got = read(report[0], &number, sizeof number)) < 0 && errno == EINTR) {
        }
        failed = got == sizeof number ? number : 0;
        if (failed)
            waitpid(pid, NULL, 0);
    }
    close(report[0]);
    memory_free(environment);
    return failed ? error_set(err, ERROR_IO, "%s cannot be started: %s", child->program,
                              strerror(failed))
                  : pid;
}

int child_make_directory(char path[CHILD_DIRECTORY_BYTES], struct error *err)
{
    enum { BASE_MOST = 40 }; /* sockets lie below it, whose paths may not be long */
    const char *base = getenv("TMPDIR");
    if (!base || !*base || strlen(base) >= BASE_MOST)
        base = "/tmp";
    snprintf(path, CHILD_DIRECTORY_BYTES, "%s/lockstep-XXXXXX", base);
    if (mkdtemp(path))
        return 0;
    error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    path[0] = '\0';
    return -1;
}

/* --- ending ----------------------------------------------------------------------------------------- */

pid_t child_reap(int *status)
{
    pid_t pid = waitpid(-1, status, WNOHANG);
    return pid > 0 ? pid : 0;
}

int child_exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const char *child_end_text(int status, char *text, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, bytes, "exited with status %d", WEXITSTATUS(status));
    return text;
}

/* The parent of a process, or 0. */
static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if (proc_read(path, text, sizeof text) < 0)
        return 0;
    const char *behind = strrchr(text, ')'); /* the name may hold anything */
    return behind && strlen(behind) > 4 ? (pid_t)strtol(behind + 4, NULL, 10) : 0;
}

static bool is_among(pid_t pid, const pid_t *known, int count)
{
    for (int i = 0; i < count; i++)
        if (known[i] == pid)
            return true;
    return false;
}

void child_kill_others(const pid_t *known, int count)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes && (entry = readdir(processes))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && parent_of(entry->d_name) == getpid() && !is_among(pid, known, count))
            kill(pid, SIGKILL);
    }
    if (processes)
        closedir(processes);
}
