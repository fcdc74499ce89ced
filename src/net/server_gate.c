/* Who may come in, and what those are told who may not. */
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>

#include "base/json.h"
#include "base/memory.h"
#include "net/server_internal.h"

enum { COOKIE_BYTES = 512 };

void server_add_common_headers(struct evhttp_request *inner)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Referrer-Policy", "no-referrer");
}

static void add_json_error(struct evbuffer *body, const char *text)
{
    struct json *object = json_object_create();
    json_set_text(object, "error", text);
    char *written = json_text(object, false);
    if (written)
        evbuffer_add(body, written, strlen(written));
    memory_free(written);
    json_release(object);
}

void server_send_text(const struct server_gate *gate, struct evhttp_request *inner, int status,
                      const char *text)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    server_add_common_headers(inner);
    evhttp_add_header(headers, "Content-Type",
                      gate->json_errors ? "application/json" : "text/plain; charset=utf-8");
    if (gate->cors) /* without it a page from elsewhere cannot read what is wrong */
        evhttp_add_header(headers, "Access-Control-Allow-Origin", "*");
    struct evbuffer *body =
        evhttp_request_get_command(inner) == EVHTTP_REQ_HEAD ? NULL : evbuffer_new();
    if (body && gate->json_errors)
        add_json_error(body, text);
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

/* *given is as long as `space`. */
static bool token_from_query(const struct evhttp_uri *uri, char *given, size_t space)
{
    const char *query = evhttp_uri_get_query(uri);
    struct evkeyvalq values;
    if (!query || evhttp_parse_query_str(query, &values) < 0)
        return false;
    const char *found = evhttp_find_header(&values, "token");
    bool fits = found && strlen(found) < space;
    if (fits)
        snprintf(given, space, "%s", found);
    evhttp_clear_headers(&values);
    return fits;
}

static bool has_token(const struct server_gate *gate, const struct evhttp_uri *uri,
                      const struct evkeyvalq *headers)
{
    char given[COOKIE_BYTES];
    if ((token_from_query(uri, given, sizeof given) && is_right(gate, given)) ||
        is_right(gate, token_from_authorization(evhttp_find_header(headers, "Authorization"))))
        return true;
    return token_from_cookies(evhttp_find_header(headers, "Cookie"), gate->cookie, given,
                              sizeof given) &&
           is_right(gate, given);
}

static bool is_open(const struct server_gate *gate, enum evhttp_cmd_type method,
                    const struct evhttp_uri *uri)
{
    const char *path = evhttp_uri_get_path(uri);
    if (gate->cors && method == EVHTTP_REQ_OPTIONS) /* a browser asks before it has the token */
        return true;
    return path && ((gate->open_path && strcmp(path, gate->open_path) == 0) ||
                    (gate->is_open && gate->is_open(path)));
}

enum server_entry server_judge(const struct server_gate *gate, enum evhttp_cmd_type method,
                               const struct evhttp_uri *uri, const struct evkeyvalq *headers,
                               struct server_refusal *refusal)
{
    const char *host = evhttp_find_header(headers, "Host");
    if (gate->local_only && (!host || !address_host_is_local(host))) {
        *refusal = (struct server_refusal){
            403, "this server answers only to localhost, 127.0.0.1 and [::1]: use one of these "
                 "names"};
        return ENTRY_REFUSED;
    }
    if ((!gate->token[0] && !gate->admits) || has_token(gate, uri, headers))
        return ENTRY_ADMITTED;
    if (is_open(gate, method, uri))
        return ENTRY_OPEN;
    *refusal = (struct server_refusal){
        401, gate->admits ? "the token is missing or wrong: send \"Authorization: Bearer TOKEN\""
                          : "the token is missing or wrong: open the address that the program "
                            "printed"};
    return ENTRY_REFUSED;
}

void server_refuse(const struct server_gate *gate, struct evhttp_request *inner,
                   const struct server_refusal *refusal)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inner);
    if (refusal->status == 401 && gate->refused)
        gate->refused(gate->context);
    if (refusal->status == 401 && gate->admits)
        evhttp_add_header(headers, "WWW-Authenticate", "Bearer");
    if (refusal->status == 405)
        evhttp_add_header(headers, "Allow", "GET, HEAD, POST, OPTIONS");
    if (refusal->status == 429)
        evhttp_add_header(headers, "Retry-After", "1");
    server_send_text(gate, inner, refusal->status, refusal->text);
}

/* A right token in the query becomes a cookie, so that the page's own requests have it, too. */
static void keep_token(const struct server_gate *gate, struct evhttp_request *inner)
{
    char given[COOKIE_BYTES], cookie[COOKIE_BYTES + 128];
    if (!token_from_query(evhttp_request_get_evhttp_uri(inner), given, sizeof given) ||
        !is_right(gate, given))
        return;
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", gate->cookie,
             given);
    evhttp_add_header(evhttp_request_get_output_headers(inner), "Set-Cookie", cookie);
}

bool server_admit(const struct server_gate *gate, struct evhttp_request *inner)
{
    struct server_refusal refusal;
    enum server_entry entry =
        server_judge(gate, evhttp_request_get_command(inner), evhttp_request_get_evhttp_uri(inner),
                     evhttp_request_get_input_headers(inner), &refusal);
    if (entry == ENTRY_REFUSED)
        server_refuse(gate, inner, &refusal);
    else if (entry == ENTRY_ADMITTED && (gate->token[0] || gate->admits))
        keep_token(gate, inner);
    return entry != ENTRY_REFUSED;
}
