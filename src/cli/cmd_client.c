#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/strbuf.h"
#include "cli/client_data.h"
#include "cli/client_link.h"
#include "cli/client_load.h"
#include "cli/client_report.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"

enum { TOKEN_LIMIT = 8192, MOST_CONNECTIONS = 1024, MOST_STREAMS = 1024 };

struct client_settings {
    const char *server, *data, *model, *signature, *output, *protocol;
    int batch, connections, streams;
    int64_t iterations, warm_up, version;
    double rate, duration, deadline;
    bool health, tls, plot;
    const char *ca_file, *certificate_file, *key_file, *server_name, *token_file;
    const char *json, *html;
};

static const char *const protocols[] = {"grpc", "rest", NULL};

static const struct option options[] = {
    OPTION_SECTION("Server"),
    OPTION_TEXT(client_settings, server, "server", .letter = 's', .value = "HOST:PORT",
                .initial = "localhost:8500", .help = "where the model is served"),
    OPTION_CHOICE(client_settings, protocol, "protocol", .choices = protocols, .initial = "grpc",
                  .help = "how it is asked"),
    OPTION_TEXT(client_settings, model, "model", .value = "NAME", .aliases = "model-name",
                .environment = "MODEL_NAME",
                .initial_note = "wide-deep-large-ds-fp32-training for rows",
                .help = "as the server calls it"),
    OPTION_TEXT(client_settings, signature, "signature", .value = "NAME",
                .aliases = "signature-name", .initial_note = "predict for rows, serving_default",
                .help = "of the model"),
    OPTION_LONG(client_settings, version, "model-version", OPTION_AT_LEAST(0), .initial = "0",
                .initial_note = "the newest", .help = "that is asked"),
    OPTION_TEXT(client_settings, output, "output", .value = "NAME", .initial = "probabilities",
                .help = "with a score for each class"),
    OPTION_SECTION("Data"),
    OPTION_TEXT(client_settings, data, "data", .letter = 'd', .value = "FILE",
                .aliases = "data-file data-location",
                .help = "a file of rows clicked,I1..I13,C1..C26, or pictures: KIND or KIND:DIR "
                        "(see `lockstep datasets`)"),
    OPTION_INT(client_settings, batch, "batch-size", .letter = 'b', .min = 1, .max = 65536,
               .initial = "1", .help = "examples in a request"),
    OPTION_FLAG(client_settings, health, "health",
                .help = "ask no model but grpc.health.v1, which costs what a call costs at least; "
                        "needs no data"),
    OPTION_SECTION("Load"),
    OPTION_LONG(client_settings, iterations, "num-iteration", .letter = 'n', OPTION_AT_LEAST(1),
                .initial = "40", .aliases = "num-iterations iterations requests",
                .help = "requests, the warm-up among them"),
    OPTION_LONG(client_settings, warm_up, "warm-up-iteration", .letter = 'w', OPTION_AT_LEAST(0),
                .initial = "10", .aliases = "warm-up-iterations warm-up",
                .help = "first requests that are not measured"),
    OPTION_INT(client_settings, connections, "concurrency", .min = 1, .max = MOST_CONNECTIONS,
               .aliases = "connections", .initial_note = "1; with --rate 64",
               .help = "connections, each with --streams requests at a time"),
    OPTION_INT(client_settings, streams, "streams", .min = 1, .max = MOST_STREAMS, .initial = "1",
               .help = "requests at a time on each connection; more than one only for grpc"),
    OPTION_NUMBER(client_settings, rate, "rate", OPTION_AT_LEAST(0), .initial = "0",
                  .initial_note = "as fast as answers come",
                  .help = "requests a second over all connections, sent when it is their time; "
                          "their latency counts from then"),
    OPTION_SECONDS(client_settings, duration, "duration", OPTION_AT_LEAST(0), .initial = "0",
                   .initial_note = "--num-iteration requests", .help = "of the load"),
    OPTION_SECONDS(client_settings, deadline, "deadline", OPTION_AT_LEAST(0), .initial = "10",
                   .aliases = "timeout", .help = "of a request; 0: none"),
    OPTION_SECTION("Security"),
    OPTION_FLAG(client_settings, tls, "tls", .help = "the server has a certificate"),
    OPTION_TEXT(client_settings, ca_file, "ca-file", .value = "FILE",
                .initial_note = "the system's", .help = "PEM: who signed it"),
    OPTION_TEXT(client_settings, certificate_file, "certificate-file", .value = "FILE",
                .help = "PEM: our own, for a server that asks for it; for rest with its key"),
    OPTION_TEXT(client_settings, key_file, "key-file", .value = "FILE",
                .help = "PEM: its key, for grpc"),
    OPTION_TEXT(client_settings, server_name, "server-name", .value = "NAME",
                .initial_note = "the host", .help = "that the certificate has, for grpc"),
    OPTION_TEXT(client_settings, token_file, "token-file", .value = "FILE",
                .help = "a bearer token on its first line"),
    OPTION_SECTION("Results"),
    OPTION_FLAG(client_settings, plot, "plot", .help = "draw the latencies"),
    OPTION_TEXT(client_settings, html, "html", .value = "FILE",
                .help = "write a page with the latencies and rates"),
    OPTION_TEXT(client_settings, json, "json", .value = "FILE",
                .help = "write the results as one JSON object; - is standard output, where "
                        "nothing else is printed then"),
    OPTION_END};

struct job {
    struct client_settings *settings;
    struct client_link_settings link;
    struct arena *arena, *round; /* of the whole, of one request */
    char *token;
    struct client_data *data;
    const atomic_int *stop;
    struct load_result *result;
    FILE *out; /* NULL: the JSON goes to standard output */
};

static void release(struct job *job)
{
    client_data_close(job->data);
    arena_destroy(job->arena);
    arena_destroy(job->round);
    memory_free(job->token);
    memory_free(job->result);
}

/* ---- before the first request --------------------------------------------------------------- */

static int read_token(struct job *job, struct error *err)
{
    size_t bytes;
    if (!job->settings->token_file)
        return 0;
    if (file_read(job->settings->token_file, TOKEN_LIMIT, &job->token, &bytes, err) < 0)
        return -1;
    job->token[strcspn(job->token, "\r\n")] = '\0';
    return 0;
}

static int check(const struct options *parsed, struct client_settings *settings, struct error *err)
{
    if (settings->health && (settings->data || strcmp(settings->protocol, "grpc") != 0))
        return error_set(err, ERROR_USAGE,
                         "--health is a question by grpc that takes no data; leave %s out",
                         settings->data ? "--data" : "--protocol");
    if (!settings->data && !settings->health)
        return error_set(err, ERROR_USAGE, "which data? Give --data=FILE");
    bool rows = settings->health || client_data_is_rows(settings->data);
    if (!settings->model && !rows)
        return error_set(err, ERROR_USAGE, "which model? Give --model=NAME");
    if (!settings->model)
        settings->model = "wide-deep-large-ds-fp32-training";
    if (!settings->signature)
        settings->signature = rows ? "predict" : "serving_default";
    if (strcmp(settings->protocol, "rest") == 0 && (settings->key_file || settings->server_name))
        return error_set(err, ERROR_USAGE,
                         "--%s is for grpc; for rest the key stands in the certificate's file and "
                         "the host's name must fit the certificate",
                         settings->key_file ? "key-file" : "server-name");
    if (settings->streams > 1 && strcmp(settings->protocol, "grpc") != 0)
        return error_set(err, ERROR_USAGE, "--streams=%d is for grpc; leave --protocol out",
                         settings->streams);
    bool timed = settings->duration > 0;
    if (!timed && settings->warm_up >= settings->iterations)
        return error_set(err, ERROR_USAGE,
                         "--warm-up-iteration=%" PRId64 " of --num-iteration=%" PRId64
                         " leaves nothing to measure",
                         settings->warm_up, settings->iterations);
    if (timed && options_source(parsed, "num-iteration") == OPTION_FROM_ARGUMENTS)
        return error_set(err, ERROR_USAGE, "give --duration or --num-iteration, not both");
    return 0;
}

static void make_link(struct job *job)
{
    const struct client_settings *settings = job->settings;
    job->link = (struct client_link_settings){
        .rest = strcmp(settings->protocol, "rest") == 0,
        .health = settings->health,
        .streams = settings->streams,
        .server = settings->server,
        .model = settings->model,
        .signature = settings->signature,
        .version = settings->version,
        .seconds = settings->deadline,
        .tls = settings->tls || settings->ca_file || settings->certificate_file,
        .ca_file = settings->ca_file,
        .certificate_file = settings->certificate_file,
        .key_file = settings->key_file,
        .server_name = settings->server_name,
        .token = job->token,
    };
}

static int open_data(struct job *job, struct error *err)
{
    const struct client_settings *settings = job->settings;
    struct client_form form = {0};
    if (settings->health)
        return 0;
    if (!client_data_is_rows(settings->data)) {
        struct client_link *link;
        if (client_link_open(&job->link, &link, err) < 0)
            return -1;
        int status = client_link_ask_form(link, settings->output, job->arena, &form, err);
        client_link_close(link);
        if (status < 0)
            return -1;
    }
    return client_data_open(settings->data, &form, job->stop, &job->data, err);
}

/* ---- one after the other, as the original ---------------------------------------------------- */

static void print_header(const struct job *job)
{
    const struct client_settings *settings = job->settings;
    if (job->out)
        fprintf(job->out,
                "\n SERVER_URL: %s \n DATA_FILE: %s\n\nStarting %s benchmarking for Latency with "
                "batch_size=%d, num_iteration=%" PRId64 ", warm_up_iteration=%" PRId64 "\n",
                settings->server, settings->data, settings->model, settings->batch,
                settings->iterations, settings->warm_up);
}

static int ask_once(struct job *job, struct client_link *link, int64_t index, double *seconds,
                    int *correct, struct error *err)
{
    const struct client_settings *settings = job->settings;
    struct client_batch batch;
    struct client_answer answer;
    struct tensor scores;
    arena_reset(job->round);
    if (client_data_batch(job->data, index * settings->batch, settings->batch, job->round, &batch,
                          err) < 0 ||
        client_link_prepare(link, &batch, err) < 0)
        return -1;
    double start = clock_seconds();
    if (client_link_send(link, index == 0, &answer, err) < 0)
        return -1;
    *seconds = clock_seconds() - start;
    if (answer.status != SERVE_OK)
        return error_set(
            err, ERROR_PEER, "%s: request %" PRId64 ": %s: %s%s", settings->server, index + 1,
            serve_status_name(answer.status), answer.message,
            index == 0 && answer.status == SERVE_DEADLINE ? "; does the server listen there?" : "");
    if (client_link_scores(link, settings->output, job->round, &scores, err) < 0)
        return error_wrap(err, "%s: request %" PRId64, settings->server, index + 1);
    *correct = load_count_correct(&scores, batch.labels, settings->batch);
    return 0;
}

static void note_once(struct job *job, int64_t index, double seconds, int correct)
{
    const struct client_settings *settings = job->settings;
    struct load_result *result = job->result;
    if (job->out)
        fprintf(job->out, "Iteration %" PRId64 ": %.3f sec (accuracy: %.2f%%)\n", index + 1,
                seconds, 100.0 * correct / settings->batch);
    if (index < settings->warm_up)
        return;
    latency_add(&result->latency, seconds);
    result->answered++;
    result->statuses[SERVE_OK]++;
    result->examples += settings->batch;
    result->correct += correct;
    result->seconds += seconds;
}

static int ask_one_by_one(struct job *job, struct error *err)
{
    struct client_link *link;
    int status = 0, correct;
    double seconds;
    if (client_link_open(&job->link, &link, err) < 0)
        return -1;
    print_header(job);
    for (int64_t i = 0; status == 0 && i < job->settings->iterations && !stop_wanted(job->stop);
         i++) {
        status = ask_once(job, link, i, &seconds, &correct, err);
        if (status == 0)
            note_once(job, i, seconds, correct);
    }
    client_link_close(link);
    return status;
}

static void print_average(const struct job *job)
{
    const struct latency *latency = &job->result->latency;
    int batch = job->settings->batch;
    double mean = latency_mean(latency);
    if (!job->out || latency->count == 0)
        return;
    fprintf(job->out, "Average time: %.3f sec\nBatch size = %d\n", mean, batch);
    if (batch == 1)
        fprintf(job->out, "Latency: %.3f ms\n", mean * 1000);
    fprintf(job->out, "Throughput: %.3f examples/sec\n", batch / mean);
}

/* ---- many at once --------------------------------------------------------------------------- */

static bool is_load(const struct client_settings *settings)
{
    return settings->connections > 0 || settings->rate > 0 || settings->duration > 0 ||
           settings->health || settings->streams > 1;
}

static int connections_of(const struct client_settings *settings)
{
    if (settings->connections > 0)
        return settings->connections;
    return settings->rate > 0 && settings->streams == 1 ? 64 : 1;
}

static int run_load(struct job *job, struct error *err)
{
    const struct client_settings *settings = job->settings;
    bool timed = settings->duration > 0;
    struct load_settings load = {
        .link = &job->link,
        .data = job->data,
        .output = settings->output,
        .batch = settings->batch,
        .connections = connections_of(settings),
        .streams = settings->streams,
        .rate = settings->rate,
        .requests = timed ? 0 : settings->iterations - settings->warm_up,
        .seconds = settings->duration,
        .warm_up = settings->warm_up,
        .stop = job->stop,
    };
    return load_run(&load, job->result, err);
}

/* ---- results -------------------------------------------------------------------------------- */

static int write_json(const struct client_report *report, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    client_report_json(report, json);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int write_results(struct job *job, struct error *err)
{
    const struct client_settings *settings = job->settings;
    struct client_report report = {.server = settings->server,
                                   .protocol = settings->protocol,
                                   .model = settings->health ? "grpc.health.v1" : settings->model,
                                   .data = settings->data ? settings->data : "none",
                                   .batch = settings->batch,
                                   .connections = connections_of(settings),
                                   .streams = settings->streams,
                                   .rate = settings->rate,
                                   .result = job->result};
    struct strbuf text;
    int status = 0;
    strbuf_init(&text);
    if (is_load(settings) || settings->plot)
        client_report_text(&report, settings->plot, &text);
    if (job->out)
        status = output_text(&text, err);
    strbuf_clear(&text);
    if (status == 0 && settings->html) {
        client_report_html(&report, &text);
        status = text.failed ? error_set(err, ERROR_MEMORY, "no memory for the page")
                             : file_write_atomic(settings->html, text.text, text.length, err);
    }
    strbuf_release(&text);
    if (status == 0 && settings->json)
        status = write_json(&report, settings->json, err);
    return status;
}

static int ask(struct job *job, struct error *err)
{
    const struct client_settings *settings = job->settings;
    if ((is_load(settings) ? run_load : ask_one_by_one)(job, err) < 0)
        return -1;
    if (!is_load(settings))
        print_average(job);
    if (write_results(job, err) < 0)
        return -1;
    if (signals_status())
        return signals_status();
    if (job->result->answered == 0)
        return error_set(err, ERROR_PEER, "no request was answered: %s", job->result->failure);
    return job->result->failed > 0 ? STATUS_FAILED : STATUS_DONE;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    struct job job = {.settings = settings, .stop = signals_catch()};
    const char *json = job.settings->json;
    int status = -1;
    job.out = json && strcmp(json, "-") == 0 ? NULL : stdout;
    if (check(parsed, settings, err) < 0 || output_json_prepare(json, err) < 0)
        return -1;
    job.arena = arena_create();
    job.round = arena_create();
    job.result = memory_allocate(sizeof *job.result);
    if (!job.arena || !job.round || !job.result)
        status = error_set(err, ERROR_MEMORY, "no memory for the client");
    else if (read_token(&job, err) == 0) {
        make_link(&job);
        if (open_data(&job, err) == 0)
            status = ask(&job, err);
    }
    release(&job);
    return status;
}

const struct command command_client = {
    .name = "client",
    .order = 55,
    .summary = "send data to a served model: accuracy, latency, throughput",
    .description =
        "Asks a model that `lockstep serve` or TensorFlow Serving serves, request by request, and "
        "prints for each how long it took and how much of it was right, then the average, as the "
        "Wide & Deep client of the Model Zoo does. Behind the last example the first follows.\n\n"
        "With --concurrency, --rate or --duration it makes a load instead: as fast as answers come "
        "over several connections, or at a fixed rate whatever the server does, and tells the "
        "distribution of the latencies. Requests that fail are counted and make the exit status 1.",
    .examples = "# as the original client\n"
                "lockstep client -s localhost:8500 -d eval.csv -b 32 -n 100 -w 10\n"
                "# how the latency is at 500 requests a second\n"
                "lockstep client -d eval.csv --rate 500 --duration 30s --plot --html load.html\n"
                "# drawn digits to a model by REST\n"
                "lockstep client -s localhost:8501 --protocol rest --model mnist --data digits\n",
    .options = options,
    .settings_size = sizeof(struct client_settings),
    .run = run,
};
