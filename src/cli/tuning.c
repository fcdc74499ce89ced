#include "cli/tuning.h"

#include <math.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/strbuf.h"
#include "exec/kernel_rules.h"
#include "exec/known_ops.h"
#include "exec/op.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "train/feed.h"

enum { ROUNDS = 3, MOST_KERNELS = 8, MOST_SHAPES = 1024, PASSES = 3 };

/* What the fixed rule would choose stays, unless another is faster by more than two runs of the same
 * kernel differ. */
static const double WORTH_IT = 0.97;

/* Seconds of one node; the least over the rounds, so that a disturbance does not decide. */
struct cost {
    bool known;
    double pass[PASSES];
};

/* All nodes of one key. */
struct shape_cost {
    char key[KERNEL_KEY_BYTES];
    int nodes;
    bool pools; /* a kernel computes the pool behind it, too: its time cannot be compared */
    int fixed;  /* kernel that the fixed rule takes */
    struct cost costs[MOST_KERNELS];
};

struct tuning {
    const struct tuning_run *run;
    const struct op_kernel *const *kernels; /* of a convolution */
    int kernel_count;
    int shape_count;
    struct shape_cost shapes[MOST_SHAPES];
};

static double total(const struct cost *cost)
{
    return cost->pass[0] + cost->pass[1] + cost->pass[2];
}

static struct shape_cost *find_shape(struct tuning *tuning, const char *key)
{
    for (int i = 0; i < tuning->shape_count; i++)
        if (strcmp(tuning->shapes[i].key, key) == 0)
            return &tuning->shapes[i];
    return NULL;
}

static int list_shapes(struct tuning *tuning, struct error *err)
{
    const struct graph *graph = tuning->run->session->graph;
    for (int n = 0; n < graph_node_count(graph); n++) {
        char key[KERNEL_KEY_BYTES];
        if (!kernel_rules_key(graph, graph_node_at(graph, n), tuning->run->batch, key))
            continue;
        struct shape_cost *shape = find_shape(tuning, key);
        if (!shape) {
            if (tuning->shape_count == MOST_SHAPES)
                return error_set(err, ERROR_USAGE, "--tune: more than %d shapes", MOST_SHAPES);
            shape = &tuning->shapes[tuning->shape_count++];
            snprintf(shape->key, sizeof shape->key, "%s", key);
        }
        shape->nodes++;
    }
    if (tuning->shape_count == 0)
        return error_set(err, ERROR_USAGE, "--tune: %s has no convolution",
                         tuning->run->session->model->name);
    return 0;
}

/* --- one trial: all nodes with this kernel, where it fits --- */

static void add_steps(const struct plan *plan, const char *node, struct cost *cost, bool *pools)
{
    static const char *const passes[PASSES] = {"forward", "backward weights", "backward"};
    for (int s = 0; s < plan_step_count(plan); s++) {
        struct plan_step_info step = plan_step(plan, s);
        if (strcmp(step.node, node) != 0)
            continue;
        *pools |= strstr(step.fused, "pool") != NULL;
        for (int p = 0; p < PASSES; p++)
            if (strcmp(step.pass, passes[p]) == 0)
                cost->pass[p] += step.seconds / step.runs;
    }
}

static int kernel_index(const struct tuning *tuning, const char *name)
{
    int index = 0;
    while (strcmp(tuning->kernels[index]->name, name) != 0)
        index++;
    return index;
}

/* The mean over the nodes of each shape, which all have the same kernel. */
static void take_costs(struct tuning *tuning, const struct plan *plan)
{
    const struct graph *graph = tuning->run->session->graph;
    for (int i = 0; i < tuning->shape_count; i++) {
        struct shape_cost *shape = &tuning->shapes[i];
        struct cost sum = {0};
        int kernel = -1;
        for (int n = 0; n < graph_node_count(graph); n++) {
            const struct node *node = graph_node_at(graph, n);
            char key[KERNEL_KEY_BYTES];
            const char *name = plan_kernel(plan, node);
            if (!name || !kernel_rules_key(graph, node, tuning->run->batch, key) ||
                strcmp(key, shape->key) != 0)
                continue;
            kernel = kernel_index(tuning, name);
            add_steps(plan, node->name, &sum, &shape->pools);
        }
        if (kernel < 0)
            continue;
        for (int p = 0; p < PASSES; p++)
            sum.pass[p] /= shape->nodes;
        struct cost *best = &shape->costs[kernel];
        if (!best->known || total(&sum) < total(best))
            *best = sum;
        best->known = true;
    }
}

static void take_fixed(struct tuning *tuning, const struct plan *plan)
{
    const struct graph *graph = tuning->run->session->graph;
    for (int n = 0; n < graph_node_count(graph); n++) {
        const struct node *node = graph_node_at(graph, n);
        char key[KERNEL_KEY_BYTES];
        const char *name = plan_kernel(plan, node);
        if (name && kernel_rules_key(graph, node, tuning->run->batch, key))
            find_shape(tuning, key)->fixed = kernel_index(tuning, name);
    }
}

static int run_steps(const struct tuning *tuning, struct plan *plan, struct error *err)
{
    const struct tuning_run *run = tuning->run;
    struct feed feed;
    if (feed_init(&feed, run->session->graph, plan, &run->data->source.trainer, err) < 0)
        return -1;
    /* One more: the plan forgets the first. */
    for (int64_t step = 0; step <= run->steps; step++) {
        if (stop_check(run->session->stop, err) < 0 || feed_next(&feed, err) < 0)
            return -1;
        feed_forward(&feed);
        plan_backward(plan, 1.0f / (float)run->batch, NULL, NULL);
    }
    return 0;
}

/* A plan with parameters of its own: the first plan decides how they lie. */
struct trial {
    struct params *params;
    struct plan *plan;
};

static int trial_open(const struct tuning *tuning, const struct kernel_rules *rules,
                      struct trial *trial, struct error *err)
{
    const struct tuning_run *run = tuning->run;
    struct plan_options options = {.mode = PLAN_TRAIN,
                                   .batch = run->batch,
                                   .threads = run->threads,
                                   .kernels = rules,
                                   .profile = true};
    *trial = (struct trial){0};
    if (params_create(run->session->graph, 0, NULL, &trial->params, err) < 0)
        return -1;
    return plan_create(run->session->graph, trial->params, &options, &trial->plan, err);
}

static void trial_close(struct trial *trial)
{
    plan_destroy(trial->plan);
    params_destroy(trial->params);
}

static int find_fixed(struct tuning *tuning, struct error *err)
{
    struct trial trial;
    int status = trial_open(tuning, NULL, &trial, err);
    if (status == 0)
        take_fixed(tuning, trial.plan);
    trial_close(&trial);
    return status;
}

/* `seen`: fingerprints of the plans of this round; one that there was already is not run again. */
static int try_rules(struct tuning *tuning, const struct kernel_rules *rules, uint64_t *seen,
                     struct error *err)
{
    struct trial trial;
    int status = -1;
    if (trial_open(tuning, rules, &trial, err) == 0 &&
        params_initialize(trial.params, tuning->run->seed, err) == 0) {
        int known = 0;
        while (seen[known] && seen[known] != plan_fingerprint(trial.plan))
            known++;
        bool again = seen[known] != 0;
        seen[known] = plan_fingerprint(trial.plan);
        status = again ? 0 : run_steps(tuning, trial.plan, err);
        if (status == 0 && !again)
            take_costs(tuning, trial.plan);
    }
    trial_close(&trial);
    return status;
}

static int try_kernel(struct tuning *tuning, int kernel, uint64_t *seen, struct error *err)
{
    char text[128];
    struct kernel_rules *rules;
    int length =
        snprintf(text, sizeof text, "kernels 1\nconv2d * use %s\n", tuning->kernels[kernel]->name);
    if (kernel_rules_parse("a trial", text, (size_t)length, &rules, err) < 0)
        return -1;
    int status = try_rules(tuning, rules, seen, err);
    kernel_rules_destroy(rules);
    return status;
}

static int measure(struct tuning *tuning, struct error *err)
{
    if (find_fixed(tuning, err) < 0)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seen[MOST_KERNELS + 1] = {0};
        for (int k = 0; k < tuning->kernel_count; k++)
            if (try_kernel(tuning, k, seen, err) < 0)
                return -1;
    }
    return 0;
}

/* --- the file --- */

static int best_choice(const struct tuning *tuning, const struct shape_cost *shape)
{
    int best = shape->fixed;
    double limit = WORTH_IT * total(&shape->costs[best]);
    for (int k = 0; k < tuning->kernel_count; k++)
        if (shape->costs[k].known && total(&shape->costs[k]) < limit) {
            best = k;
            limit = total(&shape->costs[k]);
        }
    return best;
}

static void write_shape(const struct tuning *tuning, const struct shape_cost *shape,
                        struct strbuf *out)
{
    strbuf_add(out, "#");
    for (int k = 0; k < tuning->kernel_count; k++) {
        const struct cost *cost = &shape->costs[k];
        if (cost->known)
            strbuf_addf(out, " %s %.3f + %.3f + %.3f", tuning->kernels[k]->name,
                        1e3 * cost->pass[0], 1e3 * cost->pass[1], 1e3 * cost->pass[2]);
    }
    if (shape->pools)
        strbuf_add(out, "; with the pool behind it, so not compared");
    else if (best_choice(tuning, shape) != shape->fixed)
        strbuf_addf(out, "; the fixed rule takes %s", tuning->kernels[shape->fixed]->name);
    strbuf_addf(out, "\n%s%s use %s\n", shape->pools ? "# " : "", shape->key,
                tuning->kernels[best_choice(tuning, shape)]->name);
}

static void write_rules(const struct tuning *tuning, struct strbuf *out)
{
    char processor[128];
    session_name_processor(processor, sizeof processor);
    strbuf_addf(out,
                "kernels 1\n"
                "# lockstep bench %s --batch-size %d --tune, version %s. Milliseconds of a layer: "
                "forward + weight gradient + data gradient.\n"
                "processor %s\nthreads %d\n",
                tuning->run->session->model->name, tuning->run->batch, LOCKSTEP_VERSION, processor,
                tuning->run->threads);
    for (int i = 0; i < tuning->shape_count; i++)
        write_shape(tuning, &tuning->shapes[i], out);
}

static int save(const struct tuning *tuning, struct error *err)
{
    const struct tuning_run *run = tuning->run;
    struct strbuf text;
    int others = 0;
    strbuf_init(&text);
    write_rules(tuning, &text);
    for (int i = 0; i < tuning->shape_count; i++)
        others += !tuning->shapes[i].pools &&
                  best_choice(tuning, &tuning->shapes[i]) != tuning->shapes[i].fixed;
    int status = text.failed ? error_set(err, ERROR_MEMORY, "no memory for the rules")
                             : file_write_atomic(run->path, text.text, text.length, err);
    if (status < 0)
        error_wrap(err, "--tune");
    else if (run->out)
        fprintf(run->out,
                "%s%s: %d shapes, of which %d are faster with another kernel than the fixed rule "
                "takes. Follow it with --kernels=%s\n",
                text.text, run->path, tuning->shape_count, others, run->path);
    strbuf_release(&text);
    return status;
}

int tuning_run(const struct tuning_run *run, struct error *err)
{
    struct tuning *tuning = memory_allocate(sizeof *tuning);
    if (!tuning)
        return error_set(err, ERROR_MEMORY, "no memory for --tune");
    *tuning = (struct tuning){.run = run, .kernels = op_conv2d.kernels};
    while (tuning->kernels[tuning->kernel_count] && tuning->kernel_count < MOST_KERNELS)
        tuning->kernel_count++;
    int status = -1;
    if (list_shapes(tuning, err) == 0 && measure(tuning, err) == 0)
        status = save(tuning, err);
    memory_free(tuning);
    return status;
}
