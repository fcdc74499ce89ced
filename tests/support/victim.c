#include "support/victim.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

pid_t victim_start(void (*main)(void *context), void *context)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        FAIL("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    main(context);
    fflush(NULL);
    _exit(0);
}

bool victim_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            FAIL("waitpid: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        FAIL("a child ended with status %#x", (unsigned)status);
    return false;
}

bool victim_run(void (*main)(void *context), void *context)
{
    return victim_wait(victim_start(main, context));
}

void victim_die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

void victim_stop(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(0);
    raise(SIGSTOP);
}

long victim_step(pid_t pid, long instructions)
{
    int status;
    long done = 0;
    if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
        return -1;
    for (; done < instructions; done++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) < 0)
            break;
        if (!WIFSTOPPED(status))
            return done;
    }
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) < 0 || !WIFSIGNALED(status))
        FAIL("the child survived a SIGKILL");
    return done;
}

void *victim_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        FAIL("mmap: %s", strerror(errno));
    return memory;
}
