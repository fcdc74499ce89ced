#include "net/server_head.h"

#include <ctype.h>
#include <errno.h>

#include "base/memory.h"

size_t server_head_length(const char *text, size_t bytes, size_t seen)
{
    size_t from = seen > 3 ? seen - 3 : 0; /* the end may have begun there */
    for (const char *at = text + from, *end = text + bytes;
         (at = memchr(at, '\n', (size_t)(end - at)));) {
        at++;
        size_t left = (size_t)(end - at);
        if (left >= 1 && at[0] == '\n')
            return bytes - left + 1;
        if (left >= 2 && at[0] == '\r' && at[1] == '\n')
            return bytes - left + 2;
    }
    return 0;
}

/* The next line, terminated in place, as evhttp cuts them; NULL behind the last. */
static char *take_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *rest = end + 1;
    if (end > line && end[-1] == '\r')
        end--;
    *end = '\0';
    return *line ? line : NULL;
}

static enum evhttp_cmd_type method_of(const char *name)
{
    static const struct {
        const char *name;
        enum evhttp_cmd_type method;
    } known[] = {
        {"GET", EVHTTP_REQ_GET},         {"HEAD", EVHTTP_REQ_HEAD},
        {"POST", EVHTTP_REQ_POST},       {"OPTIONS", EVHTTP_REQ_OPTIONS},
        {"PUT", EVHTTP_REQ_PUT},         {"DELETE", EVHTTP_REQ_DELETE},
        {"PATCH", EVHTTP_REQ_PATCH},     {"TRACE", EVHTTP_REQ_TRACE},
        {"CONNECT", EVHTTP_REQ_CONNECT},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].method;
    return 0;
}

static const char *read_first_line(struct server_head *head, char *line)
{
    char *target = line ? strchr(line, ' ') : NULL;
    char *version = target ? strrchr(line, ' ') : NULL;
    if (!target || version == target || target == line ||
        strncmp(version + 1, "HTTP/1.", strlen("HTTP/1.")) != 0)
        return "the first line is not METHOD TARGET HTTP/1.1";
    *target++ = '\0';
    *version = '\0';
    head->method = method_of(line);
    head->uri = evhttp_uri_parse_with_flags(target, EVHTTP_URI_NONCONFORMANT);
    return head->uri || head->method == EVHTTP_REQ_CONNECT ? NULL : "the target cannot be read";
}

static const char *read_length(struct server_head *head, const char *value, bool seen)
{
    char *end;
    errno = 0;
    uint64_t bytes = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno || bytes > INT64_MAX)
        return "Content-Length is no number";
    if (seen && bytes != head->body_bytes)
        return "there are two Content-Length, and they differ";
    head->body_bytes = bytes;
    return NULL;
}

/* How the body ends must mean the same to everybody who reads it. */
static const char *read_framing(struct server_head *head)
{
    bool measured = false;
    const char *wrong = NULL;
    const struct evkeyval *header;
    for (header = head->headers.tqh_first; header && !wrong; header = header->next.tqe_next) {
        if (strcasecmp(header->key, "Content-Length") == 0) {
            wrong = read_length(head, header->value, measured);
            measured = true;
        } else if (strcasecmp(header->key, "Transfer-Encoding") == 0) {
            if (head->chunked || strcasecmp(header->value, "chunked") != 0)
                wrong = "of transfer encodings only \"chunked\" is understood";
            head->chunked = true;
        }
    }
    if (!wrong && measured && head->chunked)
        return "a body is either chunked or has a Content-Length";
    if (!wrong && head->method == EVHTTP_REQ_HEAD && (head->chunked || head->body_bytes))
        return "HEAD has no body";
    return wrong;
}

static bool is_name(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!isgraph((unsigned char)*at))
            return false;
    return *name;
}

static const char *read_headers(struct server_head *head, char *rest)
{
    for (char *line; (line = take_line(&rest));) {
        char *colon = strchr(line, ':');
        if (!colon)
            return "a header has no colon";
        *colon = '\0';
        if (!is_name(line))
            return "a header's name is empty or has a blank in it";
        char *value = colon + 1 + strspn(colon + 1, " \t");
        for (char *end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
            *--end = '\0';
        if (evhttp_add_header(&head->headers, line, value) < 0)
            return "a header cannot be read";
    }
    return read_framing(head);
}

int server_head_read(const char *text, size_t bytes, struct server_head *out, const char **reason)
{
    *out = (struct server_head){.text = memory_allocate(bytes + 1)};
    out->headers.tqh_last = &out->headers.tqh_first;
    *reason = "no memory";
    if (!out->text)
        return 503;
    memcpy(out->text, text, bytes);
    out->text[bytes] = '\0';
    *reason = memchr(text, '\0', bytes) ? "there is a NUL in it" : NULL;
    char *rest = out->text;
    if (!*reason)
        *reason = read_first_line(out, take_line(&rest));
    if (!*reason)
        *reason = read_headers(out, rest);
    return *reason ? 400 : 0;
}

void server_head_release(struct server_head *head)
{
    evhttp_clear_headers(&head->headers);
    if (head->uri)
        evhttp_uri_free(head->uri);
    memory_free(head->text);
}
