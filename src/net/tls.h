/* TLS for the server: a context made of PEM texts, and connections that speak it. OpenSSL and
 * libevent's bridge to it are loaded when they are first needed (see libraries.h for why). */
#ifndef NET_TLS_H
#define NET_TLS_H

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
};

/* TLS 1.2 and later. Fails with what is wrong with which of the texts. */
int tls_create(const struct tls_settings *settings, struct tls **out, struct error *err);
void tls_destroy(struct tls *tls); /* accepts NULL; connections keep what they need */
/* For a connection that is about to be accepted; NULL when memory is short. Its descriptor is closed
 * with it. */
struct bufferevent *tls_accept(struct tls *tls, struct event_base *base);

#endif
