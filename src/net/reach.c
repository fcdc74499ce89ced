#include "net/reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

static bool wait_until_writable(int line, double seconds)
{
    static const double most = 1e6;
    struct pollfd one = {.fd = line, .events = POLLOUT};
    double until = clock_seconds() + (seconds < most ? seconds : most);
    int ready;
    do {
        double left = until - clock_seconds();
        ready = poll(&one, 1, left > 0 ? (int)(left * 1000) : 0);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
}

static int connect_within(const struct addrinfo *address, double seconds)
{
    int number = 0;
    socklen_t bytes = sizeof number;
    int line = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line < 0)
        return -1;
    if (connect(line, address->ai_addr, address->ai_addrlen) == 0)
        return line;
    if (errno != EINPROGRESS)
        number = errno;
    else if (!wait_until_writable(line, seconds))
        number = ETIMEDOUT;
    else
        getsockopt(line, SOL_SOCKET, SO_ERROR, &number, &bytes);
    if (!number)
        return line;
    close(line);
    errno = number;
    return -1;
}

int reach(const char *host, const char *port, double seconds, struct error *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int code = getaddrinfo(host, port, &hints, &list), line = -1, number = 0;
    if (code != 0)
        return error_set(err, ERROR_PEER, "%s: %s", host,
                         code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    for (const struct addrinfo *address = list; address && line < 0; address = address->ai_next) {
        line = connect_within(address, seconds);
        number = errno;
    }
    freeaddrinfo(list);
    return line >= 0 ? line : error_set(err, ERROR_PEER, "%s", strerror(number));
}
