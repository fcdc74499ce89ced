/* Who may come in, and what those are told who may not. */
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "net/server_internal.h"

enum { COOKIE_BYTES = 512 };

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

void server_send_text(const struct server_gate *gate, struct evhttp_request *inner, int status,
                      const char *text)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    server_add_common_headers(inner);
    evhttp_add_header(headers, "Content-Type",
                      gate->json_errors ? "application/json" : "text/plain; charset=utf-8");
    struct evbuffer *body = evbuffer_new();
    if (body && gate->json_errors)
        evbuffer_add_printf(body, "{\"error\": \"%s\"}\n", text);
    else if (body)
        evbuffer_add_printf(body, "%s\n", text);
    evhttp_send_reply(inner, status, NULL, body);
    if (body)
        evbuffer_free(body);
}

static bool is_right(const struct server_gate *gate, const char *given)
{
    return gate->admits ? gate->admits(gate->context, given) : token_equal(gate->token, given);
}

/* A right one in the query becomes a cookie, so that the page's own requests have it, too. */
static bool query_has_token(const struct server_gate *gate, struct evhttp_request *inner)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(inner));
    struct evkeyvalq values;
    if (!query || evhttp_parse_query_str(query, &values) < 0)
        return false;
    const char *given = evhttp_find_header(&values, "token");
    bool right = given && is_right(gate, given);
    if (right) {
        char cookie[COOKIE_BYTES + 128];
        snprintf(cookie, sizeof cookie, "%s=%.*s; Path=/; HttpOnly; SameSite=Strict", gate->cookie,
                 COOKIE_BYTES, given);
        evhttp_add_header(evhttp_request_get_output_headers(inner), "Set-Cookie", cookie);
    }
    evhttp_clear_headers(&values);
    return right;
}

static bool has_token(const struct server_gate *gate, struct evhttp_request *inner)
{
    char given[COOKIE_BYTES];
    if (query_has_token(gate, inner) ||
        is_right(gate, token_from_authorization(request_header(inner, "Authorization"))))
        return true;
    return token_from_cookies(request_header(inner, "Cookie"), gate->cookie, given, sizeof given) &&
           is_right(gate, given);
}

bool server_admit(const struct server_gate *gate, struct evhttp_request *inner)
{
    const char *host = request_header(inner, "Host");
    if (gate->local_only && (!host || !address_host_is_local(host))) {
        server_send_text(
            gate, inner, 403,
            "this server answers only to localhost, 127.0.0.1 and [::1]: use one of these "
            "names");
        return false;
    }
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(inner));
    if (path && ((gate->open_path && strcmp(path, gate->open_path) == 0) ||
                 (gate->is_open && gate->is_open(path))))
        return true;
    if ((!gate->token[0] && !gate->admits) || has_token(gate, inner))
        return true;
    if (gate->refused)
        gate->refused(gate->context);
    if (gate->admits)
        evhttp_add_header(evhttp_request_get_output_headers(inner), "WWW-Authenticate", "Bearer");
    server_send_text(gate, inner, 401,
                     gate->admits
                         ? "the token is missing or wrong: send \"Authorization: Bearer TOKEN\""
                         : "the token is missing or wrong: open the address that the program "
                           "printed");
    return false;
}
