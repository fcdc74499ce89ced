#include "cli/signals.h"

#include <signal.h>

static atomic_int caught;

static void remember(int number)
{
    atomic_store(&caught, number);
}

const atomic_int *signals_catch(void)
{
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
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
