/* The yardstick: how long a training step would take if it were nothing but oneDNN's own
 * primitives, each in the layout it likes best. It shares no code with lockstep.
 *
 *     primitives resnet50 --batch 32 --layers
 */
#include "network.h"
#include "peak.h"
#include "step.h"

#include <errno.h>
#include <getopt.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REPEATS = 1000 };

struct options {
    const char *network;
    int batch, threads, repeats, warmup;
    bool layers, peak;
    const char *json;
};

struct result {
    double pass_seconds[PASS_COUNT], pass_flops[PASS_COUNT];
    double sum_seconds;         /* conv + dense + norm: sum of the medians of each primitive */
    double other_seconds;       /* the rest, likewise */
    double median_step_seconds; /* median over the repeats of conv + dense + norm */
    double flops, peak_gflops;
};

static const char *const pass_names[PASS_COUNT] = {
    "conv_forward", "conv_backward_data", "conv_backward_weights", "dense", "batch_norm", "other"};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int count)
{
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* Whole steps in the order of a real one, so that caches hold what they would hold there. */
static void measure(struct step *step, const struct options *options, struct result *result)
{
    double step_seconds[MAX_REPEATS] = {0};
    for (int i = 0; i < step->work_count; i++)
        step->works[i].seconds = calloc((size_t)options->repeats, sizeof(double));
    for (int repeat = -options->warmup; repeat < options->repeats; repeat++) {
        for (int i = 0; i < step->work_count; i++) {
            struct work *work = &step->works[i];
            double start = now();
            step_run(step, work);
            double seconds = now() - start;
            if (repeat < 0)
                continue;
            work->seconds[repeat] = seconds;
            if (work->pass != PASS_OTHER)
                step_seconds[repeat] += seconds;
        }
    }
    for (int i = 0; i < step->work_count; i++) {
        const struct work *work = &step->works[i];
        double seconds = median(work->seconds, options->repeats);
        result->pass_seconds[work->pass] += seconds;
        result->pass_flops[work->pass] += work->flops;
        result->flops += work->flops;
        *(work->pass == PASS_OTHER ? &result->other_seconds : &result->sum_seconds) += seconds;
    }
    result->median_step_seconds = median(step_seconds, options->repeats);
}

static void print_layers(const struct step *step, const struct options *options)
{
    printf("%-20s %-9s %10s %9s  %s\n", "layer", "pass", "ms", "GFLOP/s", "kernel");
    for (int i = 0; i < step->work_count; i++) {
        const struct work *work = &step->works[i];
        double seconds = median(work->seconds, options->repeats);
        printf("%-20s %-9s %10.3f ", work->layer->name, work->verb, 1e3 * seconds);
        if (work->flops > 0)
            printf("%9.1f", work->flops / seconds / 1e9);
        else
            printf("%9s", "-");
        printf("  %s\n", work->kernel);
    }
    printf("\n");
}

static void print_result(const struct options *options, const struct result *result)
{
    printf("%s, batch %d, %d threads, oneDNN %d.%d.%d, medians of %d repeats\n", options->network,
           options->batch, options->threads, dnnl_version()->major, dnnl_version()->minor,
           dnnl_version()->patch, options->repeats);
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        printf("%-22s %10.2f ms", pass_names[pass], 1e3 * result->pass_seconds[pass]);
        if (result->pass_flops[pass] > 0)
            printf(" %8.1f GFLOP/s", result->pass_flops[pass] / result->pass_seconds[pass] / 1e9);
        printf("\n");
    }
    printf("%-22s %10.2f ms %8.1f GFLOP/s  %.2f examples/s (all but \"other\")\n", "sum",
           1e3 * result->sum_seconds, result->flops / result->sum_seconds / 1e9,
           options->batch / result->sum_seconds);
    if (result->peak_gflops > 0)
        printf("%-22s %10.1f GFLOP/s; the sum runs at %.0f %% of it\n", "FMA peak",
               result->peak_gflops,
               100 * result->flops / result->sum_seconds / 1e9 / result->peak_gflops);
}

static void json_layers(FILE *file, const struct step *step, const struct options *options)
{
    fprintf(file, ", \"layers\": [");
    for (int i = 0; i < step->work_count; i++) {
        const struct work *work = &step->works[i];
        fprintf(file,
                "%s{\"layer\": \"%s\", \"pass\": \"%s\", \"class\": \"%s\", \"seconds\": %.9f, "
                "\"flops\": %.0f, \"kernel\": \"%s\"}",
                i ? ", " : "", work->layer->name, work->verb, pass_names[work->pass],
                median(work->seconds, options->repeats), work->flops, work->kernel);
    }
    fprintf(file, "]");
}

static void write_json(FILE *file, const struct step *step, const struct options *options,
                       const struct result *result)
{
    fprintf(file, "{\"model\": \"%s\", \"batch\": %d, \"threads\": %d, \"repeats\": %d, ",
            options->network, options->batch, options->threads, options->repeats);
    fprintf(file, "\"sum_seconds\": %.9f, \"other_seconds\": %.9f, \"median_step_seconds\": %.9f, ",
            result->sum_seconds, result->other_seconds, result->median_step_seconds);
    for (int pass = 0; pass < PASS_OTHER; pass++)
        fprintf(file, "\"%s_seconds\": %.9f, ", pass_names[pass], result->pass_seconds[pass]);
    fprintf(file, "\"flops\": %.0f, \"gflops\": %.3f, \"peak_gflops\": %.3f, ", result->flops,
            result->flops / result->sum_seconds / 1e9, result->peak_gflops);
    fprintf(file, "\"examples_per_second\": %.3f", options->batch / result->sum_seconds);
    if (options->layers)
        json_layers(file, step, options);
    fprintf(file, "}\n");
}

static int save_json(const struct step *step, const struct options *options,
                     const struct result *result)
{
    bool to_stdout = strcmp(options->json, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(options->json, "w");
    if (!file) {
        fprintf(stderr, "primitives: %s: %s\n", options->json, strerror(errno));
        return -1;
    }
    write_json(file, step, options, result);
    int failed = fflush(file) != 0;
    if (!to_stdout)
        failed |= fclose(file) != 0;
    if (failed)
        fprintf(stderr, "primitives: %s: %s\n", options->json, strerror(errno));
    return failed ? -1 : 0;
}

static void usage(FILE *file)
{
    fprintf(file, "usage: primitives resnet50|vgg16|mnist [--batch N] [--threads N] [--repeats N]\n"
                  "                  [--warmup N] [--layers] [--peak] [--json FILE|-]\n"
                  "       primitives --peak [--threads N]\n");
}

static int parse_count(const char *name, const char *text, int least, int most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < least || value > most) {
        fprintf(stderr, "primitives: --%s=%s: a number from %d to %d is needed\n", name, text,
                least, most);
        exit(2);
    }
    return (int)value;
}

static struct options parse(int argc, char **argv)
{
    static const struct option table[] = {{"batch", required_argument, NULL, 'b'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"repeats", required_argument, NULL, 'r'},
                                          {"warmup", required_argument, NULL, 'w'},
                                          {"layers", no_argument, NULL, 'l'},
                                          {"peak", no_argument, NULL, 'p'},
                                          {"json", required_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {
        .batch = 32, .threads = omp_get_max_threads(), .repeats = 5, .warmup = 1};
    for (int letter; (letter = getopt_long(argc, argv, "h", table, NULL)) != -1;) {
        switch (letter) {
        case 'b':
            options.batch = parse_count("batch", optarg, 1, 1 << 16);
            break;
        case 't':
            options.threads = parse_count("threads", optarg, 1, 1 << 12);
            break;
        case 'r':
            options.repeats = parse_count("repeats", optarg, 1, MAX_REPEATS);
            break;
        case 'w':
            options.warmup = parse_count("warmup", optarg, 0, MAX_REPEATS);
            break;
        case 'l':
            options.layers = true;
            break;
        case 'p':
            options.peak = true;
            break;
        case 'j':
            options.json = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind < argc)
        options.network = argv[optind++];
    if (optind < argc || (!options.network && !options.peak)) {
        usage(stderr);
        exit(2);
    }
    return options;
}

static int run(const struct options *options, const struct network *network, double peak)
{
    struct result result = {.peak_gflops = peak};
    struct step step;
    step_create(&step, network, options->batch);
    measure(&step, options, &result);
    size_t odd = step_odd_numbers(&step);
    if (odd > step.gradient_bytes / sizeof(float) / 1000)
        fprintf(stderr, "primitives: %zu numbers are denormal or not finite; times may be off\n",
                odd);
    bool quiet = options->json && strcmp(options->json, "-") == 0;
    if (!quiet && options->layers)
        print_layers(&step, options);
    if (!quiet)
        print_result(options, &result);
    int status = options->json ? save_json(&step, options, &result) : 0;
    for (int i = 0; i < step.work_count; i++)
        free(step.works[i].seconds);
    step_destroy(&step);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct network network;
    if (options.network && !network_find(options.network, &network)) {
        fprintf(stderr, "primitives: no network %s; there are resnet50, vgg16 and mnist\n",
                options.network);
        return 2;
    }
    omp_set_num_threads(options.threads);
    double peak = options.peak ? peak_gflops() : 0;
    if (options.network)
        return run(&options, &network, peak) < 0 ? 1 : 0;
    if (options.json && strcmp(options.json, "-") == 0)
        printf("{\"threads\": %d, \"peak_gflops\": %.3f}\n", options.threads, peak);
    else
        printf("FMA peak of %d threads: %.1f GFLOP/s\n", options.threads, peak);
    return 0;
}
