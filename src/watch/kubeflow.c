#include "watch/kubeflow.h"

#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "net/http.h"
#include "train/trainer.h"
#include "watch/pace.h"

/* The controller's own guidance for its clients. */
static const double USUAL_INTERVAL = 5;
enum { TOKEN_LIMIT = 64 << 10 };

/* What is known now; numbers that are NaN are not. */
struct status {
    int percent;
    double seconds_left, wall;
    double loss, accuracy, rate, examples_per_second;
    double eval_loss, eval_accuracy, eval_accuracy_top_5, eval_log_loss, eval_auc;
};

struct kubeflow {
    struct outbox *outbox;
    struct status status; /* the training's thread's own */
    struct pace pace;
    /* The outbox's thread's own, once that has begun: */
    char *url, *token_path;
    struct http_reply reply;
};

/* --- a report, on the outbox's thread -------------------------------------------------------- */

static void add_metric(struct json *list, const char *name, double value)
{
    char text[32];
    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, "%.7g", value); /* the API wants text */
    struct json *metric = json_object_create();
    json_set_text(metric, "name", name);
    json_set_text(metric, "value", text);
    json_append(list, metric);
}

static struct json *describe_metrics(const struct status *status)
{
    struct json *list = json_array_create();
    add_metric(list, "loss", status->loss);
    add_metric(list, "accuracy", status->accuracy);
    add_metric(list, "learning_rate", status->rate);
    add_metric(list, "examples_per_second", status->examples_per_second);
    add_metric(list, "eval_loss", status->eval_loss);
    add_metric(list, "eval_accuracy", status->eval_accuracy);
    add_metric(list, "eval_accuracy_top_5", status->eval_accuracy_top_5);
    add_metric(list, "eval_log_loss", status->eval_log_loss);
    add_metric(list, "eval_auc", status->eval_auc);
    return list;
}

static char *describe(const struct status *status)
{
    struct json *body = json_object_create(), *inner = json_object_create();
    time_t seconds = (time_t)status->wall;
    struct tm parts;
    char when[32];
    gmtime_r(&seconds, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_set_integer(inner, "progressPercentage", status->percent);
    if (status->seconds_left >= 0 && status->seconds_left <= INT32_MAX)
        json_set_integer(inner, "estimatedRemainingSeconds", (int64_t)ceil(status->seconds_left));
    json_set(inner, "metrics", describe_metrics(status));
    json_set_text(inner, "lastUpdatedTime", when);
    json_set(body, "trainerStatus", inner);
    char *text = json_text(body, false);
    json_release(body);
    return text;
}

/* "Authorization: Bearer TOKEN", without the line break that ends the file; *out is NULL where no
 * file was named. */
static int make_authorization(const struct kubeflow *kubeflow, char **out, struct error *err)
{
    char *token;
    size_t bytes;
    *out = NULL;
    if (!kubeflow->token_path)
        return 0;
    if (file_read(kubeflow->token_path, TOKEN_LIMIT, &token, &bytes, err) < 0)
        return error_wrap(err, "KUBEFLOW_TRAINER_SERVER_TOKEN");
    static const char before[] = "Authorization: Bearer ";
    size_t space = sizeof before + bytes;
    *out = memory_allocate(space);
    if (*out)
        snprintf(*out, space, "%s%.*s", before, (int)strcspn(token, "\r\n"), token);
    memory_free(token);
    return *out ? 0 : error_set(err, ERROR_MEMORY, "no memory for a token");
}

static enum outbox_result post(struct kubeflow *kubeflow, struct outbox *outbox, const char *body,
                               struct error *why)
{
    char *authorization;
    if (make_authorization(kubeflow, &authorization, why) < 0)
        return OUTBOX_LATER; /* the kubelet may be about to write it */
    const char *headers[] = {"Content-Type: application/json", authorization, NULL};
    struct http_request request = {.method = "POST",
                                   .url = kubeflow->url,
                                   .headers = headers,
                                   .body = body,
                                   .body_bytes = strlen(body)};
    enum outbox_result result = outbox_request(outbox, &request, &kubeflow->reply, why);
    memory_free(authorization);
    return result;
}

static enum outbox_result send_status(void *context, struct outbox *outbox, const void *items,
                                      int count, struct error *why)
{
    const struct status *statuses = items;
    char *body = describe(&statuses[count - 1]);
    if (!body) {
        error_set(why, ERROR_MEMORY, "no memory for a report");
        return OUTBOX_LATER;
    }
    enum outbox_result result = post(context, outbox, body, why);
    memory_free(body);
    return result;
}

/* --- observing, on the training's thread ----------------------------------------------------- */

static void tell(struct kubeflow *kubeflow)
{
    kubeflow->status.wall = clock_wall_seconds();
    outbox_put(kubeflow->outbox, &kubeflow->status, false);
}

/* A hundred is for a training that is over: an evaluation and the weights come after the last
 * step. */
static int percent_of(const struct train_event *event)
{
    int percent = event->total > 0 ? (int)(event->step * 100 / event->total) : 0;
    return percent < 99 ? percent : 99;
}

static void on_step(struct kubeflow *kubeflow, const struct train_event *event)
{
    struct status *status = &kubeflow->status;
    pace_add(&kubeflow->pace, event);
    double speed = pace_examples_per_second(&kubeflow->pace);
    status->percent = percent_of(event);
    status->seconds_left = pace_seconds_left(&kubeflow->pace, event);
    status->loss = event->loss;
    status->accuracy = event->accuracy;
    status->rate = event->rate;
    status->examples_per_second = speed > 0 ? speed : NAN;
}

static void on_evaluated(struct kubeflow *kubeflow, const struct train_event *event)
{
    struct status *status = &kubeflow->status;
    status->eval_loss = event->loss;
    status->eval_accuracy = event->accuracy;
    status->eval_accuracy_top_5 = event->accuracy_top_5;
    status->eval_log_loss = event->log_loss;
    status->eval_auc = event->auc;
}

void kubeflow_observe(void *context, const struct train_event *event)
{
    struct kubeflow *kubeflow = context;
    if (event->kind == TRAIN_STARTED)
        kubeflow->status.percent = percent_of(event);
    else if (event->kind == TRAIN_STEP)
        on_step(kubeflow, event);
    else if (event->kind == TRAIN_EVALUATED)
        on_evaluated(kubeflow, event);
    else
        return;
    tell(kubeflow);
}

void kubeflow_end(struct kubeflow *kubeflow, enum run_outcome outcome)
{
    kubeflow->status.seconds_left = outcome == RUN_FINISHED ? 0 : NAN;
    if (outcome == RUN_FINISHED)
        kubeflow->status.percent = 100;
    tell(kubeflow);
    outbox_end(kubeflow->outbox);
}

/* --- beginning and end ----------------------------------------------------------------------- */

static const char *look_up(const struct kubeflow_options *options, const char *name)
{
    const char *value = options->environment(name);
    return value && *value ? value : NULL;
}

static int start(struct kubeflow *kubeflow, const struct kubeflow_options *options, const char *url,
                 struct error *err)
{
    const char *token_path = look_up(options, "KUBEFLOW_TRAINER_SERVER_TOKEN");
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return error_set(err, ERROR_USAGE,
                         "KUBEFLOW_TRAINER_SERVER_URL=%s is no http:// or https:// URL", url);
    kubeflow->url = memory_copy_text(url);
    kubeflow->token_path = token_path ? memory_copy_text(token_path) : NULL;
    if (!kubeflow->url || (token_path && !kubeflow->token_path))
        return error_set(err, ERROR_MEMORY, "no memory to report to Kubeflow");
    struct outbox_options outbox = {.name = "Kubeflow Trainer",
                                    .where = url,
                                    .item_bytes = sizeof(struct status),
                                    .capacity = 1,
                                    .batch = 1,
                                    .send = send_status,
                                    .context = kubeflow,
                                    .times = options->times,
                                    .ca_bundle =
                                        look_up(options, "KUBEFLOW_TRAINER_SERVER_CA_CERT"),
                                    .stop_signal = options->stop_signal};
    if (!(outbox.times.interval > 0))
        outbox.times.interval = USUAL_INTERVAL;
    return outbox_create(&outbox, &kubeflow->outbox, err);
}

int kubeflow_create(const struct kubeflow_options *options, struct kubeflow **out,
                    struct error *err)
{
    const char *url = look_up(options, "KUBEFLOW_TRAINER_SERVER_URL");
    *out = NULL;
    if (!url)
        return 0;
    struct kubeflow *kubeflow = memory_allocate(sizeof *kubeflow);
    if (!kubeflow)
        return error_set(err, ERROR_MEMORY, "no memory to report to Kubeflow");
    http_reply_init(&kubeflow->reply);
    kubeflow->status = (struct status){.seconds_left = NAN,
                                       .loss = NAN,
                                       .accuracy = NAN,
                                       .rate = NAN,
                                       .examples_per_second = NAN,
                                       .eval_loss = NAN,
                                       .eval_accuracy = NAN,
                                       .eval_accuracy_top_5 = NAN,
                                       .eval_log_loss = NAN,
                                       .eval_auc = NAN};
    if (start(kubeflow, options, url, err) < 0) {
        kubeflow_destroy(kubeflow);
        return -1;
    }
    *out = kubeflow;
    return 0;
}

void kubeflow_destroy(struct kubeflow *kubeflow)
{
    if (!kubeflow)
        return;
    outbox_destroy(kubeflow->outbox);
    http_reply_release(&kubeflow->reply);
    memory_free(kubeflow->token_path);
    memory_free(kubeflow->url);
    memory_free(kubeflow);
}
