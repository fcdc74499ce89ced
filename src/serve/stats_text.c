/* The counters as Prometheus reads them: under the names that TF Serving and Triton gave them, so
 * that dashboards made for those work, and our own for what neither has. */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "serve/stats_internal.h"

static void add_head(struct strbuf *out, const char *name, const char *type, const char *help)
{
    strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value, with what would end it quoted. */
static void add_label(struct strbuf *out, const char *name, const char *value)
{
    strbuf_addf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n') {
            strbuf_add(out, "\\n");
            continue;
        }
        if (*value == '\\' || *value == '"')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, *value);
    }
    strbuf_add_char(out, '"');
}

/* NAME{model_name="...",EXTRA */
static void add_start(struct strbuf *out, const char *name, const char *suffix,
                      const struct model_counts *model, const char *extra)
{
    strbuf_addf(out, "%s%s{", name, suffix);
    add_label(out, "model_name", model->name);
    strbuf_addf(out, "%s%s", *extra ? "," : "", extra);
}

static void add_latency(struct strbuf *out, const char *name, const struct model_counts *model,
                        const char *extra, const struct latency *latency)
{
    uint64_t below = 0;
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        below += latency->counts[i];
        add_start(out, name, "_bucket", model, extra);
        if (isinf(latency_limit(i)))
            strbuf_addf(out, ",le=\"+Inf\"} %" PRIu64 "\n", below);
        else
            strbuf_addf(out, ",le=\"%g\"} %" PRIu64 "\n", latency_limit(i), below);
    }
    add_start(out, name, "_sum", model, extra);
    strbuf_addf(out, "} %.15g\n", latency->sum);
    add_start(out, name, "_count", model, extra);
    strbuf_addf(out, "} %" PRIu64 "\n", latency->count);
}

static void add_requests(const struct serve_stats *stats, struct strbuf *out)
{
    static const char name[] = ":tensorflow:serving:request_count";
    add_head(out, name, "counter", "The total number of requests.");
    for (const struct model_counts *model = stats->models; model; model = model->next)
        for (int i = 0; i < STATUSES; i++) {
            char status[64];
            if (!model->status[i])
                continue;
            snprintf(status, sizeof status, "status=\"%s\"", serve_status_name(i));
            add_start(out, name, "", model, status);
            strbuf_addf(out, "} %" PRIu64 "\n", model->status[i]);
        }
}

static void add_latencies(const struct serve_stats *stats, struct strbuf *out)
{
    static const char name[] = ":tensorflow:serving:request_latency";
    static const char runtime[] = ":tensorflow:serving:runtime_latency";
    char labels[96];
    add_head(out, name, "histogram", "Wall time of a request in microseconds.");
    for (const struct model_counts *model = stats->models; model; model = model->next)
        for (int door = 0; door < DOORS; door++)
            for (int api = 0; api < APIS; api++) {
                if (!model->latency[door][api].count)
                    continue;
                snprintf(labels, sizeof labels, "API=\"%s\",entrypoint=\"%s\"", api_name(door, api),
                         door_name(door));
                add_latency(out, name, model, labels, &model->latency[door][api]);
            }
    add_head(out, runtime, "histogram", "Wall time of computing a batch in microseconds.");
    for (const struct model_counts *model = stats->models; model; model = model->next)
        if (model->runtime.count)
            add_latency(out, runtime, model, "API=\"Predict\",runtime=\"lockstep\"",
                        &model->runtime);
}

/* --- Triton's: labels are the model and its version ------------------------------------------- */

static void add_value(struct strbuf *out, const char *name, const struct model_counts *model,
                      const struct version_counts *version, double value)
{
    strbuf_addf(out, "%s{", name);
    add_label(out, "model", model->name);
    strbuf_addf(out, ",version=\"%" PRId64 "\"} %.15g\n", version->version, value);
}

enum triton {
    TRITON_SUCCESS,
    TRITON_FAILURE,
    TRITON_COUNT,
    TRITON_EXEC,
    TRITON_REQUEST,
    TRITON_QUEUE,
    TRITON_INPUT,
    TRITON_INFER,
    TRITON_OUTPUT,
    TRITON_PENDING,
    TRITONS,
};

static double triton_value(enum triton what, const struct version_counts *version)
{
    const double values[TRITONS] = {
        [TRITON_SUCCESS] = (double)version->success, [TRITON_FAILURE] = (double)version->failure,
        [TRITON_COUNT] = (double)version->rows,      [TRITON_EXEC] = (double)version->executions,
        [TRITON_REQUEST] = version->request_us,      [TRITON_QUEUE] = version->queue_us,
        [TRITON_INPUT] = version->input_us,          [TRITON_INFER] = version->run_us,
        [TRITON_OUTPUT] = version->output_us,        [TRITON_PENDING] = version->pending,
    };
    return values[what];
}

static void add_triton(const struct serve_stats *stats, struct strbuf *out)
{
    static const struct {
        const char *name, *type, *help;
    } metrics[TRITONS] = {
        {"nv_inference_request_success", "counter", "Requests answered."},
        {"nv_inference_request_failure", "counter", "Requests that failed."},
        {"nv_inference_count", "counter", "Rows computed."},
        {"nv_inference_exec_count", "counter", "Batches computed."},
        {"nv_inference_request_duration_us", "counter", "Time of all requests."},
        {"nv_inference_queue_duration_us", "counter", "Time of requests in the queue."},
        {"nv_inference_compute_input_duration_us", "counter", "Time of preparing inputs."},
        {"nv_inference_compute_infer_duration_us", "counter", "Time of computing."},
        {"nv_inference_compute_output_duration_us", "counter", "Time of making outputs."},
        {"nv_inference_pending_request_count", "gauge", "Requests that wait or are computed."},
    };
    for (int i = 0; i < TRITONS; i++) {
        add_head(out, metrics[i].name, metrics[i].type, metrics[i].help);
        for (const struct model_counts *model = stats->models; model; model = model->next)
            for (const struct version_counts *version = model->versions; version;
                 version = version->next)
                add_value(out, metrics[i].name, model, version, triton_value(i, version));
    }
}

/* --- ours ------------------------------------------------------------------------------------- */

static void add_batches(const struct serve_stats *stats, struct strbuf *out)
{
    static const char name[] = "lockstep_serve_batch_rows";
    add_head(out, name, "histogram", "Rows that were computed together.");
    for (const struct model_counts *model = stats->models; model; model = model->next)
        for (const struct version_counts *version = model->versions; version;
             version = version->next) {
            char labels[64];
            uint64_t below = 0;
            snprintf(labels, sizeof labels, "version=\"%" PRId64 "\"", version->version);
            for (int i = 0; i < BATCH_BUCKETS; i++) {
                below += version->batches[i];
                add_start(out, name, "_bucket", model, labels);
                if (i < BATCH_BUCKETS - 1)
                    strbuf_addf(out, ",le=\"%d\"} %" PRIu64 "\n", 1 << i, below);
                else
                    strbuf_addf(out, ",le=\"+Inf\"} %" PRIu64 "\n", below);
            }
            add_start(out, name, "_sum", model, labels);
            strbuf_addf(out, "} %" PRIu64 "\n", version->rows);
            add_start(out, name, "_count", model, labels);
            strbuf_addf(out, "} %" PRIu64 "\n", version->executions);
        }
}

static void add_ours(const struct serve_stats *stats, struct strbuf *out)
{
    add_batches(stats, out);
    add_head(out, "lockstep_serve_model_loads_total", "counter", "Versions loaded.");
    for (const struct model_counts *model = stats->models; model; model = model->next) {
        add_start(out, "lockstep_serve_model_loads_total", "", model, "result=\"ok\"");
        strbuf_addf(out, "} %" PRIu64 "\n", model->loads);
        add_start(out, "lockstep_serve_model_loads_total", "", model, "result=\"failed\"");
        strbuf_addf(out, "} %" PRIu64 "\n", model->failed_loads);
    }
    add_head(out, "lockstep_serve_refused_total", "counter", "Requests without a right token.");
    for (int door = 0; door < DOORS; door++)
        strbuf_addf(out, "lockstep_serve_refused_total{entrypoint=\"%s\"} %" PRIu64 "\n",
                    door_name(door), stats->refused[door]);
    add_head(out, "lockstep_serve_unknown_model_total", "counter",
             "Requests for models that are not served.");
    for (int door = 0; door < DOORS; door++)
        strbuf_addf(out, "lockstep_serve_unknown_model_total{entrypoint=\"%s\"} %" PRIu64 "\n",
                    door_name(door), stats->unknown_models[door]);
    add_head(out, "lockstep_serve_client_gone_total", "counter",
             "Clients that left before their answer.");
    for (int door = 0; door < DOORS; door++)
        strbuf_addf(out, "lockstep_serve_client_gone_total{entrypoint=\"%s\"} %" PRIu64 "\n",
                    door_name(door), stats->gone[door]);
    add_head(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
    strbuf_addf(out, "process_resident_memory_bytes %zu\n", memory_rss_bytes());
    add_head(out, "process_cpu_seconds_total", "counter", "Processor time, user and system.");
    strbuf_addf(out, "process_cpu_seconds_total %.6f\n", clock_processor_seconds());
}

void stats_exposition(struct serve_stats *stats, struct strbuf *out)
{
    pthread_mutex_lock(&stats->lock);
    add_requests(stats, out);
    add_latencies(stats, out);
    add_triton(stats, out);
    add_ours(stats, out);
    pthread_mutex_unlock(&stats->lock);
}
