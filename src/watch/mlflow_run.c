#include "watch/mlflow_run.h"

#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "net/http.h"
#include "watch/reply.h"

/* Of the API. Values had 500 characters until release 2.8 and have 6000 since; a whole request is
 * refused for one that is longer. */
enum { PARAMS_PER_REQUEST = 100, VALUE_BYTES = 500, ID_BYTES = 256 };

struct mlflow_run {
    struct mlflow_settings settings;
    char *source;
    struct mlflow_param *params; /* owned texts */
    int param_count, params_sent;
    char experiment_id[ID_BYTES], run_id[ID_BYTES]; /* "" until known */
    int64_t started;                                /* milliseconds since 1970 */
    struct http_reply reply;
    struct strbuf url;
    char authorization[MLFLOW_SECRET_BYTES + 32], workspace[MLFLOW_NAME_BYTES + 32]; /* headers */
};

/* --- creation -------------------------------------------------------------------------------- */

/* At most `bytes` of it, not through the middle of a UTF-8 character. */
static char *copy_cut(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes + 1);
    char *copy = memory_allocate((length > bytes ? bytes : length) + 1);
    if (!copy)
        return NULL;
    if (length > bytes)
        for (length = bytes; length > 0 && (text[length] & 0xC0) == 0x80;)
            length--;
    memcpy(copy, text, length);
    return copy;
}

static int copy_params(struct mlflow_run *run, const struct mlflow_options *options,
                       struct error *err)
{
    run->source = copy_cut(options->source ? options->source : "lockstep", VALUE_BYTES);
    run->params = memory_allocate((size_t)(options->param_count + 1) * sizeof *run->params);
    bool full = run->source && run->params;
    for (int i = 0; full && i < options->param_count; i++) {
        run->params[i].name = copy_cut(options->params[i].name, 250);
        run->params[i].value = copy_cut(options->params[i].value, VALUE_BYTES);
        full = run->params[i].name && run->params[i].value;
        run->param_count++;
    }
    return full ? 0 : error_set(err, ERROR_MEMORY, "no memory for the parameters of the run");
}

int mlflow_run_create(const struct mlflow_options *options, struct mlflow_run **out,
                      struct error *err)
{
    struct mlflow_run *run = memory_allocate(sizeof *run);
    if (!run)
        return error_set(err, ERROR_MEMORY, "no memory to report to MLflow");
    http_reply_init(&run->reply);
    strbuf_init(&run->url);
    if (mlflow_settings_read(options->environment, &run->settings, err) < 0 ||
        copy_params(run, options, err) < 0) {
        mlflow_run_destroy(run);
        return -1;
    }
    /* A name and a password win over a token, as they do in MLflow. */
    if (run->settings.token[0] && !run->settings.user[0])
        snprintf(run->authorization, sizeof run->authorization, "Authorization: Bearer %s",
                 run->settings.token);
    if (run->settings.workspace[0])
        snprintf(run->workspace, sizeof run->workspace, "X-MLFLOW-WORKSPACE: %s",
                 run->settings.workspace);
    *out = run;
    return 0;
}

void mlflow_run_destroy(struct mlflow_run *run)
{
    if (!run)
        return;
    for (int i = 0; i < run->param_count; i++) {
        memory_free((char *)(uintptr_t)run->params[i].name);
        memory_free((char *)(uintptr_t)run->params[i].value);
    }
    strbuf_release(&run->url);
    http_reply_release(&run->reply);
    memory_free(run->params);
    memory_free(run->source);
    memory_free(run);
}

const struct mlflow_settings *mlflow_run_settings(const struct mlflow_run *run)
{
    return &run->settings;
}

/* --- requests -------------------------------------------------------------------------------- */

static enum outbox_result request(struct mlflow_run *run, struct outbox *outbox, const char *method,
                                  const char *call, const char *body, struct error *why)
{
    const char *headers[4] = {body ? "Content-Type: application/json" : "Accept: application/json"};
    int count = 1;
    if (run->authorization[0])
        headers[count++] = run->authorization;
    if (run->workspace[0])
        headers[count++] = run->workspace;
    strbuf_clear(&run->url);
    strbuf_addf(&run->url, "%s/api/2.0/mlflow/%s", run->settings.url, call);
    struct http_request request = {.method = method,
                                   .url = run->url.text,
                                   .headers = headers,
                                   .body = body,
                                   .body_bytes = body ? strlen(body) : 0};
    if (run->settings.user[0]) {
        request.user = run->settings.user;
        request.password = run->settings.password;
    }
    enum outbox_result result = outbox_request(outbox, &request, &run->reply, why);
    if (result != OUTBOX_SENT && run->reply.status)
        error_wrap(why, "%.*s", (int)strcspn(call, "?"), call);
    return result;
}

/* Posts `body` and releases it. */
static enum outbox_result post(struct mlflow_run *run, struct outbox *outbox, const char *call,
                               struct json *body, struct error *why)
{
    char *text = body ? json_text(body, false) : NULL;
    json_release(body);
    if (!text) {
        error_set(why, ERROR_MEMORY, "no memory for a report");
        return OUTBOX_LATER;
    }
    enum outbox_result result = request(run, outbox, "POST", call, text, why);
    memory_free(text);
    return result;
}

/* The id that a reply of 2xx must have. */
static enum outbox_result read_id(struct mlflow_run *run, const char *const *members, char *out,
                                  struct error *why)
{
    if (reply_text(&run->reply.body, members, out, ID_BYTES))
        return OUTBOX_SENT;
    out[0] = '\0';
    error_set(why, ERROR_FORMAT, "the answer has no %s: is MLFLOW_TRACKING_URI a tracking server?",
              members[1] ? "run or experiment" : members[0]);
    return OUTBOX_REFUSED;
}

/* --- the run --------------------------------------------------------------------------------- */

static enum outbox_result create_experiment(struct mlflow_run *run, struct outbox *outbox,
                                            struct error *why)
{
    static const char *const place[] = {"experiment_id", NULL};
    struct json *body = json_object_create();
    json_set_text(body, "name", run->settings.experiment);
    enum outbox_result result = post(run, outbox, "experiments/create", body, why);
    if (result == OUTBOX_SENT)
        return read_id(run, place, run->experiment_id, why);
    /* Another run was quicker: the next attempt finds it. */
    return strstr(run->reply.body.text, "RESOURCE_ALREADY_EXISTS") ? OUTBOX_LATER : result;
}

static enum outbox_result find_by_name(struct mlflow_run *run, struct outbox *outbox,
                                       struct error *why)
{
    static const char *const place[] = {"experiment", "experiment_id", NULL};
    struct strbuf call;
    strbuf_init(&call);
    strbuf_add(&call, "experiments/get-by-name?experiment_name=");
    http_encode(&call, run->settings.experiment, false);
    enum outbox_result result = request(run, outbox, "GET", call.text, NULL, why);
    strbuf_release(&call);
    if (result == OUTBOX_REFUSED && run->reply.status == 404)
        return create_experiment(run, outbox, why);
    return result == OUTBOX_SENT ? read_id(run, place, run->experiment_id, why) : result;
}

/* By name, by id, or MLflow's own default. */
static enum outbox_result find_experiment(struct mlflow_run *run, struct outbox *outbox,
                                          struct error *why)
{
    const struct mlflow_settings *settings = &run->settings;
    const char *id = settings->experiment_id[0] ? settings->experiment_id : "0";
    if (run->experiment_id[0])
        return OUTBOX_SENT;
    if (!settings->experiment[0]) {
        snprintf(run->experiment_id, sizeof run->experiment_id, "%s", id);
        return OUTBOX_SENT;
    }
    enum outbox_result result = find_by_name(run, outbox, why);
    if (result != OUTBOX_SENT || !settings->experiment_id[0] ||
        strcmp(run->experiment_id, settings->experiment_id) == 0)
        return result;
    error_set(why, ERROR_USAGE, "MLFLOW_EXPERIMENT_NAME=%s has the id %s, MLFLOW_EXPERIMENT_ID=%s",
              settings->experiment, run->experiment_id, settings->experiment_id);
    run->experiment_id[0] = '\0';
    return OUTBOX_REFUSED;
}

static void add_pair(struct json *list, const char *key, const char *value)
{
    struct json *pair = json_object_create();
    json_set_text(pair, "key", key);
    json_set_text(pair, "value", value);
    json_append(list, pair);
}

static enum outbox_result create_run(struct mlflow_run *run, struct outbox *outbox,
                                     struct error *why)
{
    static const char *const place[] = {"run", "info", "run_id", NULL};
    const struct mlflow_settings *settings = &run->settings;
    struct json *body = json_object_create(), *tags = json_array_create();
    json_set_text(body, "experiment_id", run->experiment_id);
    json_set_integer(body, "start_time", run->started);
    if (settings->run_name[0])
        json_set_text(body, "run_name", settings->run_name);
    if (settings->who[0])
        add_pair(tags, "mlflow.user", settings->who);
    add_pair(tags, "mlflow.source.name", run->source);
    add_pair(tags, "mlflow.source.type", "LOCAL");
    add_pair(tags, "lockstep.version", LOCKSTEP_VERSION);
    json_set(body, "tags", tags);
    enum outbox_result result = post(run, outbox, "runs/create", body, why);
    return result == OUTBOX_SENT ? read_id(run, place, run->run_id, why) : result;
}

static enum outbox_result update_run(struct mlflow_run *run, struct outbox *outbox,
                                     const char *status, int64_t end_time, struct error *why)
{
    struct json *body = json_object_create();
    json_set_text(body, "run_id", run->run_id);
    json_set_text(body, "status", status);
    if (end_time)
        json_set_integer(body, "end_time", end_time);
    if (run->settings.run_name[0] && !end_time)
        json_set_text(body, "run_name", run->settings.run_name);
    return post(run, outbox, "runs/update", body, why);
}

/* MLFLOW_RUN_ID: the run is there already, and is running again. */
static enum outbox_result continue_run(struct mlflow_run *run, struct outbox *outbox,
                                       struct error *why)
{
    snprintf(run->run_id, sizeof run->run_id, "%s", run->settings.run_id);
    enum outbox_result result = update_run(run, outbox, "RUNNING", 0, why);
    if (result != OUTBOX_SENT)
        run->run_id[0] = '\0';
    return result;
}

/* Parameters cannot be changed: a continued run with other options keeps its old ones, which is
 * said, and gets the metrics all the same. */
static enum outbox_result log_params(struct mlflow_run *run, struct outbox *outbox,
                                     struct error *why)
{
    while (run->params_sent < run->param_count) {
        struct json *body = json_object_create(), *params = json_array_create();
        int end = run->params_sent + PARAMS_PER_REQUEST;
        end = end < run->param_count ? end : run->param_count;
        for (int i = run->params_sent; i < end; i++)
            add_pair(params, run->params[i].name, run->params[i].value);
        json_set_text(body, "run_id", run->run_id);
        json_set(body, "params", params);
        enum outbox_result result = post(run, outbox, "runs/log-batch", body, why);
        if (result == OUTBOX_LATER)
            return result;
        if (result == OUTBOX_REFUSED)
            outbox_complain(outbox, why);
        run->params_sent = end;
    }
    return OUTBOX_SENT;
}

/* A reply that is lost on its way back makes the next attempt create a second run, as it does with
 * MLflow's own client: the API has no way to say "this one". */
static enum outbox_result make_run(struct mlflow_run *run, struct outbox *outbox, struct error *why)
{
    if (!run->run_id[0]) {
        bool there = run->settings.run_id[0];
        enum outbox_result result =
            there ? continue_run(run, outbox, why) : find_experiment(run, outbox, why);
        if (result == OUTBOX_SENT && !there)
            result = create_run(run, outbox, why);
        if (result != OUTBOX_SENT)
            return result;
    }
    return log_params(run, outbox, why);
}

/* --- metrics --------------------------------------------------------------------------------- */

static void add_metric(struct json *list, const struct mlflow_sample *sample, const char *key,
                       double value)
{
    if (!isfinite(value))
        return;
    struct json *metric = json_object_create();
    json_set_text(metric, "key", key);
    json_set_number(metric, "value", value);
    json_set_integer(metric, "timestamp", sample->milliseconds);
    json_set_integer(metric, "step", sample->step);
    json_append(list, metric);
}

static void add_sample(struct json *list, const struct mlflow_sample *sample)
{
    if (sample->kind == MLFLOW_STEP) {
        add_metric(list, sample, "train/loss", sample->loss);
        add_metric(list, sample, "train/accuracy", sample->accuracy);
        add_metric(list, sample, "learning_rate", sample->rate);
        add_metric(list, sample, "examples_per_second", sample->examples_per_second);
    } else if (sample->kind == MLFLOW_EVALUATION) {
        add_metric(list, sample, "eval/loss", sample->loss);
        add_metric(list, sample, "eval/accuracy", sample->accuracy);
        add_metric(list, sample, "eval/accuracy_top_5", sample->accuracy_top_5);
        add_metric(list, sample, "eval/log_loss", sample->log_loss);
        add_metric(list, sample, "eval/auc", sample->auc);
    }
}

/* A batch that comes twice, because its first answer was lost, is no harm: MLflow keeps one metric
 * per key, step, time and value. */
static enum outbox_result log_metrics(struct mlflow_run *run, struct outbox *outbox,
                                      const struct mlflow_sample *samples, int count,
                                      struct error *why)
{
    struct json *metrics = json_array_create();
    for (int i = 0; i < count; i++)
        add_sample(metrics, &samples[i]);
    if (json_count(metrics) == 0) {
        json_release(metrics);
        return OUTBOX_SENT;
    }
    struct json *body = json_object_create();
    json_set_text(body, "run_id", run->run_id);
    json_set(body, "metrics", metrics);
    return post(run, outbox, "runs/log-batch", body, why);
}

enum outbox_result mlflow_run_send(void *context, struct outbox *outbox, const void *items,
                                   int count, struct error *why)
{
    static const char *const statuses[] = {
        [RUN_FINISHED] = "FINISHED", [RUN_FAILED] = "FAILED", [RUN_INTERRUPTED] = "KILLED"};
    struct mlflow_run *run = context;
    const struct mlflow_sample *samples = items, *last = &samples[count - 1];
    if (!run->started)
        run->started = samples[0].milliseconds;
    enum outbox_result result = make_run(run, outbox, why);
    if (result == OUTBOX_SENT)
        result = log_metrics(run, outbox, samples, count, why);
    /* The end is told even when the server does not like a number. */
    if (result == OUTBOX_REFUSED && run->run_id[0] && last->kind == MLFLOW_END) {
        outbox_complain(outbox, why);
        result = OUTBOX_SENT;
    }
    if (result == OUTBOX_SENT && last->kind == MLFLOW_END)
        result = update_run(run, outbox, statuses[last->outcome], last->milliseconds, why);
    return result;
}
