#include "watch/dashboard.h"

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "net/server.h"
#include "net/token.h"
#include "watch/page.h"
#include "watch/record.h"

static const double DELTAS_EVERY_SECONDS = 0.2;
enum { NICENESS = 10 }; /* training first */

struct dashboard {
    struct record *record;
    struct page_file files[PAGE_FILES];
    struct server *page, *metrics; /* metrics: only where they have a server of their own */
    struct server_stream *stream;
    struct record_cursor cursor; /* the page server's thread's */
    char page_url[256], metrics_url[256];
};

/* --- what is served -------------------------------------------------------------------------- */

/* Nothing from elsewhere, nothing inline, in nobody's frame. */
static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

static void serve_file(void *context, struct server_request *request)
{
    const struct page_file *file = context;
    server_reply_header(request, "Content-Security-Policy", POLICY);
    server_reply(request, 200, file->type, file->bytes, file->count);
}

static void reply_made(struct server_request *request, const char *type,
                       int (*make)(struct record *record, struct strbuf *out, struct error *err),
                       struct record *record)
{
    struct strbuf text;
    struct error err = {0};
    strbuf_init(&text);
    if (make(record, &text, &err) == 0)
        server_reply(request, 200, type, text.text, text.length);
    else
        server_reply(request, 503, "text/plain; charset=utf-8", err.message, strlen(err.message));
    strbuf_release(&text);
}

static void serve_data(void *context, struct server_request *request)
{
    struct dashboard *dashboard = context;
    reply_made(request, "application/json", record_snapshot, dashboard->record);
}

static void serve_metrics(void *context, struct server_request *request)
{
    struct dashboard *dashboard = context;
    reply_made(request, "text/plain; version=0.0.4; charset=utf-8", record_exposition,
               dashboard->record);
}

static void serve_events(void *context, struct server_request *request)
{
    struct dashboard *dashboard = context;
    server_stream_join(dashboard->stream, request);
}

static void send_delta(void *context)
{
    struct dashboard *dashboard = context;
    struct strbuf text;
    struct error err;
    if (!server_stream_listeners(dashboard->stream)) {
        record_skip(dashboard->record, &dashboard->cursor);
        return;
    }
    strbuf_init(&text);
    if (record_delta(dashboard->record, &dashboard->cursor, &text, &err) == 0 && text.length)
        server_stream_send(dashboard->stream, "delta", text.text);
    strbuf_release(&text);
}

/* Metrics are asked for now and then; in between the ring must not fill up. */
static void drain(void *context)
{
    struct dashboard *dashboard = context;
    record_skip(dashboard->record, NULL);
}

/* The last thing the server does: pages know then that nobody will answer any more. */
static void say_goodbye(void *context)
{
    struct dashboard *dashboard = context;
    dashboard->cursor.told = 0; /* worth telling, whatever it is */
    send_delta(dashboard);
    server_stream_send(dashboard->stream, "end", "{}");
}

/* --- making ---------------------------------------------------------------------------------- */

static int open_page(struct dashboard *dashboard, const struct address *address, bool metrics,
                     struct error *err)
{
    char token[TOKEN_LETTERS + 1];
    struct server_settings settings = {.address = *address, .niceness = NICENESS};
    if (!address->loopback) {
        if (token_create(token, err) < 0)
            return -1;
        settings.token = token;
        settings.open_path = metrics ? "/metrics" : NULL; /* scrapers know none */
    }
    if (server_create(&settings, &dashboard->page, err) < 0)
        return error_wrap(err, "--dashboard");
    struct server *server = dashboard->page;
    page_files(dashboard->files);
    for (int i = 0; i < PAGE_FILES; i++)
        if (server_route(server, "GET", dashboard->files[i].path, serve_file, &dashboard->files[i],
                         err) < 0)
            return -1;
    if (server_route(server, "GET", "/data", serve_data, dashboard, err) < 0 ||
        server_route(server, "GET", "/events", serve_events, dashboard, err) < 0 ||
        server_route(server, "GET", "/metrics", serve_metrics, dashboard, err) < 0 ||
        server_stream_create(server, &dashboard->stream, err) < 0 ||
        server_every(server, DELTAS_EVERY_SECONDS, send_delta, dashboard, err) < 0 ||
        server_start(server, err) < 0)
        return -1;
    server_url(server, dashboard->page_url, sizeof dashboard->page_url);
    if (metrics) {
        const char *end = strchr(dashboard->page_url, '?');
        snprintf(dashboard->metrics_url, sizeof dashboard->metrics_url, "%.*smetrics",
                 end ? (int)(end - dashboard->page_url) : (int)strlen(dashboard->page_url),
                 dashboard->page_url);
    }
    return 0;
}

static int open_metrics(struct dashboard *dashboard, const struct address *address,
                        struct error *err)
{
    struct server_settings settings = {.address = *address, .niceness = NICENESS};
    if (server_create(&settings, &dashboard->metrics, err) < 0)
        return error_wrap(err, "--metrics-port");
    struct server *server = dashboard->metrics;
    if (server_route(server, "GET", "/metrics", serve_metrics, dashboard, err) < 0 ||
        server_every(server, DELTAS_EVERY_SECONDS, drain, dashboard, err) < 0 ||
        server_start(server, err) < 0)
        return -1;
    char url[192];
    snprintf(dashboard->metrics_url, sizeof dashboard->metrics_url, "%smetrics",
             server_url(server, url, sizeof url));
    return 0;
}

/* One port for both is one server: the page's has the metrics anyway. */
static bool same_place(const struct address *a, const struct address *b)
{
    return a && b && a->port && a->port == b->port && strcmp(a->host, b->host) == 0;
}

int dashboard_create(const struct dashboard_options *options, struct record *record,
                     struct dashboard **out, struct error *err)
{
    struct dashboard *dashboard = memory_allocate(sizeof *dashboard);
    if (!dashboard)
        return error_set(err, ERROR_MEMORY, "no memory for the dashboard");
    dashboard->record = record;
    bool shared = same_place(options->page, options->metrics);
    bool own_metrics = options->metrics && !shared;
    if ((options->page && open_page(dashboard, options->page, shared, err) < 0) ||
        (own_metrics && open_metrics(dashboard, options->metrics, err) < 0)) {
        dashboard_destroy(dashboard);
        return -1;
    }
    *out = dashboard;
    return 0;
}

void dashboard_destroy(struct dashboard *dashboard)
{
    if (!dashboard)
        return;
    if (dashboard->page && dashboard->stream && dashboard->page_url[0])
        server_post(dashboard->page, say_goodbye, dashboard, NULL);
    server_destroy(dashboard->page);
    server_destroy(dashboard->metrics);
    memory_free(dashboard);
}

const char *dashboard_page_url(const struct dashboard *dashboard)
{
    return dashboard->page_url[0] ? dashboard->page_url : NULL;
}

const char *dashboard_metrics_url(const struct dashboard *dashboard)
{
    return dashboard->metrics_url[0] ? dashboard->metrics_url : NULL;
}

/* --- saving ---------------------------------------------------------------------------------- */

/* Inside a <script> a "<" could end it or begin a comment; as an escape it is the same JSON. */
static void add_json(struct strbuf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            strbuf_add(out, "\\u003c");
        else
            strbuf_add_char(out, *text);
    }
}

/* Up to `mark`, which then is skipped; nothing when it is not there. */
static const char *add_until(struct strbuf *out, const char *from, const char *mark)
{
    const char *at = strstr(from, mark);
    if (!at)
        return from;
    strbuf_add_bytes(out, from, (size_t)(at - from));
    return at + strlen(mark);
}

/* The file has no server to get its parts from, so they stand in it: the style where the page
 * refers to it, the scripts at the end, behind the data that they look for. */
static void make_file(struct strbuf *out, const char *data)
{
    struct page_file files[PAGE_FILES];
    page_files(files);
    const char *at =
        add_until(out, files[0].bytes, "<link rel=\"stylesheet\" href=\"dashboard.css\">");
    strbuf_add(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
                    "<style>\n");
    strbuf_add_bytes(out, files[1].bytes, files[1].count);
    strbuf_add(out, "</style>\n");
    struct strbuf dropped;
    strbuf_init(&dropped);
    at = add_until(&dropped, at, "<script src=\"dashboard.js\" defer></script>\n");
    strbuf_release(&dropped);
    at = add_until(out, at, "</body>");
    strbuf_add(out, "<script type=\"application/json\" id=\"data\">");
    add_json(out, data);
    strbuf_add(out, "</script>\n");
    for (int i = 2; i < PAGE_FILES; i++) {
        strbuf_add(out, "<script>\n");
        strbuf_add_bytes(out, files[i].bytes, files[i].count);
        strbuf_add(out, "</script>\n");
    }
    strbuf_add(out, "</body>");
    strbuf_add(out, at);
}

int dashboard_save(struct record *record, const char *path, struct error *err)
{
    struct strbuf data, file;
    strbuf_init(&data);
    strbuf_init(&file);
    int status = record_snapshot(record, &data, err);
    if (status == 0)
        make_file(&file, data.text);
    if (status == 0 && file.failed)
        status = error_set(err, ERROR_MEMORY, "no memory for %s", path);
    if (status == 0)
        status = file_write_atomic(path, file.text, file.length, err);
    strbuf_release(&data);
    strbuf_release(&file);
    return status;
}
