/* A switch whose wires are long: delay MILLISECONDS NETNS...
 *
 * Makes an interface eth0 (a tap) in each of the network namespaces, given as paths, and hands every
 * frame that one of them sends to the others so many milliseconds later: for kernels without netem.
 * A frame to the address 02:00:00:00:00:NN goes to the NN-th namespace, one to a group goes to all
 * others. A number on its standard input is the delay from then on. It prints "ready" once the
 * interfaces are there, and runs until it is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_PORTS = 64,
    FRAME_BYTES = 9216,  /* a jumbo frame with its header */
    FRAMES = 8192,       /* on their way; 1 Gbit/s needs 100 of full size for each millisecond */
    FRAMES_AT_ONCE = 64, /* taken from one port before others have their turn */
    ADDRESS_BYTES = 6,
    MAX_DELAY = 10000, /* milliseconds */
};

struct frame {
    int64_t due; /* nanoseconds of the monotonic clock */
    int from;
    ssize_t bytes;
    uint8_t data[FRAME_BYTES];
};

/* The first frame to come is the first to go, also when the delay has become shorter since. */
struct wire {
    struct pollfd ports[MAX_PORTS + 1]; /* and, after the last, the standard input */
    int port_count;
    int64_t delay;        /* nanoseconds */
    struct frame *frames; /* number n is frames[n % FRAMES] */
    uint64_t came, went;
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
    return -1;
}

/* --- interfaces ----------------------------------------------------------------------------- */

/* The interface is made where the process is when it opens the device. */
static int make_port(const char *netns)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    memcpy(request.ifr_name, "eth0", sizeof "eth0");
    int space = open(netns, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) < 0)
        return fail(netns);
    close(space);
    int port = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (port < 0 || ioctl(port, TUNSETIFF, &request) < 0)
        return fail("/dev/net/tun");
    return port;
}

static int make_ports(struct wire *wire, char **paths, int count)
{
    for (int i = 0; i < count; i++) {
        int port = make_port(paths[i]);
        if (port < 0)
            return -1;
        wire->ports[wire->port_count++] = (struct pollfd){.fd = port, .events = POLLIN};
    }
    wire->ports[wire->port_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    return 0;
}

/* --- delay ---------------------------------------------------------------------------------- */

static bool set_delay(struct wire *wire, const char *text)
{
    char *end;
    double delay = strtod(text, &end);
    if (end == text || *end || !(delay >= 0 && delay <= MAX_DELAY))
        return false;
    wire->delay = (int64_t)(delay * 1e6);
    return true;
}

/* Whoever changes it writes one line at once. */
static void hear(struct wire *wire)
{
    char line[32];
    ssize_t bytes = read(STDIN_FILENO, line, sizeof line - 1);
    if (bytes <= 0) {
        wire->ports[wire->port_count].fd = -1; /* nobody will */
        return;
    }
    line[bytes] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (!set_delay(wire, line))
        fprintf(stderr, "delay: \"%s\" is no delay in milliseconds\n", line);
}

/* --- frames --------------------------------------------------------------------------------- */

/* A wire that is full loses what comes, as a switch does. */
static void take(struct wire *wire, int port)
{
    for (int i = 0; i < FRAMES_AT_ONCE && wire->came - wire->went < FRAMES; i++) {
        struct frame *frame = &wire->frames[wire->came % FRAMES];
        frame->bytes = read(wire->ports[port].fd, frame->data, sizeof frame->data);
        if (frame->bytes < 2 * ADDRESS_BYTES)
            return;
        frame->from = port;
        frame->due = now() + wire->delay;
        wire->came++;
    }
}

static bool is_for(const struct frame *frame, int port)
{
    bool group = frame->data[0] & 1;
    return port != frame->from && (group || frame->data[ADDRESS_BYTES - 1] == port);
}

static void give(const struct wire *wire, const struct frame *frame)
{
    for (int port = 0; port < wire->port_count; port++)
        if (is_for(frame, port) &&
            write(wire->ports[port].fd, frame->data, (size_t)frame->bytes) < 0)
            continue; /* an interface that is down takes none */
}

static void give_due(struct wire *wire)
{
    while (wire->went < wire->came && wire->frames[wire->went % FRAMES].due <= now())
        give(wire, &wire->frames[wire->went++ % FRAMES]);
}

static void wait_for_more(struct wire *wire)
{
    int64_t left = INT64_C(1000000000);
    if (wire->went < wire->came)
        left = wire->frames[wire->went % FRAMES].due - now();
    struct timespec limit = {.tv_nsec = left < 0 ? 0 : left >= 1000000000 ? 999999999 : left};
    if (ppoll(wire->ports, (nfds_t)wire->port_count + 1, &limit, NULL) <= 0)
        return;
    if (wire->ports[wire->port_count].revents)
        hear(wire);
    for (int port = 0; port < wire->port_count; port++)
        if (wire->ports[port].revents & POLLIN)
            take(wire, port);
}

int main(int argc, char **argv)
{
    struct wire wire = {0};
    if (argc < 4 || argc - 2 > MAX_PORTS || !set_delay(&wire, argv[1])) {
        fprintf(stderr, "usage: delay MILLISECONDS NETNS NETNS...\n");
        return 2;
    }
    wire.frames = malloc(FRAMES * sizeof *wire.frames);
    if (!wire.frames || make_ports(&wire, argv + 2, argc - 2) < 0)
        return 1;
    /* It stands for a wire, which does not wait for a processor. */
    setpriority(PRIO_PROCESS, 0, -20);
    puts("ready");
    fflush(stdout);
    for (;;) {
        wait_for_more(&wire);
        give_due(&wire);
    }
}
