/* A connection that only those who share a secret can make: TLS 1.3 with that secret as the only
 * proof of identity on both sides (an external pre-shared key, with a fresh Diffie-Hellman exchange,
 * so that old recordings stay closed to who learns the secret later). No certificates, no session
 * tickets, no early data: what was recorded cannot be replayed.
 *
 * Sockets do not block: calls do what they can, and channel_wants says what to poll for. */
#ifndef NET_CHANNEL_H
#define NET_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct channel;

enum { CHANNEL_KEY_BYTES = 32 };
struct channel_key {
    unsigned char bytes[CHANNEL_KEY_BYTES];
};

/* HKDF-SHA256 of the secret's bytes. */
int channel_key_derive(const void *secret, size_t bytes, struct channel_key *out,
                       struct error *err);

enum channel_side { CHANNEL_ASKS, CHANNEL_ANSWERS };

/* Takes the socket over, also when it fails. `key` is borrowed for the channel's life; NULL: what
 * is said goes as it is, and nobody proves anything. */
int channel_create(int socket, const struct channel_key *key, enum channel_side side,
                   struct channel **out, struct error *err);
void channel_destroy(struct channel *channel); /* closes; accepts NULL */

/* 1: both have proved that they know the key; 0: not yet; -1: they do not, or the line broke. */
int channel_shake(struct channel *channel, struct error *err);
/* Bytes read or written; 0: none now; -1: the line is closed or broken, in words. After a shake. */
ssize_t channel_read(struct channel *channel, void *bytes, size_t count, struct error *err);
ssize_t channel_write(struct channel *channel, const void *bytes, size_t count, struct error *err);
short channel_wants(
    const struct channel *channel); /* POLLIN or POLLOUT: what the last call lacked */
int channel_socket(const struct channel *channel);

#endif
