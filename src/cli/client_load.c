#include "cli/client_load.h"

#include <math.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/threads.h"
#include "cli/client_data.h"

static const double FIRST_PAUSE = 0.01, LONGEST_PAUSE = 1;

/* What all connections share. */
struct load {
    const struct load_settings *settings;
    pthread_barrier_t connected;
    atomic_llong next;     /* request to be sent */
    atomic_bool abandoned; /* one connection failed for good */
    double start;          /* clock_seconds() of request 0, set before the barrier opens */
};

/* A request that is under way. */
struct flight {
    struct arena *arena;
    struct client_batch batch;
    int64_t index;
    double begun;
};

struct connection {
    struct load *load;
    pthread_t thread;
    bool running;
    struct client_link *link;
    struct flight *flights; /* one for each stream */
    struct load_result result;
    double first, last; /* of what was measured; 0: nothing */
    double pause;       /* after the last answer that nobody gave; 0: somebody did */
    double resume;      /* when the next request may be sent */
    struct error err;
    int status;
};

int load_count_correct(const struct tensor *scores, const int32_t *labels, int rows)
{
    int64_t columns = scores->shape.ndim > 1 ? scores->shape.dim[1] : 1;
    int correct = 0;
    if (scores->shape.dim[0] != rows)
        return 0;
    for (int row = 0; row < rows; row++) {
        const float *score = (const float *)scores->data + row * columns;
        int64_t best = columns == 1 ? score[0] > 0.5f : 0;
        for (int64_t i = 1; i < columns; i++)
            if (score[i] > score[best])
                best = i;
        correct += best == labels[row];
    }
    return correct;
}

/* ---- one request ---------------------------------------------------------------------------- */

static int make_request(struct connection *connection, struct flight *flight, int64_t index,
                        struct error *err)
{
    const struct load_settings *settings = connection->load->settings;
    arena_reset(flight->arena);
    flight->index = index;
    if (settings->data &&
        client_data_batch(settings->data, index * settings->batch, settings->batch, flight->arena,
                          &flight->batch, err) < 0)
        return -1;
    return client_link_prepare(connection->link, &flight->batch, err);
}

static int count_scores(struct connection *connection, const struct flight *flight,
                        struct error *err)
{
    const struct load_settings *settings = connection->load->settings;
    struct tensor scores;
    if (!settings->data)
        return 0;
    if (client_link_scores(connection->link, settings->output, flight->arena, &scores, err) < 0)
        return -1;
    connection->result.examples += settings->batch;
    connection->result.correct +=
        load_count_correct(&scores, flight->batch.labels, settings->batch);
    return 0;
}

/* A server that has gone is asked again, but not as fast as a refusal comes back. Requests that are
 * due at a rate are sent at that rate. */
static void pace(struct connection *connection, const struct client_answer *answer)
{
    if (connection->load->settings->rate > 0 || answer->status != SERVE_UNAVAILABLE) {
        connection->pause = 0;
        return;
    }
    if (answer->ended < connection->resume) /* sent together with the one before */
        return;
    connection->pause =
        connection->pause > 0 ? fmin(2 * connection->pause, LONGEST_PAUSE) : FIRST_PAUSE;
    connection->resume = answer->ended + connection->pause;
}

static int note(struct connection *connection, const struct flight *flight,
                const struct client_answer *answer, struct error *err)
{
    struct load_result *result = &connection->result;
    double ended = answer->ended;
    int status = (int)answer->status;
    pace(connection, answer);
    if (flight->index < connection->load->settings->warm_up)
        return 0;
    result->statuses[status >= 0 && status < LOAD_STATUSES ? status : SERVE_UNKNOWN]++;
    if (connection->first == 0 || flight->begun < connection->first)
        connection->first = flight->begun;
    connection->last = ended;
    if (answer->status != SERVE_OK) {
        if (result->failed++ == 0)
            snprintf(result->failure, sizeof result->failure, "%s: %s",
                     serve_status_name(answer->status), answer->message);
        return 0;
    }
    result->answered++;
    latency_add(&result->latency, ended - flight->begun);
    double second = ended - connection->load->start;
    if (second >= 0 && second < LOAD_SECONDS)
        result->per_second[(int)second]++;
    return count_scores(connection, flight, err);
}

/* ---- one connection ------------------------------------------------------------------------- */

/* Whether request `index` is still to be sent, and when: *begun. */
static bool wait_for_turn(struct connection *connection, int64_t index, double *begun)
{
    struct load *load = connection->load;
    const struct load_settings *settings = load->settings;
    double now = clock_seconds();
    *begun = settings->rate > 0 ? load->start + (double)index / settings->rate
                                : fmax(now, connection->resume);
    if (settings->seconds > 0 && *begun >= load->start + settings->seconds)
        return false;
    if (*begun > now && stop_wait(settings->stop, *begun - now, NULL) < 0)
        return false;
    return !stop_wanted(settings->stop) && !atomic_load(&load->abandoned);
}

static int64_t take_index(struct load *load)
{
    const struct load_settings *settings = load->settings;
    int64_t index = atomic_fetch_add(&load->next, 1);
    return settings->requests > 0 && index >= settings->requests + settings->warm_up ? -1 : index;
}

static int send_all(struct connection *connection, struct error *err)
{
    struct load *load = connection->load;
    struct flight *flight = &connection->flights[0];
    struct client_answer answer;
    int64_t index;
    while ((index = take_index(load)) >= 0) {
        if (make_request(connection, flight, index, err) < 0)
            return -1;
        if (!wait_for_turn(connection, index, &flight->begun))
            break;
        if (client_link_send(connection->link, false, &answer, err) < 0 ||
            note(connection, flight, &answer, err) < 0)
            return -1;
    }
    return 0;
}

/* A connection with several requests under way. */
struct streams {
    struct connection *connection;
    int *idle, idle_count; /* places without a request */
    int under_way;
    int64_t next; /* request to be sent; < 0: none any more */
    double due;
};

/* Which request is next, and when. */
static void look_ahead(struct streams *streams)
{
    struct load *load = streams->connection->load;
    const struct load_settings *settings = load->settings;
    streams->next = take_index(load);
    streams->due = settings->rate > 0 ? load->start + (double)streams->next / settings->rate : 0;
    double begun = settings->rate > 0 ? streams->due : clock_seconds();
    if (settings->seconds > 0 && begun >= load->start + settings->seconds)
        streams->next = -1;
}

static int begin_next(struct streams *streams, struct error *err)
{
    struct connection *connection = streams->connection;
    int place = streams->idle[--streams->idle_count];
    struct flight *flight = &connection->flights[place];
    if (make_request(connection, flight, streams->next, err) < 0)
        return -1;
    flight->begun = streams->due > 0 ? streams->due : clock_seconds();
    if (client_link_begin(connection->link, place, err) < 0)
        return -1;
    streams->under_way++;
    look_ahead(streams);
    return 0;
}

/* Waits for an answer, but not beyond `left` seconds from now, when the next request is due (< 0: as
 * long as it takes), and never so long that who wants it to stop would notice. */
static int take_next(struct streams *streams, double left, struct error *err)
{
    static const double longest = 0.1;
    struct client_answer answer;
    int place;
    double seconds = left < 0 || left > longest ? longest : left;
    int came = client_link_next(streams->connection->link, seconds, &place, &answer, err);
    if (came <= 0)
        return came;
    streams->under_way--;
    streams->idle[streams->idle_count++] = place;
    return note(streams->connection, &streams->connection->flights[place], &answer, err);
}

static bool is_over(const struct load *load)
{
    return stop_wanted(load->settings->stop) || atomic_load(&load->abandoned);
}

static int turn_streams(struct streams *streams, struct error *err)
{
    int status = 0;
    while (status == 0 && (streams->next >= 0 || streams->under_way > 0)) {
        if (is_over(streams->connection->load))
            streams->next = -1;
        bool more = streams->next >= 0 && streams->idle_count > 0;
        double due = fmax(streams->due, streams->connection->resume);
        double left = more ? due - clock_seconds() : -1;
        if (more && left <= 0)
            status = begin_next(streams, err);
        if (status < 0)
            break;
        /* One that is behind looks, too: answers would seem to come when it has caught up. */
        if (streams->under_way > 0 || more)
            status = take_next(streams, more && left <= 0 ? 0 : left, err);
    }
    return status;
}

static int send_streams(struct connection *connection, struct error *err)
{
    int count = connection->load->settings->streams;
    struct streams streams = {.connection = connection,
                              .idle = memory_allocate((size_t)count * sizeof *streams.idle)};
    if (!streams.idle)
        return error_set(err, ERROR_MEMORY, "no memory for %d streams", count);
    while (streams.idle_count < count) {
        streams.idle[streams.idle_count] = streams.idle_count;
        streams.idle_count++;
    }
    look_ahead(&streams);
    int status = turn_streams(&streams, err);
    for (int place; streams.under_way > 0; streams.under_way--) /* after a failure: their end */
        client_link_next(connection->link, -1, &place, &(struct client_answer){0}, NULL);
    memory_free(streams.idle);
    return status;
}

/* A connection's first request, which makes it, is not measured. */
static int connect_link(struct connection *connection, struct error *err)
{
    struct client_answer answer;
    if (client_link_open(connection->load->settings->link, &connection->link, err) < 0 ||
        make_request(connection, &connection->flights[0], 0, err) < 0 ||
        client_link_send(connection->link, true, &answer, err) < 0)
        return -1;
    return 0;
}

static void *run_connection(void *context)
{
    struct connection *connection = context;
    struct load *load = connection->load;
    thread_take_short_turns(); /* what is measured is the server's time, not the wait for a core */
    connection->status = connect_link(connection, &connection->err);
    if (connection->status < 0)
        atomic_store(&load->abandoned, true);
    if (pthread_barrier_wait(&load->connected) == PTHREAD_BARRIER_SERIAL_THREAD)
        load->start = clock_seconds();
    pthread_barrier_wait(&load->connected);
    if (connection->status == 0)
        connection->status =
            (load->settings->streams > 1 ? send_streams : send_all)(connection, &connection->err);
    if (connection->status < 0)
        atomic_store(&load->abandoned, true);
    return NULL;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void merge(struct load_result *into, const struct load_result *from)
{
    latency_merge(&into->latency, &from->latency);
    into->answered += from->answered;
    into->failed += from->failed;
    into->examples += from->examples;
    into->correct += from->correct;
    for (int i = 0; i < LOAD_STATUSES; i++)
        into->statuses[i] += from->statuses[i];
    for (int i = 0; i < LOAD_SECONDS; i++)
        into->per_second[i] += from->per_second[i];
    if (from->failure[0] && !into->failure[0])
        memcpy(into->failure, from->failure, sizeof into->failure);
}

static int collect(struct connection *connections, int count, struct load_result *out,
                   struct error *err)
{
    double first = 0, last = 0;
    for (int i = 0; i < count; i++)
        if (connections[i].status < 0) {
            *err = connections[i].err;
            return -1;
        }
    *out = (struct load_result){0};
    for (int i = 0; i < count; i++) {
        merge(out, &connections[i].result);
        if (connections[i].first != 0 && (first == 0 || connections[i].first < first))
            first = connections[i].first;
        last = fmax(last, connections[i].last);
    }
    out->seconds = last - first;
    return 0;
}

static bool make_flights(struct connection *connection, int streams)
{
    connection->flights = memory_allocate((size_t)streams * sizeof *connection->flights);
    for (int i = 0; connection->flights && i < streams; i++)
        if (!(connection->flights[i].arena = arena_create()))
            return false;
    return connection->flights;
}

static int streams_of(const struct load_settings *settings)
{
    return settings->streams > 1 ? settings->streams : 1;
}

static bool start_connections(struct load *load, struct connection *connections, int count)
{
    for (int i = 0; i < count; i++) {
        connections[i].load = load;
        if (!make_flights(&connections[i], streams_of(load->settings)))
            return false;
    }
    for (int i = 0; i < count; i++) {
        connections[i].running =
            thread_start(&connections[i].thread, run_connection, &connections[i]) == 0;
        if (!connections[i].running)
            return false;
    }
    return true;
}

static void release(struct connection *connections, int count, int streams)
{
    for (int i = 0; connections && i < count; i++) {
        client_link_close(connections[i].link);
        for (int k = 0; connections[i].flights && k < streams; k++)
            arena_destroy(connections[i].flights[k].arena);
        memory_free(connections[i].flights);
    }
    memory_free(connections);
}

int load_run(const struct load_settings *settings, struct load_result *out, struct error *err)
{
    int count = settings->connections, status = -1;
    struct load load = {.settings = settings};
    struct connection *connections = memory_allocate((size_t)count * sizeof *connections);
    if (!connections)
        return error_set(err, ERROR_MEMORY, "no memory for %d connections", count);
    pthread_barrier_init(&load.connected, NULL, (unsigned)count);
    /* Those that run wait for all at the barrier, so a thread that cannot be made ends the
     * process's work: nothing but an exit lets them go. */
    bool started = start_connections(&load, connections, count);
    if (!started)
        return error_set(err, ERROR_MEMORY, "no memory or threads for %d connections", count);
    for (int i = 0; i < count; i++)
        pthread_join(connections[i].thread, NULL);
    status = collect(connections, count, out, err);
    pthread_barrier_destroy(&load.connected);
    release(connections, count, streams_of(settings));
    return status;
}
