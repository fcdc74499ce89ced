#include "cli/client_report.h"

#include <inttypes.h>
#include <math.h>

#include "base/json.h"
#include "base/strbuf.h"

static const struct {
    const char *name;
    double part;
} quantiles[] = {{"p50", 0.5},  {"p90", 0.9},     {"p95", 0.95},
                 {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
enum { QUANTILES = sizeof quantiles / sizeof *quantiles };
enum { BARS = 16, BAR_LETTERS = 40 };

static double per_second(const struct load_result *result, int64_t count)
{
    return result->seconds > 0 ? (double)count / result->seconds : NAN;
}

static double accuracy(const struct load_result *result)
{
    return result->examples > 0 ? (double)result->correct / (double)result->examples : NAN;
}

/* Bars of equal width in the logarithm, from the least to the greatest. */
struct bar {
    double from, to; /* seconds */
    uint64_t count;
};

static uint64_t make_bars(const struct latency *latency, struct bar bars[BARS])
{
    double low = fmax(latency->least, 1e-6), high = fmax(latency->greatest, low * 1.1);
    uint64_t most = 1;
    for (int i = 0; i < BARS; i++) {
        bars[i].from = i == 0 ? 0 : bars[i - 1].to;
        bars[i].to = low * pow(high / low, (double)(i + 1) / BARS);
        bars[i].count = latency_between(latency, i == 0 ? low / 2 : bars[i].from,
                                        i == BARS - 1 ? high * 2 : bars[i].to);
        if (bars[i].count > most)
            most = bars[i].count;
    }
    return most;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void add_plot(const struct latency *latency, struct strbuf *out)
{
    struct bar bars[BARS];
    uint64_t most = make_bars(latency, bars);
    strbuf_add(out, "\n");
    for (int i = 0; i < BARS; i++) {
        int letters = (int)lround((double)bars[i].count * BAR_LETTERS / (double)most);
        strbuf_addf(out, "  <= %9.3f ms |", bars[i].to * 1000);
        for (int k = 0; k < (bars[i].count > 0 && letters == 0 ? 1 : letters); k++)
            strbuf_add_char(out, '#');
        strbuf_addf(out, " %" PRIu64 "\n", bars[i].count);
    }
}

static void add_failures(const struct load_result *result, struct strbuf *out)
{
    for (int i = 1; i < LOAD_STATUSES; i++)
        if (result->statuses[i] > 0)
            strbuf_addf(out, "  %s: %" PRId64 "\n", serve_status_name((enum serve_status)i),
                        result->statuses[i]);
    if (result->failure[0])
        strbuf_addf(out, "  the first: %s\n", result->failure);
}

void client_report_text(const struct client_report *report, bool plot, struct strbuf *out)
{
    const struct load_result *result = report->result;
    strbuf_addf(out, "Load: %s by %s, ", report->model, report->protocol);
    if (report->rate > 0)
        strbuf_addf(out, "%g requests/sec over %d connections%s", report->rate, report->connections,
                    report->streams > 1 ? ", several at a time on each" : "");
    else if (report->streams > 1)
        strbuf_addf(out, "%d connections, each with %d requests at a time", report->connections,
                    report->streams);
    else
        strbuf_addf(out, "%d connections, each as fast as answers come", report->connections);
    strbuf_addf(out, "\nBatch size = %d\nAnswered: %" PRId64 " in %.3f sec, failed: %" PRId64 "\n",
                report->batch, result->answered, result->seconds, result->failed);
    add_failures(result, out);
    if (result->answered == 0)
        return;
    strbuf_addf(out, "Throughput: %.3f examples/sec (%.3f requests/sec)\n",
                per_second(result, result->examples), per_second(result, result->answered));
    strbuf_addf(out, "Latency: mean %.3f ms", latency_mean(&result->latency) * 1000);
    for (int i = 0; i < QUANTILES; i++)
        strbuf_addf(out, ", %s %.3f", quantiles[i].name,
                    latency_quantile(&result->latency, quantiles[i].part) * 1000);
    strbuf_add(out, "\n");
    if (result->examples > 0)
        strbuf_addf(out, "Accuracy: %.2f%%\n", 100 * accuracy(result));
    if (plot)
        add_plot(&result->latency, out);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

void client_report_json(const struct client_report *report, struct json *out)
{
    const struct load_result *result = report->result;
    struct json *latency = json_object_create(), *statuses = json_object_create();
    json_set_text(out, "server", report->server);
    json_set_text(out, "protocol", report->protocol);
    json_set_text(out, "model", report->model);
    json_set_text(out, "data", report->data);
    json_set_text(out, "loop", report->rate > 0 ? "open" : "closed");
    json_set_integer(out, "batch_size", report->batch);
    json_set_integer(out, "connections", report->connections);
    json_set_integer(out, "streams", report->streams);
    json_set_number(out, "rate", report->rate > 0 ? report->rate : NAN);
    json_set_integer(out, "requests", result->answered);
    json_set_integer(out, "failed", result->failed);
    json_set_integer(out, "examples", result->examples);
    json_set_number(out, "seconds", result->seconds);
    json_set_number(out, "requests_per_second", per_second(result, result->answered));
    json_set_number(out, "examples_per_second", per_second(result, result->examples));
    json_set_number(out, "accuracy", accuracy(result));
    if (latency) {
        json_set_number(latency, "mean", latency_mean(&result->latency));
        json_set_number(latency, "min", latency_quantile(&result->latency, 0));
        for (int i = 0; i < QUANTILES; i++)
            json_set_number(latency, quantiles[i].name,
                            latency_quantile(&result->latency, quantiles[i].part));
        json_set(out, "latency_seconds", latency);
    }
    for (int i = 0; statuses && i < LOAD_STATUSES; i++)
        if (result->statuses[i] > 0)
            json_set_integer(statuses, serve_status_name((enum serve_status)i),
                             result->statuses[i]);
    if (statuses)
        json_set(out, "statuses", statuses);
}

/* ---- a page --------------------------------------------------------------------------------- */

static void add_escaped(const char *text, struct strbuf *out)
{
    for (; *text; text++) {
        if (*text == '<')
            strbuf_add(out, "&lt;");
        else if (*text == '&')
            strbuf_add(out, "&amp;");
        else
            strbuf_add_char(out, *text);
    }
}

static void add_row(const char *name, const char *value, struct strbuf *out)
{
    strbuf_addf(out, "<tr><th>%s<td>", name);
    add_escaped(value, out);
    strbuf_add(out, "\n");
}

static void add_table(const struct client_report *report, struct strbuf *out)
{
    const struct load_result *result = report->result;
    char text[160];
    strbuf_add(out, "<table>\n");
    add_row("server", report->server, out);
    add_row("data", report->data, out);
    if (report->rate > 0)
        snprintf(text, sizeof text, "%g requests/s over %d connections, batch %d", report->rate,
                 report->connections, report->batch);
    else
        snprintf(text, sizeof text, "%d connections as fast as answers come, batch %d",
                 report->connections, report->batch);
    add_row("load", text, out);
    snprintf(text, sizeof text, "%" PRId64 " in %.1f s, %" PRId64 " failed", result->answered,
             result->seconds, result->failed);
    add_row("answered", text, out);
    snprintf(text, sizeof text, "%.1f requests/s, %.1f examples/s",
             per_second(result, result->answered), per_second(result, result->examples));
    add_row("throughput", text, out);
    snprintf(text, sizeof text, "%.2f %%", 100 * accuracy(result));
    if (result->examples > 0)
        add_row("accuracy", text, out);
    for (int i = 0; i < QUANTILES; i++) {
        snprintf(text, sizeof text, "%.3f ms",
                 latency_quantile(&result->latency, quantiles[i].part) * 1000);
        add_row(quantiles[i].name, text, out);
    }
    strbuf_add(out, "</table>\n");
}

enum { CHART_WIDTH = 720, CHART_HEIGHT = 220, CHART_FOOT = 30 };

static void add_bars(const struct latency *latency, struct strbuf *out)
{
    struct bar bars[BARS];
    uint64_t most = make_bars(latency, bars);
    double width = (double)CHART_WIDTH / BARS;
    strbuf_addf(out, "<h2>Latency</h2>\n<svg viewBox=\"0 0 %d %d\">\n", CHART_WIDTH,
                CHART_HEIGHT + CHART_FOOT);
    for (int i = 0; i < BARS; i++) {
        double height = (double)bars[i].count * CHART_HEIGHT / (double)most;
        strbuf_addf(out,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%.3f ms or "
                    "less: %" PRIu64 "</title></rect>\n",
                    i * width + 1, CHART_HEIGHT - height, width - 2, height, bars[i].to * 1000,
                    bars[i].count);
        if (i % 3 == 0)
            strbuf_addf(out, "<text x=\"%.1f\" y=\"%d\">%.2f ms</text>\n", i * width,
                        CHART_HEIGHT + 18, bars[i].to * 1000);
    }
    strbuf_add(out, "</svg>\n");
}

static void add_rates(const struct load_result *result, struct strbuf *out)
{
    int seconds = (int)fmin(ceil(result->seconds) + 1, LOAD_SECONDS);
    uint32_t most = 1;
    for (int i = 0; i < seconds; i++)
        if (result->per_second[i] > most)
            most = result->per_second[i];
    strbuf_addf(out,
                "<h2>Answers per second (at most %" PRIu32 ")</h2>\n<svg viewBox=\"0 0 %d %d\">\n"
                "<polyline points=\"",
                most, CHART_WIDTH, CHART_HEIGHT);
    for (int i = 0; i < seconds; i++)
        strbuf_addf(out, "%.1f,%.1f ", (double)i * CHART_WIDTH / seconds,
                    CHART_HEIGHT - (double)result->per_second[i] * (CHART_HEIGHT - 4) / most);
    strbuf_add(out, "\"/>\n</svg>\n");
}

void client_report_html(const struct client_report *report, struct strbuf *out)
{
    strbuf_add(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>");
    add_escaped(report->model, out);
    strbuf_add(out, " under load</title>\n<style>\n"
                    "body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;"
                    "padding:0 1em;color:#1b2733;background:#fff}\n"
                    "th{text-align:left;padding-right:2em;font-weight:500;color:#5a6b7b}\n"
                    "svg{width:100%}rect{fill:#3572b0}polyline{fill:none;stroke:#3572b0;"
                    "stroke-width:2}text{font-size:12px;fill:#5a6b7b}\n"
                    "@media(prefers-color-scheme:dark){body{color:#dde5ec;background:#12181f}}\n"
                    "</style>\n<h1>");
    add_escaped(report->model, out);
    strbuf_add(out, " by ");
    add_escaped(report->protocol, out);
    strbuf_add(out, "</h1>\n");
    add_table(report, out);
    if (report->result->answered > 0) {
        add_bars(&report->result->latency, out);
        add_rates(report->result, out);
    }
    strbuf_add(out, "</html>\n");
}
