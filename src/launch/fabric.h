/* Where Open MPI's own connections go: over the network that members reach each other by, and through
 * a few ports behind each member's own, so that a firewall can be told. */
#ifndef LAUNCH_FABRIC_H
#define LAUNCH_FABRIC_H

#include <stdbool.h>

/* Behind a member's own port: +1 Open MPI's daemon, +2 mpirun (the leader's member only), +3 to +6
 * what ranks say to each other. */
enum {
    FABRIC_DAEMON = 1,
    FABRIC_MPIRUN = 2,
    FABRIC_DATA = 3,
    FABRIC_DATA_PORTS = 4,
    FABRIC_LAST = 6
};

enum { FABRIC_SETTINGS = 8, FABRIC_SETTING_BYTES = 96 };

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
