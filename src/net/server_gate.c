/* Who may come in, and what those are told who may not. */
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "net/server_internal.h"

void server_add_common_headers(struct evhttp_request *inner)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
}

static const char *request_header(struct evhttp_request *inner, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(inner), name);
}

void server_send_text(struct evhttp_request *inner, int status, const char *text)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    server_add_common_headers(inner);
    evhttp_add_header(headers, "Content-Type", "text/plain; charset=utf-8");
    struct evbuffer *body = evbuffer_new();
    if (body)
        evbuffer_add_printf(body, "%s\n", text);
    evhttp_send_reply(inner, status, NULL, body);
    if (body)
        evbuffer_free(body);
}

/* A right one in the query becomes a cookie, so that the page's own requests have it, too. */
static bool query_has_token(const struct server_gate *gate, struct evhttp_request *inner)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(inner));
    struct evkeyvalq values;
    if (!query || evhttp_parse_query_str(query, &values) < 0)
        return false;
    bool right = token_equal(gate->token, evhttp_find_header(&values, "token"));
    evhttp_clear_headers(&values);
    if (right) {
        char cookie[128];
        snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", gate->cookie,
                 gate->token);
        evhttp_add_header(evhttp_request_get_output_headers(inner), "Set-Cookie", cookie);
    }
    return right;
}

static bool has_token(const struct server_gate *gate, struct evhttp_request *inner)
{
    char given[TOKEN_LETTERS + 1];
    if (query_has_token(gate, inner) ||
        token_equal(gate->token, token_from_authorization(request_header(inner, "Authorization"))))
        return true;
    return token_from_cookies(request_header(inner, "Cookie"), gate->cookie, given, sizeof given) &&
           token_equal(gate->token, given);
}

bool server_admit(const struct server_gate *gate, struct evhttp_request *inner)
{
    const char *host = request_header(inner, "Host");
    if (gate->local_only && (!host || !address_host_is_local(host))) {
        server_send_text(
            inner, 403,
            "this server answers only to localhost, 127.0.0.1 and [::1]: use one of these "
            "names");
        return false;
    }
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(inner));
    if (gate->open_path && path && strcmp(path, gate->open_path) == 0)
        return true;
    if (gate->token[0] && !has_token(gate, inner)) {
        server_send_text(
            inner, 401, "the token is missing or wrong: open the address that the program printed");
        return false;
    }
    return true;
}
