/* The status page: the files of web/, what it shows as one JSON object, and the same again and again
 * as events. */
#include "base/arena.h"
#include "base/embed.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "net/server.h"
#include "serve/batcher.h"
#include "serve/core.h"
#include "serve/rest_internal.h"

static const double EVERY_SECONDS = 0.5;

EMBED(serve_page_html, "web/serve.html");
EMBED(serve_page_base_style, "web/dashboard.css");
EMBED(serve_page_style, "web/serve.css");
EMBED(serve_page_text, "web/text.js");
EMBED(serve_page_script, "web/serve.js");

/* Nothing from elsewhere, nothing inline, in nobody's frame. */
static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

static const char CSS[] = "text/css; charset=utf-8";
static const char JAVASCRIPT[] = "text/javascript; charset=utf-8";

static const struct page_file {
    const char *path, *type, *bytes, *end;
} files[] = {
    {"/", "text/html; charset=utf-8", serve_page_html, serve_page_html_end},
    {"/dashboard.css", CSS, serve_page_base_style, serve_page_base_style_end},
    {"/serve.css", CSS, serve_page_style, serve_page_style_end},
    {"/text.js", JAVASCRIPT, serve_page_text, serve_page_text_end},
    {"/serve.js", JAVASCRIPT, serve_page_script, serve_page_script_end},
};

static void on_file(void *context, struct server_request *request)
{
    const struct page_file *file = context;
    server_reply_header(request, "Content-Security-Policy", POLICY);
    server_reply(request, 200, file->type, file->bytes, (size_t)(file->end - file->bytes));
}

/* --- what it shows --------------------------------------------------------------------------- */

static struct json *describe_version(const struct version_status *version)
{
    struct json *out = json_object_create();
    json_set_integer(out, "version", version->version);
    json_set_text(out, "state", version_state_name(version->state));
    json_set_text(out, "message", version->message);
    json_set_text(out, "labels", version->labels);
    json_set_number(out, "loaded_seconds", version->loaded_seconds);
    return out;
}

static struct json *describe_model(const struct model_status *model)
{
    struct json *out = json_object_create(), *versions = json_array_create();
    json_set_text(out, "name", model->name);
    json_set_text(out, "base_path", model->base_path);
    for (int i = 0; i < model->count; i++)
        json_append(versions, describe_version(&model->versions[i]));
    json_set(out, "versions", versions);
    return out;
}

/* NULL when memory is short; the caller's to free. */
static char *make_data(struct rest_door *door)
{
    struct json *out = json_object_create(), *models = json_array_create();
    struct arena *arena = arena_create();
    struct model_status *status;
    int count = arena ? repository_status(core_repository(door->core), arena, &status) : -1;
    for (int i = 0; i < count; i++)
        json_append(models, describe_model(&status[i]));
    json_set(out, "models", models);
    json_set_text(out, "version", LOCKSTEP_VERSION);
    json_set_bool(out, "ready", core_ready(door->core));
    json_set_integer(out, "pending", batcher_pending(core_batcher(door->core)));
    json_set_integer(out, "memory_bytes", (int64_t)memory_rss_bytes());
    stats_json(core_stats(door->core), out);
    char *text = count >= 0 ? json_text(out, false) : NULL;
    json_release(out);
    arena_destroy(arena);
    return text;
}

static void on_data(void *context, struct server_request *request)
{
    char *text = make_data(context);
    server_reply(request, text ? 200 : 503, "application/json", text ? text : "",
                 text ? strlen(text) : 0);
    memory_free(text);
}

static void on_events(void *context, struct server_request *request)
{
    struct rest_door *door = context;
    server_stream_join(door->stream, request);
}

static void send_events(void *context)
{
    struct rest_door *door = context;
    if (!server_stream_listeners(door->stream))
        return;
    char *text = make_data(door);
    if (text)
        server_stream_send(door->stream, "status", text);
    memory_free(text);
}

int rest_page_route(struct rest_door *door, struct error *err)
{
    struct server *server = door->server;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (server_route(server, "GET", files[i].path, on_file, (void *)&files[i], err) < 0)
            return -1;
    if (server_route(server, "GET", "/data", on_data, door, err) < 0 ||
        server_route(server, "GET", "/events", on_events, door, err) < 0 ||
        server_stream_create(server, &door->stream, err) < 0)
        return -1;
    return server_every(server, EVERY_SECONDS, send_events, door, err);
}
