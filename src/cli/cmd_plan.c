#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "predict/forecast.h"
#include "predict/measurement.h"
#include "train/bucket_tuner.h"

enum { MAX_ROWS = 64, MAX_RANKS = 65536 };

struct plan_settings {
    const char *run, *ranks, *bandwidth, *talk_limit, *bucket, *wire, *json;
    int per_host, seed;
    double latency, speed, spread, compute_loss, talk_loss, price, epochs, examples;
};

/* How two ranks of one machine with two cores talk; see docs/planning.md for how they were found. */
static const struct network usual = {
    .payload = 0.949, /* 1448 of 1526 bytes: TCP with time stamps in Ethernet frames */
    .rank_bandwidth = 1.5e9,
    .host_bandwidth = 3.4e9,
    .host_latency = 3e-6,
    .add_bandwidth = 6e9,
    .pack_bandwidth = 12e9,
};

static const struct option options[] = {
    OPTION_ARGUMENT(plan_settings, run, "RUN", .required = true,
                    .help = "what `lockstep train MODEL --timeline --json RUN` wrote; one rank is "
                            "enough"),
    OPTION_SECTION("Ranks"),
    OPTION_TEXT(plan_settings, ranks, "ranks", .value = "N,N,...", .initial = "1..64",
                .help = "numbers of ranks to predict; A..B doubles from A to B"),
    OPTION_INT(plan_settings, per_host, "ranks-per-host", .min = 1, .max = 4096, .initial = "1",
               .help = "ranks of one host, which share its link"),
    OPTION_TEXT(plan_settings, bucket, "bucket", .value = "SIZE", .initial = "auto",
                .help = "as of `lockstep train`: bytes of gradients that ranks add at a time, all, "
                        "or auto: the best of the sizes that train tries"),
    OPTION_CHOICE(plan_settings, wire, "wire", .choices = ranks_wires, .initial = "float32",
                  .help = "what gradients travel as"),
    OPTION_SECTION("Network"),
    OPTION_TEXT(plan_settings, bandwidth, "bandwidth", .value = "RATE", .initial = "10Gbit",
                .help = "of a host's link, each way, a second: 200Mbit, 10Gbit, 100Gbit"),
    OPTION_SECONDS(plan_settings, latency, "latency", .min = 0, .max = 10, .initial = "50us",
                   .help = "of a message from one host to another"),
    OPTION_SECTION("Computation"),
    OPTION_NUMBER(plan_settings, speed, "speed", .min = 1e-6, .max = 1e6, .initial = "1",
                  .help = "as if each rank computed so many times as fast as in the run"),
    OPTION_NUMBER(plan_settings, spread, "spread", .min = 0, .max = 1, .initial = "0",
                  .help = "deviation of the ranks' times from each other, relative (0.05); all "
                          "wait for the slowest"),
    OPTION_INT(plan_settings, seed, "seed", OPTION_AT_LEAST(0), .initial = "1",
               .help = "of the draws of --spread"),
    OPTION_NUMBER(plan_settings, compute_loss, "compute-loss", .min = 0, .max = 0.9,
                  .initial = "0.05",
                  .help = "part of its speed that computation loses while ranks talk beside it; 0 "
                          "where each rank has a core to spare"),
    OPTION_NUMBER(plan_settings, talk_loss, "talk-loss", .min = 0, .max = 0.9, .initial = "0.3",
                  .help = "part of its speed that talking loses to the computation"),
    OPTION_TEXT(plan_settings, talk_limit, "talk-limit", .value = "RATE",
                .initial_note = "as much as without computation",
                .help = "what one rank gets through its sockets beside the computation, each way, "
                        "however fast the link: 700Mbit"),
    OPTION_SECTION("Cost"),
    OPTION_NUMBER(plan_settings, price, "price", .min = 0, .max = 1e9, .initial = "0",
                  .initial_note = "not counted", .help = "of a host for an hour, in any money"),
    OPTION_NUMBER(plan_settings, epochs, "epochs", .min = 0, .max = 1e9, .initial = "1",
                  .help = "passes over the data"),
    OPTION_NUMBER(plan_settings, examples, "examples", .min = 0, .max = 1e15, .initial = "0",
                  .initial_note = "no time or cost of a whole training",
                  .help = "examples of one pass"),
    OPTION_SECTION("Results"),
    OPTION_TEXT(plan_settings, json, "json", .value = "FILE",
                .help = "write the prediction as one JSON object; - is standard output, where "
                        "nothing else is printed then"),
    OPTION_END};

/* Everything the pages are made from. */
struct plan_job {
    const struct plan_settings *settings;
    struct arena *arena;
    struct measurement run;
    struct forecast_question question;
    size_t bucket; /* that was given */
    int ranks[MAX_ROWS], count;
    struct forecast rows[MAX_ROWS];
};

/* --- words to numbers ------------------------------------------------------------------------- */

static int bad_ranks(const char *text, struct error *err)
{
    return error_set(err, ERROR_USAGE,
                     "--ranks=%s: expected numbers from 1 to %d, at most %d of them, such as "
                     "1,2,4 or 8..4096",
                     text, MAX_RANKS, MAX_ROWS);
}

static int parse_ranks(struct plan_job *job, const char *text, struct error *err)
{
    const char *at = text;
    do {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return bad_ranks(text, err);
        if (!strncmp(end, "..", 2)) {
            at = end + 2;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 1 || last < first || last > MAX_RANKS || (*end && *end != ','))
            return bad_ranks(text, err);
        for (; first <= last; first *= 2) {
            if (job->count == MAX_ROWS)
                return bad_ranks(text, err);
            job->ranks[job->count++] = (int)first;
        }
        at = *end ? end + 1 : NULL;
    } while (at);
    return 0;
}

static int parse_rate(const char *name, const char *text, double *out, struct error *err)
{
    static const struct {
        const char *name;
        double bits;
    } units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i].name);
        bool named = !strncasecmp(end, units[i].name, length) &&
                     (!end[length] || !strcasecmp(end + length, "/s"));
        double bytes = value * units[i].bits / 8;
        if (!named || !(bytes >= 1) || !(bytes <= 1e15))
            continue;
        *out = bytes;
        return 0;
    }
    return error_set(err, ERROR_USAGE, "--%s=%s: is not a rate: write 200Mbit, 10Gbit or 100Gbit",
                     name, text);
}

static int parse_bucket(struct plan_job *job, const char *text, struct error *err)
{
    const struct option bytes = {.type = OPTION_IS_BYTES, .name = "bucket"};
    job->question.bucket_sizes = &job->bucket;
    job->question.bucket_count = 1;
    if (!strcmp(text, "auto")) {
        job->question.bucket_sizes = bucket_tuner_sizes;
        job->question.bucket_count = TUNER_SIZES;
    } else if (strcmp(text, "all") != 0) {
        if (option_set(&bytes, "--bucket", text, &job->bucket, err) < 0)
            return -1;
        job->bucket = job->bucket ? job->bucket : 1; /* as of train: each tensor alone */
    }
    return 0;
}

static int prepare(struct plan_job *job, const struct options *parsed, struct error *err)
{
    const struct plan_settings *settings = job->settings;
    job->arena = arena_create();
    if (!job->arena)
        return error_set(err, ERROR_MEMORY, "no memory for a prediction");
    job->question = (struct forecast_question){
        .network = usual,
        .sharing = {.compute_loss = settings->compute_loss, .talk_loss = settings->talk_loss},
        .per_host = settings->per_host,
        .half = !strcmp(settings->wire, "float16"),
        .spread = settings->spread,
        .seed = (uint64_t)settings->seed,
    };
    /* A limit stands in place of the usual loss. */
    if (settings->talk_limit && options_source(parsed, "talk-loss") == OPTION_FROM_TABLE)
        job->question.sharing.talk_loss = 0;
    job->question.network.latency = settings->latency;
    if (parse_ranks(job, settings->ranks, err) < 0 ||
        parse_rate("bandwidth", settings->bandwidth, &job->question.network.bandwidth, err) < 0 ||
        (settings->talk_limit && parse_rate("talk-limit", settings->talk_limit,
                                            &job->question.sharing.talk_limit, err) < 0) ||
        parse_bucket(job, settings->bucket, err) < 0 ||
        measurement_read(settings->run, job->arena, &job->run, err) < 0)
        return -1;
    measurement_speed_up(&job->run, settings->speed);
    job->question.work = &job->run.work;
    job->question.batch = job->run.batch;
    return 0;
}

/* --- pages ------------------------------------------------------------------------------------ */

static bool counts_trainings(const struct plan_job *job)
{
    return job->settings->examples > 0 && job->settings->epochs > 0;
}

static double training_hours(const struct plan_job *job, const struct forecast *row)
{
    return job->settings->examples * job->settings->epochs / row->examples_per_second / 3600;
}

static double training_cost(const struct plan_job *job, const struct forecast *row)
{
    return training_hours(job, row) * row->hosts * job->settings->price;
}

static double gradient_bytes(const struct step_work *work)
{
    double bytes = 0;
    for (int i = 0; i < work->count; i++)
        bytes += work->gradients[i].bytes;
    return bytes;
}

static void print_head(const struct plan_job *job, struct strbuf *out)
{
    const struct measurement *run = &job->run;
    strbuf_addf(out,
                "%s, batch %d and %d thread%s a rank: %.1f MB of gradients, %.4g s a step without "
                "talking\n",
                run->model, run->batch, run->threads, run->threads == 1 ? "" : "s",
                gradient_bytes(&run->work) / 1e6, run->work.compute + run->work.update);
    strbuf_addf(out, "measured: %d steps of %d rank%s, spread %.1f %%", run->steps, run->ranks,
                run->ranks == 1 ? "" : "s", 100 * run->spread);
    if (job->settings->speed != 1)
        strbuf_addf(out, "; here as if computed %g times as fast", job->settings->speed);
    strbuf_add(out, "\n");
    strbuf_addf(out, "network: %s a second and %g us between hosts, %d rank%s a host, %s\n\n",
                job->settings->bandwidth, job->settings->latency * 1e6, job->settings->per_host,
                job->settings->per_host == 1 ? "" : "s", job->settings->wire);
}

static void print_row(const struct plan_job *job, const struct forecast *row, struct strbuf *out)
{
    char bucket[24] = "-";
    if (row->ranks > 1 && row->bucket_bytes >= 1 << 20)
        snprintf(bucket, sizeof bucket, "%zuM", row->bucket_bytes >> 20);
    else if (row->ranks > 1 && row->bucket_bytes)
        snprintf(bucket, sizeof bucket, "%zu", row->bucket_bytes);
    else if (row->ranks > 1)
        snprintf(bucket, sizeof bucket, "all");
    strbuf_addf(out, "%6d  %5d  %7s  %10.4f  %10.4f  %10.4f  %8.1f %%  %12.1f", row->ranks,
                row->hosts, bucket, row->times.step, row->times.exposed, row->times.hidden,
                100 * row->efficiency, row->examples_per_second);
    if (counts_trainings(job))
        strbuf_addf(out, "  %10.1f", training_hours(job, row));
    if (counts_trainings(job) && job->settings->price > 0)
        strbuf_addf(out, "  %12.2f", training_cost(job, row));
    strbuf_add(out, "\n");
}

static int print_table(const struct plan_job *job, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text);
    print_head(job, &text);
    strbuf_addf(&text, "%6s  %5s  %7s  %10s  %10s  %10s  %10s  %12s", "ranks", "hosts", "bucket",
                "step s", "exposed s", "hidden s", "efficiency", "examples/s");
    if (counts_trainings(job))
        strbuf_addf(&text, "  %10s", "hours");
    if (counts_trainings(job) && job->settings->price > 0)
        strbuf_addf(&text, "  %12s", "cost");
    strbuf_add(&text, "\n");
    for (int i = 0; i < job->count; i++)
        print_row(job, &job->rows[i], &text);
    strbuf_addf(&text,
                "\nExtrapolation: %d rank%s measured; the rest is a model that was checked with "
                "two ranks only (docs/planning.md).\n",
                job->run.ranks, job->run.ranks == 1 ? " was" : "s were");
    int status = output_text(&text, err);
    strbuf_release(&text);
    return status;
}

static struct json *row_json(const struct plan_job *job, const struct forecast *row)
{
    struct json *json = json_object_create();
    json_set_integer(json, "ranks", row->ranks);
    json_set_integer(json, "hosts", row->hosts);
    json_set_bool(json, "extrapolation", row->ranks != job->run.ranks);
    json_set_integer(json, "bucket_bytes", (int64_t)row->bucket_bytes);
    json_set_integer(json, "buckets", row->times.buckets);
    json_set_number(json, "step_seconds", row->times.step);
    json_set_number(json, "reduction_seconds", row->times.talk);
    json_set_number(json, "exposed_seconds", row->times.exposed);
    json_set_number(json, "hidden_seconds", row->times.hidden);
    json_set_number(json, "efficiency", row->efficiency);
    json_set_number(json, "examples_per_second", row->examples_per_second);
    json_set_number(json, "hours", counts_trainings(job) ? training_hours(job, row) : NAN);
    json_set_number(json, "cost", counts_trainings(job) ? training_cost(job, row) : NAN);
    return json;
}

static int write_json(const struct plan_job *job, struct error *err)
{
    struct json *json = json_object_create(), *list = json_array_create();
    json_set_text(json, "model", job->run.model);
    json_set_integer(json, "batch", job->run.batch);
    json_set_integer(json, "measured_ranks", job->run.ranks);
    json_set_number(json, "measured_step_seconds", job->run.step_seconds);
    json_set_number(json, "gradient_bytes", gradient_bytes(&job->run.work));
    json_set_number(json, "bandwidth_bytes_per_second", job->question.network.bandwidth);
    json_set_number(json, "latency_seconds", job->settings->latency);
    json_set_integer(json, "ranks_per_host", job->settings->per_host);
    json_set_text(json, "wire", job->settings->wire);
    json_set_number(json, "speed", job->settings->speed);
    for (int i = 0; i < job->count; i++)
        json_append(list, row_json(job, &job->rows[i]));
    json_set(json, "predictions", list);
    int status = output_json(json, job->settings->json, err);
    json_release(json);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    (void)parsed;
    struct plan_job job = {.settings = settings};
    const char *target = job.settings->json;
    int status = output_json_prepare(target, err);
    if (status == 0)
        status = prepare(&job, parsed, err);
    for (int i = 0; status == 0 && i < job.count; i++)
        forecast(&job.question, job.ranks[i], &job.rows[i]);
    if (status == 0 && (!target || strcmp(target, "-") != 0))
        status = print_table(&job, err);
    if (status == 0 && target)
        status = write_json(&job, err);
    arena_destroy(job.arena);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .order = 35,
    .summary = "predict how a measured training scales over a network",
    .description =
        "Takes the time line of a step that `lockstep train --timeline --json RUN` measured, on "
        "one rank or more, and plays it through on more ranks: each bucket of gradients is added "
        "up as soon as it is final, one after the other, beside the rest of the computation, by "
        "the algorithms that Open MPI chooses for its size. Ranks of a host share its link.\n"
        "\n"
        "step: one step, all together. exposed: what of it only waits for other ranks. hidden: "
        "the time of reductions that ran beside the computation. efficiency: the speed against as "
        "many single ranks that need not talk; the batch of a rank stays the same.\n"
        "\n"
        "What was not measured is extrapolation. The model knows no switches that are shared with "
        "others, no failures, and no input that becomes slower when more ranks read it.",
    .examples =
        "# measure: ten steps are enough\n"
        "lockstep train resnet50 --data synthetic --batch-size 32 --steps 20 --timeline "
        "--json run.json\n"
        "# how would it do on 8 to 4,096 ranks, eight to a host, over 25 Gbit/s?\n"
        "lockstep plan run.json --ranks 8..4096 --ranks-per-host 8 --bandwidth 25Gbit "
        "--latency 20us\n"
        "# what would 90 epochs of ImageNet cost?\n"
        "lockstep plan run.json --ranks 16,32,64 --ranks-per-host 8 --price 1.5 --epochs 90 "
        "--examples 1281167\n",
    .options = options,
    .settings_size = sizeof(struct plan_settings),
    .run = run,
};
