/* TLS for the server: a context made of PEM texts, and connections that speak it. OpenSSL and
 * libevent's bridge to it are loaded when they are first needed (see libraries.h for why). */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bufferevent;
struct error;
struct event_base;
struct tls;

/* PEM texts, not file names. */
struct tls_settings {
    const char *certificate; /* the server's, then those that vouch for it */
    const char *key;
    const char *client_ca; /* clients must show a certificate that one of these signed; NULL: they
                            * need none */
    const char *protocol;  /* that who names protocols (ALPN) must name; NULL: they are not read */
};

/* TLS 1.2 and later. Fails with what is wrong with which of the texts. */
int tls_create(const struct tls_settings *settings, struct tls **out, struct error *err);
void tls_destroy(struct tls *tls); /* accepts NULL; connections keep what they need */
/* For a connection that is about to be accepted; NULL when memory is short. Its descriptor is closed
 * with it. */
struct bufferevent *tls_accept(struct tls *tls, struct event_base *base);

/* The same for who reads and writes a socket itself, one that does not block and stays the caller's.
 * NULL when memory is short. */
struct tls_stream;
struct tls_stream *tls_stream_create(struct tls *tls, int socket);
void tls_stream_destroy(struct tls_stream *stream); /* accepts NULL */
/* As recv and send: bytes, 0 at the end, -1 with errno, EAGAIN among others. The handshake is part
 * of the first. */
ssize_t tls_stream_read(struct tls_stream *stream, void *room, size_t bytes);
ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t bytes);
/* Why the last of them failed with EPROTO, in OpenSSL's words. */
const char *tls_stream_problem(const struct tls_stream *stream);
/* The last of them could not go on before the socket takes more. */
bool tls_stream_must_write(const struct tls_stream *stream);

#endif
