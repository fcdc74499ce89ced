#include "launch/errand.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "launch/dial.h"
#include "launch/link.h"
#include "launch/loop.h"

/* For one address of the host; a name may have several. */
static const double dial_seconds = 10;

struct trip {
    const struct errand *errand;
    struct loop *loop;
    struct dial *dial;
    struct link *link;
    const char *line; /* NULL: only a question */
    errand_output *output;
    void *context;
    bool done, answered; /* over; the agent said something */
    int status;
    char *json;
    struct error failure;
};

static void fail(struct trip *trip, const struct error *why)
{
    trip->failure = *why;
    trip->done = true;
}

static void on_opened(void *context, struct link *link)
{
    struct trip *trip = context;
    struct hello hello = {.role = trip->line ? HELLO_RUNS : HELLO_ASKS, .index = -1};
    if (trip->errand->ticket)
        snprintf(hello.ticket, sizeof hello.ticket, "%s", trip->errand->ticket);
    link_send_hello(link, &hello);
    if (!trip->line)
        return;
    message_text(link_begin(link, MESSAGE_RUN), trip->line);
    link_send(link);
}

static void hear_output(struct trip *trip, struct message *message)
{
    int64_t stream;
    const void *bytes;
    size_t count;
    if (message_next_number(message, &stream) && message_next_bytes(message, &bytes, &count))
        trip->output(trip->context, (int)stream, bytes, count);
}

static void hear_group(struct trip *trip, struct message *message)
{
    trip->json = memory_allocate(MESSAGE_MOST_BYTES);
    if (trip->json && message_next_text(message, trip->json, MESSAGE_MOST_BYTES))
        trip->done = true;
}

static void on_heard(void *context, struct link *link, struct message *message)
{
    struct trip *trip = context;
    int64_t status = 1;
    char why[400] = "";
    struct error err = {0};
    (void)link;
    trip->answered = true;
    if (message->kind == MESSAGE_OUTPUT && trip->output)
        hear_output(trip, message);
    else if (message->kind == MESSAGE_GROUP && !trip->line)
        hear_group(trip, message);
    else if (message->kind == MESSAGE_EXIT && message_next_number(message, &status)) {
        trip->status = (int)status;
        trip->done = true;
    } else if (message->kind == MESSAGE_REFUSED && message_next_text(message, why, sizeof why)) {
        error_set(&err, ERROR_PEER, "refused: %s", why);
        fail(trip, &err);
    }
}

static void on_ended(void *context, struct link *link, const struct error *why)
{
    struct trip *trip = context;
    (void)link;
    fail(trip, why);
}

static void on_dialed(void *context, int socket, const struct error *why)
{
    struct trip *trip = context;
    struct link_owner owner = {
        .opened = on_opened, .heard = on_heard, .ended = on_ended, .context = trip};
    struct error err = {0};
    trip->dial = NULL;
    trip->failure = *why;
    if (socket >= 0 && link_create(trip->loop, socket, trip->errand->key, CHANNEL_ASKS, &owner,
                                   &trip->link, &err) < 0)
        fail(trip, &err);
}

static int travel(struct trip *trip, struct error *err)
{
    const struct errand *errand = trip->errand;
    double until = clock_seconds() + errand->patience, next = 0;
    trip->loop = loop_create();
    if (!trip->loop)
        return error_set(err, ERROR_MEMORY, "no memory for a connection");
    while (!trip->done) {
        double now = clock_seconds();
        if (!trip->link && !trip->dial && now >= next) {
            trip->dial =
                dial_start(trip->loop, errand->host, errand->port, dial_seconds, on_dialed, trip);
            next = now + 0.25;
        }
        if (now > until && !trip->answered && !trip->line)
            trip->done = true;
        if (now > until && !trip->link)
            trip->done = true;
        loop_turn(trip->loop, 0.1);
    }
    dial_cancel(trip->dial);
    link_destroy(trip->link);
    loop_destroy(trip->loop);
    if (!trip->failure.code && !trip->json && !trip->answered)
        error_set(&trip->failure, ERROR_PEER, "no answer in %.0f s", errand->patience);
    if (!trip->failure.code)
        return 0;
    return error_set(err, trip->failure.code, "agent on %s:%d: %s", errand->host, errand->port,
                     trip->failure.message);
}

int errand_run(const struct errand *errand, const char *line, errand_output *output, void *context,
               struct error *err)
{
    struct trip trip = {.errand = errand, .line = line, .output = output, .context = context};
    return travel(&trip, err) < 0 ? -1 : trip.status;
}

int errand_ask(const struct errand *errand, char **json, struct error *err)
{
    struct trip trip = {.errand = errand};
    int status = travel(&trip, err);
    if (status == 0 && trip.json)
        *json = trip.json;
    else
        memory_free(trip.json);
    return status;
}
