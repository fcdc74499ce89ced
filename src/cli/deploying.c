#include "cli/deploying.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/asked.h"
#include "cli/client_load.h"
#include "cli/command.h"
#include "cli/exporting.h"
#include "cli/questions.h"
#include "cli/serving.h"
#include "convert/export.h"
#include "convert/imported.h"
#include "convert/signatures.h"
#include "serve/grpc_client.h"
#include "serve/predict_message.h"

/* Examples that are asked for, each alone and together with others. */
enum { EXAMPLES = 16, TOGETHER = 4, REPLY_LIMIT = 1 << 30 };
static const double LOAD_SECONDS_MOST = 600, ANSWER_SECONDS = 120;

struct deployed {
    const struct deploying_settings *settings;
    struct deploying_work work;
    struct arena *arena; /* of names */
    const char *name;
    struct serve_settings serve;
    struct options parsed;
    struct serving *serving;
    FILE *nowhere; /* where a server that is only asked by us tells of its doors */
    int64_t version;
    int64_t checked; /* examples; 0: it was not asked */
    int64_t judged, correct;
    const char *kind; /* of the examples */
};

int deploying_check(const struct deploying_settings *settings, const struct options *parsed,
                    const struct exporting_settings *exporting, struct error *err)
{
    static const char *const doors[] = {"serve-host", "serve-port", "serve-rest-port"};
    if (!exporting->directory &&
        (settings->serve || options_source(parsed, "check-served") == OPTION_FROM_ARGUMENTS))
        return error_set(err, ERROR_USAGE, "--%s needs an export: give --export-dir=DIR",
                         settings->serve ? "serve" : "check-served");
    for (size_t i = 0; !settings->serve && i < sizeof doors / sizeof *doors; i++)
        if (options_source(parsed, doors[i]) == OPTION_FROM_ARGUMENTS)
            return error_set(err, ERROR_USAGE, "--%s would change nothing without --serve",
                             doors[i]);
    if (settings->serve && settings->check && !strcmp(settings->port, "0"))
        return error_set(err, ERROR_USAGE,
                         "--serve-port=0: the server is asked over gRPC before it goes on; give a "
                         "port, or --no-check-served");
    return 0;
}

/* --- the server ------------------------------------------------------------------------------ */

static char *no_environment(const char *name)
{
    (void)name;
    return NULL;
}

/* As `lockstep serve` with these words, so that all else is as there. Only for the check it listens
 * where nobody else finds it, and makes no larger plans than it needs. */
static int choose_settings(struct deployed *deployed, struct error *err)
{
    const struct deploying_settings *settings = deployed->settings;
    char threads[16], rows[16];
    const char *directory = deployed->work.directory;
    char *model = arena_format(deployed->arena, "%s=%s", deployed->name, directory);
    if (!model)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    snprintf(threads, sizeof threads, "%d", deployed->work.threads);
    snprintf(rows, sizeof rows, "%d", TOGETHER);
    const char *words[] = {"--model",
                           model,
                           "--threads",
                           arena_copy_text(deployed->arena, threads),
                           "--host",
                           settings->serve ? settings->host : "127.0.0.1",
                           "--port",
                           settings->serve ? settings->port : "auto",
                           "--rest-port",
                           settings->serve ? settings->rest_port : "0",
                           "--max-num-load-retries",
                           settings->serve ? "5" : "0",
                           "--max-batch-size",
                           arena_copy_text(deployed->arena, rows)};
    int count = sizeof words / sizeof *words - (settings->serve ? 2 : 0);
    return options_parse(command_find("serve")->options, count, (char *const *)(uintptr_t)words,
                         no_environment, &deployed->serve, &deployed->parsed, err);
}

static const char *choose_name(struct deployed *deployed)
{
    const char *directory = deployed->work.directory, *given = deployed->settings->name;
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/')
        start--;
    return arena_format(deployed->arena, "%.*s", given ? INT_MAX : (int)(end - start),
                        given ? given : directory + start);
}

static int open_server(struct deployed *deployed, struct error *err)
{
    const char *slash = strrchr(deployed->work.version, '/');
    deployed->version = strtoll(slash ? slash + 1 : deployed->work.version, NULL, 10);
    deployed->name = choose_name(deployed);
    if (!deployed->name)
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    if (choose_settings(deployed, err) < 0)
        return -1;
    FILE *out = deployed->work.out;
    if (!deployed->settings->serve)
        out = deployed->nowhere = fopen("/dev/null", "w");
    if (!out)
        return error_set(err, ERROR_IO, "/dev/null: %s", strerror(errno));
    if (serving_open(&deployed->serve, &deployed->parsed, out, &deployed->serving, err) < 0)
        return error_wrap(err, "serve");
    return 0;
}

/* --- asking it ------------------------------------------------------------------------------- */

/* One comparison: our own answers, and the way to the server. */
struct comparison {
    struct deployed *deployed;
    struct imported *model;
    const struct signature *signature;
    struct questions *questions;
    struct grpc_client *client;
    struct grpc_reply reply;
    struct arena *round; /* of one request */
};

/* One that takes what examples are, rather than encoded pictures. */
static const struct signature *choose_signature(const struct imported *model)
{
    const struct signature *usual = imported_signature(model, NULL);
    const struct signature *other = imported_signature(model, "predict");
    bool packed = usual && usual->input_count > 0 &&
                  (usual->questions[0].kind == QUESTION_PICTURE ||
                   usual->questions[0].kind == QUESTION_EXAMPLE);
    return other && (packed || !usual) ? other : usual;
}

static int open_comparison(struct comparison *comparison, struct error *err)
{
    struct deployed *deployed = comparison->deployed;
    const struct deploying_work *work = &deployed->work;
    const char *host = deployed->serve.host;
    bool any = !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
    bool six = !any && strchr(host, ':') && host[0] != '[';
    char server[300];
    snprintf(server, sizeof server, "%s%s%s:%d", six ? "[" : "", any ? "127.0.0.1" : host,
             six ? "]" : "", serving_grpc_port(deployed->serving));
    grpc_reply_init(&comparison->reply);
    comparison->round = arena_create();
    if (!comparison->round)
        return error_set(err, ERROR_MEMORY, "no memory for the questions");
    if (imported_read(work->version, &comparison->model, err) < 0)
        return -1;
    comparison->signature = choose_signature(comparison->model);
    if (!comparison->signature)
        return error_set(err, ERROR_FORMAT, "the export has no signature that can be asked");
    if (questions_open(comparison->model, comparison->signature, work->data, work->stop,
                       &comparison->questions, err) < 0)
        return -1;
    return grpc_client_create(&(struct grpc_client_settings){.server = server}, &comparison->client,
                              err);
}

static void close_comparison(struct comparison *comparison)
{
    grpc_client_destroy(comparison->client);
    questions_close(comparison->questions);
    imported_destroy(comparison->model);
    grpc_reply_release(&comparison->reply);
    arena_destroy(comparison->round);
}

static int ask(struct comparison *comparison, const struct tensor *inputs, struct error *err)
{
    const struct signature *signature = comparison->signature;
    struct strbuf request;
    strbuf_init(&request);
    predict_request_begin(comparison->deployed->name, signature->name,
                          comparison->deployed->version, &request);
    for (int i = 0; i < signature->input_count; i++)
        predict_request_add(signature->inputs[i].key, &inputs[i], &request);
    int status = grpc_client_call(comparison->client,
                                  "/tensorflow.serving.PredictionService/Predict", request.text,
                                  request.length, ANSWER_SECONDS, true, &comparison->reply, err);
    strbuf_release(&request);
    if (status == 0 && comparison->reply.status != SERVE_OK)
        return error_set(err, ERROR_PEER, "%s: %s", serve_status_name(comparison->reply.status),
                         comparison->reply.message);
    return status;
}

/* The first element that is not the same in both; -1: all are. */
static int64_t find_difference(const struct tensor *a, const struct tensor *b)
{
    int64_t count = shape_count(&a->shape);
    size_t bytes = dtype_bytes(a->dtype);
    for (int64_t i = 0; i < count; i++) {
        const struct text_view *one = (const struct text_view *)a->data + i;
        const struct text_view *two = (const struct text_view *)b->data + i;
        if (a->dtype == DTYPE_STRING
                ? one->count != two->count || memcmp(one->bytes, two->bytes, one->count) != 0
                : memcmp((const char *)a->data + (size_t)i * bytes,
                         (const char *)b->data + (size_t)i * bytes, bytes) != 0)
            return i;
    }
    return -1;
}

static int compare_output(struct comparison *comparison, const char *key,
                          const struct tensor *expected, struct tensor *found, struct error *err)
{
    if (predict_reply_find(comparison->reply.body.text, comparison->reply.body.length, key,
                           REPLY_LIMIT, comparison->round, found, err) < 0)
        return -1;
    if (found->dtype != expected->dtype || !shape_equal(&found->shape, &expected->shape)) {
        char ours[80], theirs[80];
        return error_set(err, ERROR_NUMERIC, "%s is %s %s, expected %s %s", key,
                         dtype_name(found->dtype), shape_text(&found->shape, theirs, sizeof theirs),
                         dtype_name(expected->dtype),
                         shape_text(&expected->shape, ours, sizeof ours));
    }
    int64_t at = find_difference(expected, found);
    if (at < 0)
        return 0;
    if (found->dtype != DTYPE_F32)
        return error_set(err, ERROR_NUMERIC, "element %" PRId64 " of %s is another", at, key);
    return error_set(err, ERROR_NUMERIC, "element %" PRId64 " of %s is %.9g, expected %.9g", at,
                     key, (double)((const float *)found->data)[at],
                     (double)((const float *)expected->data)[at]);
}

static int compare_round(struct comparison *comparison, struct asked *asked, int64_t first,
                         struct error *err)
{
    const struct signature *signature = comparison->signature;
    struct deployed *deployed = comparison->deployed;
    struct tensor *inputs, found;
    int32_t *labels;
    arena_reset(comparison->round);
    if (questions_take(comparison->questions, first, asked->batch, comparison->round, &inputs,
                       &labels, err) < 0 ||
        asked_answer(asked, inputs, asked->batch, err) < 0 || ask(comparison, inputs, err) < 0)
        return -1;
    for (int i = 0; i < signature->output_count; i++) {
        const char *key = signature->outputs[i].key;
        if (compare_output(comparison, key, &asked->reply[i], &found, err) < 0)
            return -1;
        if (labels && asked->batch == 1 && !strcmp(key, "probabilities")) {
            deployed->judged++;
            deployed->correct += load_count_correct(&found, labels, 1);
        }
    }
    return 0;
}

static int compare_batches(struct comparison *comparison, int batch, struct error *err)
{
    const struct deploying_work *work = &comparison->deployed->work;
    struct asked asked;
    int status = asked_open(&asked, comparison->model, comparison->signature->name, batch,
                            work->threads, err);
    for (int64_t first = 0; status == 0 && first < EXAMPLES; first += batch) {
        status = stop_check(work->stop, err);
        if (status == 0 && compare_round(comparison, &asked, first, err) < 0)
            status = error_wrap(err, "%d asked together, from example %" PRId64, batch, first);
    }
    asked_close(&asked);
    return status;
}

static int compare(struct deployed *deployed, struct error *err)
{
    struct comparison comparison = {.deployed = deployed};
    int status = open_comparison(&comparison, err);
    if (status == 0)
        status = compare_batches(&comparison, 1, err);
    if (status == 0)
        status = compare_batches(&comparison, TOGETHER, err);
    if (status == 0) {
        deployed->checked = EXAMPLES;
        deployed->kind = questions_kind(comparison.questions);
    }
    close_comparison(&comparison);
    return status;
}

/* --- all of it ------------------------------------------------------------------------------- */

/* A signal is no fault of the version's. */
static int withdraw(struct deployed *deployed, struct error *err)
{
    char aside[PATH_MAX];
    struct error second = {0};
    if (err->code == ERROR_CANCELLED)
        return -1;
    serving_close(deployed->serving);
    deployed->serving = NULL;
    if (export_withdraw(deployed->work.version, aside, &second) < 0)
        return error_wrap(err, "the served model failed its check and could not be withdrawn (%s)",
                          second.message);
    return error_wrap(err, "the served model failed its check and is now %s", aside);
}

static void print(const struct deployed *deployed)
{
    fprintf(deployed->work.out,
            "Served as %s, version %" PRId64 ": %" PRId64
            " %s over gRPC, alone and %d together, gave the bits of eval --as-served",
            deployed->name, deployed->version, deployed->checked, deployed->kind, TOGETHER);
    if (deployed->judged)
        fprintf(deployed->work.out, "; %" PRId64 " of them right", deployed->correct);
    fprintf(deployed->work.out, "\n");
    fflush(deployed->work.out);
}

static int start(struct deployed *deployed, struct error *err)
{
    if (open_server(deployed, err) < 0)
        return -1;
    if (!deployed->settings->check)
        return 0;
    if (serving_await(deployed->serving, LOAD_SECONDS_MOST, err) < 0 || compare(deployed, err) < 0)
        return withdraw(deployed, err);
    print(deployed);
    if (!deployed->settings->serve) {
        serving_close(deployed->serving);
        deployed->serving = NULL;
    }
    return 0;
}

int deploying_start(const struct deploying_settings *settings, const struct deploying_work *work,
                    struct deployed **out, struct error *err)
{
    struct deployed *deployed = memory_allocate(sizeof *deployed);
    struct arena *arena = arena_create();
    if (!deployed || !arena) {
        memory_free(deployed);
        arena_destroy(arena);
        return error_set(err, ERROR_MEMORY, "no memory for the server");
    }
    deployed->settings = settings;
    deployed->work = *work;
    deployed->arena = arena;
    if (start(deployed, err) < 0) {
        deploying_end(deployed);
        return -1;
    }
    *out = deployed;
    return 0;
}

void deploying_describe(const struct deployed *deployed, struct json *out)
{
    if (!deployed)
        return;
    json_set_text(out, "served_name", deployed->name);
    json_set_integer(out, "served_version", deployed->version);
    json_set_integer(out, "served_examples_checked", deployed->checked);
    json_set_integer(out, "served_examples_right", deployed->judged ? deployed->correct : -1);
}

int deploying_go_on(struct deployed *deployed)
{
    return deployed->serving ? serving_go_on(deployed->serving, deployed->work.stop) : STATUS_DONE;
}

void deploying_end(struct deployed *deployed)
{
    if (!deployed)
        return;
    serving_close(deployed->serving);
    if (deployed->nowhere)
        fclose(deployed->nowhere);
    arena_destroy(deployed->arena);
    memory_free(deployed);
}
