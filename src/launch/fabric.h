/* Where Open MPI's own connections go: over the network that members reach each other by, and through
 * a few ports behind each member's own, so that a firewall can be told. */
#ifndef LAUNCH_FABRIC_H
#define LAUNCH_FABRIC_H

#include <stdbool.h>

/* Behind a member's own port: those of Open MPI's daemon, of mpirun (the leader's member only), and of
 * what ranks say to each other. A port over which somebody spoke who was killed cannot be used again
 * for a minute, and Open MPI listens in the family of addresses that members do not use, too. */
enum {
    FABRIC_DAEMON = 1,
    FABRIC_DAEMON_PORTS = 2,
    FABRIC_MPIRUN = 4,
    FABRIC_MPIRUN_PORTS = 12,
    FABRIC_DATA = 17,
    FABRIC_DATA_PORTS = 12,
    FABRIC_OTHER_PORTS = 1, /* behind each of these, for the other family */
    FABRIC_LAST = FABRIC_DATA + FABRIC_DATA_PORTS + FABRIC_OTHER_PORTS - 1,
};

enum { FABRIC_SETTINGS = 10, FABRIC_SETTING_BYTES = 96 };

/* Settings for the environment of what this member starts ("OMPI_MCA_...=..."). What the user has set
 * is left alone. */
struct fabric {
    char settings[FABRIC_SETTINGS][FABRIC_SETTING_BYTES];
    int count;
};

/* `socket` is a connection with another member (-1: none), which tells the interface; `port` is this
 * member's. On one machine (`loopback`) ports are as they come. */
void fabric_for_daemon(struct fabric *fabric, int socket, int port, bool loopback);
void fabric_for_mpirun(struct fabric *fabric, int socket, int port, bool loopback);

#endif
