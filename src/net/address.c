#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/error.h"

static int bad_address(const char *what, const char *text, struct error *err)
{
    return error_set(err, ERROR_USAGE,
                     "%s=%s: expected PORT or ADDRESS:PORT, as 8080, 0.0.0.0:8080 or [::]:8080",
                     what, text);
}

/* Digits only, up to 65535; -1 when it is none. */
static int parse_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits])
        return -1;
    long port = strtol(text, NULL, 10);
    return port <= 65535 ? (int)port : -1;
}

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_numeric(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* The part before the port, without the brackets of IPv6; false when it does not fit or is
 * bracketed wrongly. */
static bool copy_host(const char *from, size_t length, char *out, size_t space)
{
    bool bracketed = length >= 2 && from[0] == '[' && from[length - 1] == ']';
    if (bracketed) {
        from++;
        length -= 2;
    } else if (memchr(from, ':', length)) {
        return false; /* fe80::1:8080 could mean two things */
    }
    if (length >= space)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

int address_parse(const char *text, const char *what, struct address *out, struct error *err)
{
    struct address address = {.host = "127.0.0.1"};
    const char *colon = strrchr(text, ':');
    address.port = parse_port(colon ? colon + 1 : text);
    if (address.port < 0)
        return bad_address(what, text, err);
    if (colon && colon > text &&
        !copy_host(text, (size_t)(colon - text), address.host, sizeof address.host))
        return bad_address(what, text, err);
    if (strcmp(address.host, "localhost") == 0)
        snprintf(address.host, sizeof address.host, "127.0.0.1");
    if (!is_numeric(address.host))
        return bad_address(what, text, err);
    address.loopback = is_loopback(address.host);
    *out = address;
    return 0;
}

const char *address_text(const struct address *address, char *text, int bytes)
{
    bool six = strchr(address->host, ':') != NULL;
    snprintf(text, (size_t)bytes, six ? "[%s]:%d" : "%s:%d", address->host, address->port);
    return text;
}

bool address_host_is_local(const char *host)
{
    char name[64];
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    if (host[0] == '[' && !end)
        return false;
    if (host[0] == '[')
        end++;
    size_t length = end ? (size_t)(end - host) : strlen(host);
    if (end && *end && (*end != ':' || parse_port(end + 1) < 0))
        return false;
    return copy_host(host, length, name, sizeof name) &&
           (strcasecmp(name, "localhost") == 0 || is_loopback(name));
}
