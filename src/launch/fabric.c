#include "launch/fabric.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family == AF_INET && b->sa_family == AF_INET)
        return !memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                       &((const struct sockaddr_in *)b)->sin_addr, sizeof(struct in_addr));
    if (a->sa_family == AF_INET6 && b->sa_family == AF_INET6)
        return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
    if (a->sa_family == AF_INET6 && b->sa_family == AF_INET) { /* a socket for both */
        const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
        return IN6_IS_ADDR_V4MAPPED(six) &&
               !memcmp(six->s6_addr + 12, &((const struct sockaddr_in *)b)->sin_addr, 4);
    }
    return false;
}

/* The interface that a connection leaves by; empty when it cannot be told. */
static void find_interface(int socket, char *name, size_t bytes)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    struct ifaddrs *list = NULL;
    name[0] = '\0';
    if (socket < 0 || getsockname(socket, (struct sockaddr *)&own, &length) < 0 ||
        getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *at = list; at && !name[0]; at = at->ifa_next)
        if (at->ifa_addr && same_address((struct sockaddr *)&own, at->ifa_addr))
            snprintf(name, bytes, "%s", at->ifa_name);
    freeifaddrs(list);
}

static void set(struct fabric *fabric, const char *name, const char *value)
{
    char *setting = fabric->settings[fabric->count];
    snprintf(setting, FABRIC_SETTING_BYTES, "OMPI_MCA_%s", name);
    if (getenv(setting))
        return;
    snprintf(setting, FABRIC_SETTING_BYTES, "OMPI_MCA_%s=%s", name, value);
    fabric->count++;
}

static void set_number(struct fabric *fabric, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set(fabric, name, text);
}

/* Whether a connection runs over IPv6. */
static bool is_six(int socket)
{
    struct sockaddr_storage own = {0};
    socklen_t length = sizeof own;
    if (socket < 0 || getsockname(socket, (struct sockaddr *)&own, &length) < 0)
        return false;
    return own.ss_family == AF_INET6 &&
           !IN6_IS_ADDR_V4MAPPED(&((struct sockaddr_in6 *)&own)->sin6_addr);
}

/* Of two families that a machine has, Open MPI is to use the members' own. */
static void choose_network(struct fabric *fabric, int socket, bool loopback, bool data)
{
    char name[IF_NAMESIZE] = "lo";
    fabric->count = 0;
    if (!loopback)
        find_interface(socket, name, sizeof name);
    if (!*name)
        return;
    set(fabric, "oob_tcp_if_include", name);
    if (data)
        set(fabric, "btl_tcp_if_include", name);
    if (loopback)
        return;
    set(fabric, is_six(socket) ? "oob_tcp_disable_ipv4_family" : "oob_tcp_disable_ipv6_family",
        "1");
    if (data)
        set(fabric, "btl_tcp_disable_family", is_six(socket) ? "4" : "6");
}

/* Daemons and mpirun listen on all that they are given. */
static void set_oob_ports(struct fabric *fabric, bool six, int first, int count)
{
    char text[32];
    snprintf(text, sizeof text, "%d-%d", first, first + count - 1);
    set(fabric, six ? "oob_tcp_dynamic_ipv6_ports" : "oob_tcp_dynamic_ipv4_ports", text);
    set_number(fabric, six ? "oob_tcp_dynamic_ipv4_ports" : "oob_tcp_dynamic_ipv6_ports",
               first + count);
}

void fabric_for_daemon(struct fabric *fabric, int socket, int port, bool loopback)
{
    bool six = is_six(socket);
    int data = port + FABRIC_DATA;
    choose_network(fabric, socket, loopback, true);
    if (loopback)
        return;
    set_oob_ports(fabric, six, port + FABRIC_DAEMON, FABRIC_DAEMON_PORTS);
    set_number(fabric, six ? "btl_tcp_port_min_v6" : "btl_tcp_port_min_v4", data);
    set_number(fabric, six ? "btl_tcp_port_range_v6" : "btl_tcp_port_range_v4", FABRIC_DATA_PORTS);
    set_number(fabric, six ? "btl_tcp_port_min_v4" : "btl_tcp_port_min_v6",
               data + FABRIC_DATA_PORTS);
    set_number(fabric, six ? "btl_tcp_port_range_v4" : "btl_tcp_port_range_v6", FABRIC_OTHER_PORTS);
}

void fabric_for_mpirun(struct fabric *fabric, int socket, int port, bool loopback)
{
    choose_network(fabric, socket, loopback, false);
    if (!loopback)
        set_oob_ports(fabric, is_six(socket), port + FABRIC_MPIRUN, FABRIC_MPIRUN_PORTS);
}
