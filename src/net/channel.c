#include "net/channel.h"

#include <dlfcn.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

/* --- the library, loaded when it is first needed -------------------------------------------------- */

#define TLS_FUNCTIONS(F)                                                                           \
    F(TLS_method)                                                                                  \
    F(SSL_CTX_new)                                                                                 \
    F(SSL_CTX_ctrl)                                                                                \
    F(SSL_CTX_set_ciphersuites)                                                                    \
    F(SSL_CTX_set_num_tickets)                                                                     \
    F(SSL_set_verify)                                                                              \
    F(SSL_CTX_set_psk_find_session_callback)                                                       \
    F(SSL_CTX_set_psk_use_session_callback)                                                        \
    F(SSL_new)                                                                                     \
    F(SSL_free)                                                                                    \
    F(SSL_set_fd)                                                                                  \
    F(SSL_set_ex_data)                                                                             \
    F(SSL_get_ex_data)                                                                             \
    F(SSL_set_connect_state)                                                                       \
    F(SSL_set_accept_state)                                                                        \
    F(SSL_do_handshake)                                                                            \
    F(SSL_session_reused)                                                                          \
    F(SSL_read)                                                                                    \
    F(SSL_write)                                                                                   \
    F(SSL_get_error)                                                                               \
    F(SSL_shutdown)                                                                                \
    F(SSL_CIPHER_find)                                                                             \
    F(SSL_SESSION_new)                                                                             \
    F(SSL_SESSION_free)                                                                            \
    F(SSL_SESSION_set1_master_key)                                                                 \
    F(SSL_SESSION_set_cipher)                                                                      \
    F(SSL_SESSION_set_protocol_version)                                                            \
    F(ERR_clear_error)                                                                             \
    F(ERR_get_error)                                                                               \
    F(ERR_reason_error_string)                                                                     \
    F(EVP_KDF_fetch)                                                                               \
    F(EVP_KDF_free)                                                                                \
    F(EVP_KDF_CTX_new)                                                                             \
    F(EVP_KDF_CTX_free)                                                                            \
    F(EVP_KDF_derive)

static struct {
#define FIELD(name) __typeof__(&name) name;
    TLS_FUNCTIONS(FIELD)
#undef FIELD
} tls;
static SSL_CTX *context; /* for all channels; each carries its key itself */
static char failure[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char identity[] = "lockstep agents 1";
/* TLS_AES_128_GCM_SHA256: a fixed hash, which an external key needs. */
static const unsigned char cipher_suite[] = {0x13, 0x01};

static SSL_SESSION *session_of(SSL *ssl)
{
    const struct channel_key *key = tls.SSL_get_ex_data(ssl, 0);
    const SSL_CIPHER *cipher = tls.SSL_CIPHER_find(ssl, cipher_suite);
    SSL_SESSION *session = key && cipher ? tls.SSL_SESSION_new() : NULL;
    if (session && tls.SSL_SESSION_set1_master_key(session, key->bytes, sizeof key->bytes) &&
        tls.SSL_SESSION_set_cipher(session, cipher) &&
        tls.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    if (session)
        tls.SSL_SESSION_free(session);
    return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *bytes,
                       SSL_SESSION **session)
{
    (void)digest; /* the only suite has the right one */
    *name = (const unsigned char *)identity;
    *bytes = sizeof identity - 1;
    *session = session_of(ssl);
    return *session != NULL;
}

static int find_session(SSL *ssl, const unsigned char *name, size_t bytes, SSL_SESSION **session)
{
    bool known = bytes == sizeof identity - 1 && memcmp(name, identity, bytes) == 0;
    *session = known ? session_of(ssl) : NULL;
    return !known || *session;
}

static void load(void)
{
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL); /* brings libcrypto */
    if (!library) {
        snprintf(failure, sizeof failure, "libssl.so.3 cannot be loaded; install libssl3");
        return;
    }
#define LOAD(name)                                                                                 \
    if (!(tls.name = (__typeof__(tls.name))dlsym(library, #name)))                                 \
        snprintf(failure, sizeof failure, "the installed OpenSSL has no %s", #name);
    TLS_FUNCTIONS(LOAD)
#undef LOAD
    context = failure[0] ? NULL : tls.SSL_CTX_new(tls.TLS_method());
    /* An answerer without a certificate has only the key. */
    if (!context ||
        !tls.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
        !tls.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
        !tls.SSL_CTX_set_num_tickets(context, 0)) {
        if (!failure[0])
            snprintf(failure, sizeof failure, "OpenSSL does not start");
        return;
    }
    tls.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    tls.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    tls.SSL_CTX_set_psk_use_session_callback(context, use_session);
    tls.SSL_CTX_set_psk_find_session_callback(context, find_session);
}

static int need_library(struct error *err)
{
    pthread_once(&once, load);
    return failure[0] ? error_set(err, ERROR_IO, "%s", failure) : 0;
}

/* --- keys ------------------------------------------------------------------------------------------ */

int channel_key_derive(const void *secret, size_t bytes, struct channel_key *out, struct error *err)
{
    if (need_library(err) < 0)
        return -1;
    static char digest[] = "SHA256", salt[] = "lockstep", info[] = "agents 1: key of the channel";
    OSSL_PARAM parameters[] = {
        {OSSL_KDF_PARAM_DIGEST, OSSL_PARAM_UTF8_STRING, digest, sizeof digest - 1, 0},
        {OSSL_KDF_PARAM_KEY, OSSL_PARAM_OCTET_STRING, (void *)secret, bytes, 0},
        {OSSL_KDF_PARAM_SALT, OSSL_PARAM_OCTET_STRING, salt, sizeof salt - 1, 0},
        {OSSL_KDF_PARAM_INFO, OSSL_PARAM_OCTET_STRING, info, sizeof info - 1, 0},
        {NULL, 0, NULL, 0, 0}};
    EVP_KDF *kdf = tls.EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *deriving = kdf ? tls.EVP_KDF_CTX_new(kdf) : NULL;
    int good =
        deriving && tls.EVP_KDF_derive(deriving, out->bytes, sizeof out->bytes, parameters) > 0;
    tls.EVP_KDF_CTX_free(deriving);
    tls.EVP_KDF_free(kdf);
    return good ? 0 : error_set(err, ERROR_IO, "OpenSSL derives no key from the secret");
}

/* --- channels -------------------------------------------------------------------------------------- */

struct channel {
    int socket;
    SSL *ssl; /* NULL: in the clear */
    enum channel_side side;
    bool shaken, broken;
    short wants;
};

int channel_create(int socket, const struct channel_key *key, enum channel_side side,
                   struct channel **out, struct error *err)
{
    struct channel *channel =
        key && need_library(err) < 0 ? NULL : memory_allocate(sizeof *channel);
    if (!channel) {
        close(socket);
        return err && err->code ? -1 : error_set(err, ERROR_MEMORY, "no memory for a connection");
    }
    /* Whoever asks speaks first: writable means that it may begin. */
    short wants = side == CHANNEL_ASKS ? POLLOUT : POLLIN;
    *channel = (struct channel){.socket = socket, .side = side, .wants = wants, .shaken = !key};
    if (!key) {
        *out = channel;
        return 0;
    }
    channel->ssl = tls.SSL_new(context);
    if (!channel->ssl || !tls.SSL_set_fd(channel->ssl, socket) ||
        !tls.SSL_set_ex_data(channel->ssl, 0, (void *)(uintptr_t)key)) {
        channel_destroy(channel);
        return error_set(err, ERROR_MEMORY, "no memory for a connection");
    }
    if (side == CHANNEL_ASKS) {
        tls.SSL_set_connect_state(channel->ssl);
        tls.SSL_set_verify(channel->ssl, SSL_VERIFY_PEER, NULL); /* and trusts no certificate */
    } else {
        tls.SSL_set_accept_state(channel->ssl);
    }
    *out = channel;
    return 0;
}

void channel_destroy(struct channel *channel)
{
    if (!channel)
        return;
    if (channel->ssl && channel->shaken && !channel->broken)
        tls.SSL_shutdown(channel->ssl);
    if (channel->ssl)
        tls.SSL_free(channel->ssl);
    close(channel->socket);
    memory_free(channel);
}

/* After a call that did not succeed: 0 when it only has to wait. */
static int judge(struct channel *channel, int result, const char *doing, struct error *err)
{
    int kind = tls.SSL_get_error(channel->ssl, result), number = errno;
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        channel->wants = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return 0;
    }
    channel->broken = true;
    if (kind == SSL_ERROR_ZERO_RETURN)
        return error_set(err, ERROR_PEER, "the other side closed the connection");
    const char *reason = tls.ERR_reason_error_string(tls.ERR_get_error());
    if (kind == SSL_ERROR_SYSCALL && !reason)
        reason = number ? strerror(number) : "the other side closed the connection";
    return error_set(err, ERROR_PEER, "%s%s", doing, reason ? reason : "the connection broke");
}

int channel_shake(struct channel *channel, struct error *err)
{
    if (channel->shaken)
        return 1;
    tls.ERR_clear_error();
    errno = 0;
    int result = tls.SSL_do_handshake(channel->ssl);
    if (result != 1)
        return judge(channel, result,
                     channel->side == CHANNEL_ASKS ? "it does not accept our secret: "
                                                   : "its secret is not ours: ",
                     err);
    /* "Reused" is what the library calls a handshake by key; any other proves nothing here. */
    if (!tls.SSL_session_reused(channel->ssl)) {
        channel->broken = true;
        return error_set(err, ERROR_PEER, "it did not prove that it knows our secret");
    }
    channel->shaken = true;
    channel->wants = POLLIN;
    return 1;
}

static ssize_t judge_plain(struct channel *channel, ssize_t result, short wants, struct error *err)
{
    if (result > 0)
        return result;
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) {
        channel->wants = wants;
        return 0;
    }
    channel->broken = true;
    return error_set(err, ERROR_PEER, "%s",
                     result == 0 ? "the other side closed the connection" : strerror(errno));
}

ssize_t channel_read(struct channel *channel, void *bytes, size_t count, struct error *err)
{
    if (!channel->ssl)
        return judge_plain(channel, recv(channel->socket, bytes, count, 0), POLLIN, err);
    tls.ERR_clear_error();
    errno = 0;
    int result = tls.SSL_read(channel->ssl, bytes, count < INT32_MAX ? (int)count : INT32_MAX);
    return result > 0 ? result : judge(channel, result, "", err);
}

ssize_t channel_write(struct channel *channel, const void *bytes, size_t count, struct error *err)
{
    if (!channel->ssl)
        return judge_plain(channel, send(channel->socket, bytes, count, MSG_NOSIGNAL), POLLOUT,
                           err);
    tls.ERR_clear_error();
    errno = 0;
    int result = tls.SSL_write(channel->ssl, bytes, count < INT32_MAX ? (int)count : INT32_MAX);
    return result > 0 ? result : judge(channel, result, "", err);
}

short channel_wants(const struct channel *channel)
{
    return channel->wants;
}

int channel_socket(const struct channel *channel)
{
    return channel->socket;
}
