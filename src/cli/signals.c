#include "cli/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int caught;

static void remember(int number)
{
    atomic_store(&caught, number);
}

/* Open MPI ends a rank by SIGCONT, in case it was stopped, SIGTERM `odls_base_sigkill_timeout` seconds
 * later, and SIGKILL as much later. The first is notice enough: nothing else makes the parent send it,
 * unless it hands job control on, and what is computed until SIGTERM would be lost. */
static void remember_order(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    if (info->si_code == SI_USER && info->si_pid == getppid())
        atomic_store(&caught, SIGTERM);
}

static void catch_order(void)
{
    struct sigaction action = {.sa_sigaction = remember_order,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (getenv("OMPI_COMM_WORLD_RANK") && !getenv("OMPI_MCA_orte_forward_job_control"))
        sigaction(SIGCONT, &action, NULL);
}

/* A handler runs on a stack of its own: kernels that oneDNN generates use the stack pointer for data
 * (seen in 2.6.3's matrix product), and a signal's frame at that place would destroy the heap. */
static void use_own_stack(void)
{
    enum { STACK_BYTES = 64 << 10 };
    static char memory[STACK_BYTES] __attribute__((aligned(64)));
    sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = sizeof memory}, NULL);
}

const atomic_int *signals_catch(void)
{
    struct sigaction action = {.sa_handler = remember,
                               .sa_flags = SA_RESETHAND | SA_RESTART | SA_ONSTACK};
    use_own_stack();
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    catch_order();
    struct sigaction before;
    sigaction(SIGHUP, NULL, &before);
    if (before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* who reads the progress may go; what is computed stays */
    signal(SIGXFSZ, SIG_IGN); /* a file past `ulimit -f` is a failed write, not the end */
    return &caught;
}

const atomic_int *signals_number(void)
{
    return &caught;
}

int signals_status(void)
{
    int number = atomic_load(&caught);
    return number ? 128 + number : 0;
}
