#include <pthread.h>

#include "base/memory.h"
#include "base/threads.h"
#include "cli/client_load_internal.h"

/* A connection with several requests under way. */
struct streams {
    struct connection *connection;
    pthread_mutex_t lock;   /* guards all below, where there are two threads */
    pthread_cond_t changed; /* a place is idle, a request is under way, or the end has come */
    int *idle, idle_count;  /* places without a request */
    int under_way;
    bool sent_all, failed;
    struct error err; /* the taker's */
};

/* ---- closed loop: one thread sends and takes ------------------------------------------------ */

static int begin_request(struct streams *streams, int64_t index, struct error *err)
{
    struct connection *connection = streams->connection;
    int place = streams->idle[streams->idle_count - 1];
    struct flight *flight = &connection->flights[place];
    if (load_make_request(connection, flight, index, err) < 0)
        return -1;
    if (!load_wait_for_turn(connection, index, &flight->begun))
        return 0;
    if (client_link_begin(connection->link, place, err) < 0)
        return -1;
    streams->idle_count--;
    streams->under_way++;
    return 1;
}

/* At most so many seconds; < 0: as long as it takes. */
static int take_answer(struct streams *streams, double seconds, struct error *err)
{
    struct connection *connection = streams->connection;
    struct client_answer answer;
    int place;
    int came = client_link_next(connection->link, seconds, &place, &answer, err);
    if (came <= 0)
        return came;
    streams->under_way--;
    streams->idle[streams->idle_count++] = place;
    return load_note(connection, &connection->flights[place], &answer, err);
}

static int turn_closed(struct streams *streams, struct error *err)
{
    bool more = true;
    int status = 0;
    while (status >= 0 && (more || streams->under_way > 0)) {
        bool begun = more && streams->idle_count > 0;
        if (begun) {
            int64_t index = load_take_index(streams->connection->load);
            status = index < 0 ? 0 : begin_request(streams, index, err);
            more = status > 0;
        }
        /* It looks between two requests, too: answers would seem to come when all were sent. */
        if (status >= 0 && streams->under_way > 0)
            status = take_answer(streams, begun ? 0 : -1, err);
    }
    for (int place; streams->under_way > 0; streams->under_way--) /* after a failure: their end */
        client_link_next(streams->connection->link, -1, &place, &(struct client_answer){0}, NULL);
    return status < 0 ? -1 : 0;
}

/* ---- open loop: one thread sends when requests are due, another takes the answers ----------- *
 * With one for both, gRPC's waiting would end up to a millisecond late, or take the server's
 * processor by looking again and again. */

/* Whether an answer will come. */
static bool wait_for_request(struct streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    while (streams->under_way == 0 && !streams->sent_all)
        pthread_cond_wait(&streams->changed, &streams->lock);
    bool more = streams->under_way > 0;
    pthread_mutex_unlock(&streams->lock);
    return more;
}

static void *take_answers(void *context)
{
    struct streams *streams = context;
    struct connection *connection = streams->connection;
    int status = 0, place;
    while (wait_for_request(streams)) {
        struct client_answer answer;
        struct error err = {0};
        int came = client_link_next(connection->link, -1, &place, &answer, &err);
        pthread_mutex_lock(&streams->lock); /* what the sender wrote of this request is seen */
        pthread_mutex_unlock(&streams->lock);
        if (came > 0 && status == 0)
            came = load_note(connection, &connection->flights[place], &answer, &err);
        pthread_mutex_lock(&streams->lock);
        if (came < 0 && status == 0) {
            streams->err = err;
            streams->failed = true;
            status = -1;
        }
        streams->under_way--;
        streams->idle[streams->idle_count++] = place;
        pthread_cond_signal(&streams->changed);
        pthread_mutex_unlock(&streams->lock);
    }
    return NULL;
}

/* < 0: nobody wants more requests. */
static int wait_for_place(struct streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    while (streams->idle_count == 0)
        pthread_cond_wait(&streams->changed, &streams->lock);
    int place = streams->failed ? -1 : streams->idle[--streams->idle_count];
    pthread_mutex_unlock(&streams->lock);
    return place;
}

static void change_under_way(struct streams *streams, int change)
{
    pthread_mutex_lock(&streams->lock);
    streams->under_way += change;
    pthread_cond_signal(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
}

static int send_requests(struct streams *streams, struct error *err)
{
    struct connection *connection = streams->connection;
    int64_t index;
    while ((index = load_take_index(connection->load)) >= 0) {
        int place = wait_for_place(streams);
        if (place < 0)
            break;
        struct flight *flight = &connection->flights[place];
        if (load_make_request(connection, flight, index, err) < 0)
            return -1;
        if (!load_wait_for_turn(connection, index, &flight->begun))
            break;
        change_under_way(streams, 1);
        if (client_link_begin(connection->link, place, err) < 0) {
            change_under_way(streams, -1);
            return -1;
        }
    }
    return 0;
}

static int turn_open(struct streams *streams, struct error *err)
{
    pthread_t taker;
    if (thread_start(&taker, take_answers, streams))
        return error_set(err, ERROR_MEMORY, "no thread to take answers with");
    int status = send_requests(streams, err);
    pthread_mutex_lock(&streams->lock);
    streams->sent_all = true;
    pthread_cond_signal(&streams->changed);
    pthread_mutex_unlock(&streams->lock);
    pthread_join(taker, NULL);
    if (status == 0 && streams->failed) {
        *err = streams->err;
        status = -1;
    }
    return status;
}

int load_send_streams(struct connection *connection, struct error *err)
{
    const struct load_settings *settings = connection->load->settings;
    int count = settings->streams;
    struct streams streams = {.connection = connection,
                              .idle = memory_allocate((size_t)count * sizeof *streams.idle)};
    if (!streams.idle)
        return error_set(err, ERROR_MEMORY, "no memory for %d streams", count);
    while (streams.idle_count < count) {
        streams.idle[streams.idle_count] = streams.idle_count;
        streams.idle_count++;
    }
    pthread_mutex_init(&streams.lock, NULL);
    pthread_cond_init(&streams.changed, NULL);
    int status = (settings->rate > 0 ? turn_open : turn_closed)(&streams, err);
    pthread_cond_destroy(&streams.changed);
    pthread_mutex_destroy(&streams.lock);
    memory_free(streams.idle);
    return status;
}
