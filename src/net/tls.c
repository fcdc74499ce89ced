#include "net/tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"

struct tls {
    SSL_CTX *context;
    char protocol[16]; /* as ALPN writes it, its length in front; "": none */
};

struct tls_stream {
    SSL *connection;
    bool must_write;
    char problem[160];
};

/* --- the libraries --------------------------------------------------------------------------- */

static struct {
    __typeof__(&TLS_server_method) server_method;
    __typeof__(&SSL_CTX_new) context_new;
    __typeof__(&SSL_CTX_free) context_free;
    __typeof__(&SSL_CTX_ctrl) context_control;
    __typeof__(&SSL_CTX_use_certificate) use_certificate;
    __typeof__(&SSL_CTX_use_PrivateKey) use_key;
    __typeof__(&SSL_CTX_check_private_key) check_key;
    __typeof__(&SSL_CTX_get_cert_store) get_store;
    __typeof__(&SSL_CTX_set_verify) set_verify;
    __typeof__(&SSL_CTX_add_client_CA) add_client_ca;
    __typeof__(&SSL_CTX_set_session_id_context) set_session_context;
    __typeof__(&SSL_CTX_set_alpn_select_cb) set_protocols;
    __typeof__(&SSL_new) connection_new;
    __typeof__(&SSL_free) connection_free;
    __typeof__(&SSL_set_fd) set_socket;
    __typeof__(&SSL_set_accept_state) set_accepting;
    __typeof__(&SSL_read) read;
    __typeof__(&SSL_write) write;
    __typeof__(&SSL_get_error) result;
    __typeof__(&BIO_new_mem_buf) text_new;
    __typeof__(&BIO_free) text_free;
    __typeof__(&PEM_read_bio_X509) read_certificate;
    __typeof__(&PEM_read_bio_PrivateKey) read_key;
    __typeof__(&X509_free) certificate_free;
    __typeof__(&EVP_PKEY_free) key_free;
    __typeof__(&X509_STORE_add_cert) store_add;
    __typeof__(&ERR_get_error) get_error;
    __typeof__(&ERR_peek_last_error) last_error;
    __typeof__(&ERR_clear_error) clear_error;
    __typeof__(&ERR_error_string_n) error_text;
    __typeof__(&bufferevent_openssl_socket_new) bufferevent_new;
    __typeof__(&bufferevent_openssl_set_allow_dirty_shutdown) allow_dirty;
} ssl;

enum library { LIBRARY_SSL, LIBRARY_CRYPTO, LIBRARY_EVENT, LIBRARIES };

#define PLACE(field) (void **)&ssl.field
static const struct {
    const char *name;
    void **place;
    enum library library;
} names[] = {
    {"TLS_server_method", PLACE(server_method), LIBRARY_SSL},
    {"SSL_CTX_new", PLACE(context_new), LIBRARY_SSL},
    {"SSL_CTX_free", PLACE(context_free), LIBRARY_SSL},
    {"SSL_CTX_ctrl", PLACE(context_control), LIBRARY_SSL},
    {"SSL_CTX_use_certificate", PLACE(use_certificate), LIBRARY_SSL},
    {"SSL_CTX_use_PrivateKey", PLACE(use_key), LIBRARY_SSL},
    {"SSL_CTX_check_private_key", PLACE(check_key), LIBRARY_SSL},
    {"SSL_CTX_get_cert_store", PLACE(get_store), LIBRARY_SSL},
    {"SSL_CTX_set_verify", PLACE(set_verify), LIBRARY_SSL},
    {"SSL_CTX_add_client_CA", PLACE(add_client_ca), LIBRARY_SSL},
    {"SSL_CTX_set_session_id_context", PLACE(set_session_context), LIBRARY_SSL},
    {"SSL_CTX_set_alpn_select_cb", PLACE(set_protocols), LIBRARY_SSL},
    {"SSL_new", PLACE(connection_new), LIBRARY_SSL},
    {"SSL_free", PLACE(connection_free), LIBRARY_SSL},
    {"SSL_set_fd", PLACE(set_socket), LIBRARY_SSL},
    {"SSL_set_accept_state", PLACE(set_accepting), LIBRARY_SSL},
    {"SSL_read", PLACE(read), LIBRARY_SSL},
    {"SSL_write", PLACE(write), LIBRARY_SSL},
    {"SSL_get_error", PLACE(result), LIBRARY_SSL},
    {"BIO_new_mem_buf", PLACE(text_new), LIBRARY_CRYPTO},
    {"BIO_free", PLACE(text_free), LIBRARY_CRYPTO},
    {"PEM_read_bio_X509", PLACE(read_certificate), LIBRARY_CRYPTO},
    {"PEM_read_bio_PrivateKey", PLACE(read_key), LIBRARY_CRYPTO},
    {"X509_free", PLACE(certificate_free), LIBRARY_CRYPTO},
    {"EVP_PKEY_free", PLACE(key_free), LIBRARY_CRYPTO},
    {"X509_STORE_add_cert", PLACE(store_add), LIBRARY_CRYPTO},
    {"ERR_get_error", PLACE(get_error), LIBRARY_CRYPTO},
    {"ERR_peek_last_error", PLACE(last_error), LIBRARY_CRYPTO},
    {"ERR_clear_error", PLACE(clear_error), LIBRARY_CRYPTO},
    {"ERR_error_string_n", PLACE(error_text), LIBRARY_CRYPTO},
    {"bufferevent_openssl_socket_new", PLACE(bufferevent_new), LIBRARY_EVENT},
    {"bufferevent_openssl_set_allow_dirty_shutdown", PLACE(allow_dirty), LIBRARY_EVENT},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256]; /* "": they are there */

static void load(void)
{
    static const struct {
        const char *file, *package;
    } files[LIBRARIES] = {{"libssl.so.3", "libssl3"},
                          {"libcrypto.so.3", "libssl3"},
                          {"libevent_openssl-2.1.so.7", "libevent-openssl-2.1-7"}};
    void *libraries[LIBRARIES];
    for (int i = 0; i < LIBRARIES; i++) {
        libraries[i] = dlopen(files[i].file, RTLD_NOW | RTLD_LOCAL);
        if (!libraries[i]) {
            snprintf(failure, sizeof failure, "%s cannot be loaded; install %s", files[i].file,
                     files[i].package);
            return;
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(libraries[names[i].library], names[i].name);
        if (!symbol)
            snprintf(failure, sizeof failure, "the installed library has no %s", names[i].name);
        memcpy(names[i].place, &symbol, sizeof symbol);
    }
}

static int fail(struct error *err, const char *what)
{
    char why[160];
    unsigned long code = ssl.last_error();
    ssl.error_text(code, why, sizeof why);
    ssl.clear_error();
    return error_set(err, ERROR_FORMAT, "TLS: %s%s%s", what, code ? ": " : "", code ? why : "");
}

/* --- the context ----------------------------------------------------------------------------- */

/* The first is the server's own; those behind it go to clients with it. */
static int use_certificates(SSL_CTX *context, const char *pem, struct error *err)
{
    BIO *text = ssl.text_new(pem, -1);
    X509 *own = text ? ssl.read_certificate(text, NULL, NULL, NULL) : NULL;
    int status = own && ssl.use_certificate(context, own) == 1
                     ? 0
                     : fail(err, "the server's certificate cannot be read");
    ssl.certificate_free(own);
    X509 *next;
    while (status == 0 && (next = ssl.read_certificate(text, NULL, NULL, NULL)))
        if (ssl.context_control(context, SSL_CTRL_EXTRA_CHAIN_CERT, 0, next) != 1) {
            ssl.certificate_free(next);
            status = fail(err, "a certificate behind the server's");
        }
    ssl.text_free(text);
    ssl.clear_error();
    return status;
}

static int use_key(SSL_CTX *context, const char *pem, struct error *err)
{
    BIO *text = ssl.text_new(pem, -1);
    EVP_PKEY *key = text ? ssl.read_key(text, NULL, NULL, (void *)"") : NULL;
    int status = key ? 0 : fail(err, "the server's key cannot be read");
    if (status == 0 && (ssl.use_key(context, key) != 1 || ssl.check_key(context) != 1))
        status = fail(err, "the key does not fit the certificate");
    ssl.key_free(key);
    ssl.text_free(text);
    return status;
}

static int demand_clients(SSL_CTX *context, const char *pem, struct error *err)
{
    BIO *text = ssl.text_new(pem, -1);
    int count = 0, status = text ? 0 : fail(err, "no memory");
    X509 *next;
    while (status == 0 && (next = ssl.read_certificate(text, NULL, NULL, NULL))) {
        if (ssl.store_add(ssl.get_store(context), next) != 1 ||
            ssl.add_client_ca(context, next) != 1)
            status = fail(err, "a certificate of who signs clients' cannot be used");
        ssl.certificate_free(next);
        count++;
    }
    ssl.text_free(text);
    if (status == 0 && count == 0)
        status = fail(err, "the certificates of who signs clients' cannot be read");
    ssl.clear_error();
    ssl.set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return status;
}

/* Who names protocols, but not ours, would speak another. */
static int choose_protocol(SSL *connection, const unsigned char **out, unsigned char *out_bytes,
                           const unsigned char *offered, unsigned int bytes, void *context)
{
    const struct tls *tls = context;
    unsigned char length = (unsigned char)tls->protocol[0];
    (void)connection;
    for (unsigned int i = 0; i < bytes; i += 1u + offered[i]) {
        if (offered[i] != length || bytes - i - 1 < length ||
            memcmp(offered + i + 1, tls->protocol + 1, length) != 0)
            continue;
        *out = offered + i + 1;
        *out_bytes = length;
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int tls_create(const struct tls_settings *settings, struct tls **out, struct error *err)
{
    static const unsigned char session[] = "lockstep";
    pthread_once(&once, load);
    if (failure[0])
        return error_set(err, ERROR_IO, "%s", failure);
    struct tls *tls = memory_allocate(sizeof *tls);
    if (tls)
        tls->context = ssl.context_new(ssl.server_method());
    if (!tls || !tls->context) {
        tls_destroy(tls);
        return error_set(err, ERROR_MEMORY, "no memory for TLS");
    }
    ssl.context_control(tls->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    /* What is to be written may lie elsewhere when it is tried again, and a part of it may leave. */
    ssl.context_control(tls->context, SSL_CTRL_MODE,
                        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    ssl.set_session_context(tls->context, session, sizeof session - 1);
    if (settings->protocol) {
        snprintf(tls->protocol, sizeof tls->protocol, "%c%s", (char)strlen(settings->protocol),
                 settings->protocol);
        ssl.set_protocols(tls->context, choose_protocol, tls);
    }
    if (use_certificates(tls->context, settings->certificate, err) < 0 ||
        use_key(tls->context, settings->key, err) < 0 ||
        (settings->client_ca && demand_clients(tls->context, settings->client_ca, err) < 0)) {
        tls_destroy(tls);
        return -1;
    }
    *out = tls;
    return 0;
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    if (tls->context)
        ssl.context_free(tls->context);
    memory_free(tls);
}

struct bufferevent *tls_accept(struct tls *tls, struct event_base *base)
{
    SSL *connection = ssl.connection_new(tls->context);
    if (!connection)
        return NULL;
    struct bufferevent *buffer =
        ssl.bufferevent_new(base, -1, connection, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (buffer)
        ssl.allow_dirty(buffer, 1); /* clients that just close are not an error worth a word */
    else
        ssl.connection_free(connection);
    return buffer;
}

/* --- for who reads and writes itself --------------------------------------------------------- */

struct tls_stream *tls_stream_create(struct tls *tls, int socket)
{
    struct tls_stream *stream = memory_allocate(sizeof *stream);
    if (!stream)
        return NULL;
    stream->connection = ssl.connection_new(tls->context);
    if (!stream->connection || ssl.set_socket(stream->connection, socket) != 1) {
        tls_stream_destroy(stream);
        return NULL;
    }
    ssl.set_accepting(stream->connection);
    return stream;
}

void tls_stream_destroy(struct tls_stream *stream)
{
    if (!stream)
        return;
    if (stream->connection)
        ssl.connection_free(stream->connection);
    ssl.clear_error();
    memory_free(stream);
}

static ssize_t finish(struct tls_stream *stream, int result)
{
    int problem = result > 0 ? SSL_ERROR_NONE : ssl.result(stream->connection, result);
    stream->must_write = problem == SSL_ERROR_WANT_WRITE;
    switch (problem) {
    case SSL_ERROR_NONE:
        return result;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_SYSCALL:
        if (errno == 0 || errno == EAGAIN)
            errno = ECONNRESET; /* clients that just close */
        return -1;
    default:
        snprintf(stream->problem, sizeof stream->problem, "TLS: ");
        ssl.error_text(ssl.last_error(), stream->problem + 5, sizeof stream->problem - 5);
        errno = EPROTO;
        return -1;
    }
}

const char *tls_stream_problem(const struct tls_stream *stream)
{
    return stream->problem;
}

static int as_int(size_t bytes)
{
    return bytes < INT_MAX ? (int)bytes : INT_MAX;
}

ssize_t tls_stream_read(struct tls_stream *stream, void *room, size_t bytes)
{
    ssl.clear_error(); /* what another connection of this thread left behind would be taken for ours */
    errno = 0;
    return finish(stream, ssl.read(stream->connection, room, as_int(bytes)));
}

ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t bytes)
{
    ssl.clear_error();
    errno = 0;
    return finish(stream, ssl.write(stream->connection, data, as_int(bytes)));
}

bool tls_stream_must_write(const struct tls_stream *stream)
{
    return stream->must_write;
}
