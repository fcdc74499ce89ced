/* The public face for programs that train by a loop of their own: thin, because every part it
 * joins is the one the lockstep program uses. */
#include <lockstep/lockstep.h>
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "exec/sparse.h"
#include "graph/graph.h"
#include "models/registry.h"
#include "store/weights.h"
#include "train/feed.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/source.h"

struct lockstep_network {
    const struct model *model;
    struct model_args args;
    struct lockstep_options options;
    struct graph *graph;
    struct params *params;
    struct plan *plan, *evaluation_plan;
    struct updater *updater;
    struct sparse_rows *rows; /* one per table of the plan */
    int64_t step;             /* finished ones */
    double loss;              /* of the last forward */
    bool loaded;              /* weights came from a file */
    enum { STEP_NOT_BEGUN, STEP_FORWARD_DONE, STEP_BACKWARD_DONE } at;
};

struct lockstep_data {
    struct lockstep_network *network;
    enum dataset_split split;
    struct source source;
    struct feed feed;
};

/* The internal error becomes the caller's. */
static int report(struct lockstep_error *error, const struct error *err)
{
    if (error)
        snprintf(error->message, sizeof error->message, "%s", err->message);
    return -1;
}

const char *lockstep_version(void)
{
    return LOCKSTEP_VERSION;
}

const struct model *lockstep_model_open(const char *name_or_path, struct lockstep_error *error)
{
    struct error err = {0};
    const struct model *model = NULL;
    if (model_open(name_or_path, &model, &err) < 0)
        report(error, &err);
    return model;
}

/* --- Making one --- */

static int choose_rule(const struct lockstep_options *options, struct param_group *out,
                       struct error *err)
{
    const char *name = options->optimizer ? options->optimizer : "sgd";
    const struct optimizer *optimizer = optimizer_find(name);
    if (!optimizer)
        return error_set(err, ERROR_USAGE, "there is no optimizer \"%s\"", name);
    *out = (struct param_group){
        .prefix = "", .optimizer = optimizer, .settings = optimizer->defaults, .rate_factor = 1};
    out->settings.weight_decay = options->weight_decay;
    if (options->momentum > 0)
        out->settings.momentum = options->momentum;
    return optimizer_check(optimizer, &out->settings, err);
}

static int build_graph(struct lockstep_network *network, struct error *err)
{
    const struct lockstep_options *options = &network->options;
    network->args = network->model->defaults;
    if (options->classes > 0)
        network->args.classes = options->classes;
    if (options->image_size > 0)
        network->args.image_size = options->image_size;
    if (options->label_smoothing > 0)
        network->args.label_smoothing = options->label_smoothing;
    network->graph = graph_create();
    if (!network->graph)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    network->model->build(network->graph, &network->args);
    return graph_finish(network->graph, err);
}

static int make_parts(struct lockstep_network *network, struct error *err)
{
    struct param_group group;
    struct plan_options plan = {
        .mode = PLAN_TRAIN, .batch = network->options.batch, .threads = network->options.threads};
    if (choose_rule(&network->options, &group, err) < 0 || build_graph(network, err) < 0 ||
        params_create(network->graph, updater_slots_needed(&group, 1), NULL, &network->params,
                      err) < 0 ||
        plan_create(network->graph, network->params, &plan, &network->plan, err) < 0 ||
        params_initialize(network->params, network->options.seed, err) < 0 ||
        updater_create(network->params, &group, 1, network->options.threads, &network->updater,
                       err) < 0)
        return error_wrap(err, "model %s", network->model->name);
    network->rows =
        memory_allocate((size_t)(plan_sparse_count(network->plan) + 1) * sizeof *network->rows);
    if (!network->rows)
        return error_set(err, ERROR_MEMORY, "no memory for the network");
    updater_initialize_slots(network->updater);
    return 0;
}

struct lockstep_network *lockstep_network_create(const struct model *model,
                                                 const struct lockstep_options *options,
                                                 struct lockstep_error *error)
{
    struct error err = {0};
    struct lockstep_network *network = memory_allocate(sizeof *network);
    if (!network) {
        error_set(&err, ERROR_MEMORY, "no memory for the network");
        report(error, &err);
        return NULL;
    }
    network->model = model;
    network->options = *options;
    if (make_parts(network, &err) < 0) {
        report(error, &err);
        lockstep_network_destroy(network);
        return NULL;
    }
    return network;
}

void lockstep_network_destroy(struct lockstep_network *network)
{
    if (!network)
        return;
    updater_destroy(network->updater);
    memory_free(network->rows);
    plan_destroy(network->plan);
    plan_destroy(network->evaluation_plan);
    params_destroy(network->params);
    graph_destroy(network->graph);
    memory_free(network);
}

/* --- Data --- */

/* Only programs that evaluate pay for the second plan. */
static int need_evaluation_plan(struct lockstep_network *network, struct error *err)
{
    struct plan_options plan = {.mode = PLAN_EVALUATE,
                                .batch = network->options.batch,
                                .threads = network->options.threads};
    if (network->evaluation_plan)
        return 0;
    return plan_create(network->graph, network->params, &plan, &network->evaluation_plan, err);
}

static int open_data(struct lockstep_data *data, const char *spec, struct error *err)
{
    struct lockstep_network *network = data->network;
    struct source_options options = {.split = data->split,
                                     .batch = network->options.batch,
                                     .classes = network->args.classes,
                                     .seed = network->options.seed,
                                     .threads = -1};
    if (data->split == SPLIT_EVALUATE && need_evaluation_plan(network, err) < 0)
        return -1;
    if (source_open(&data->source, network->graph, spec, &options, err) < 0)
        return -1;
    /* Weights that were loaded, or trained already, have the statistics they were trained with. */
    if (data->split == SPLIT_TRAIN && !network->step && !network->loaded &&
        source_fill_statistics(&data->source, network->graph, SOURCE_SCALE_BY_RANGE,
                               network->params, err) < 0)
        return -1;
    struct plan *plan = data->split == SPLIT_TRAIN ? network->plan : network->evaluation_plan;
    return feed_init(&data->feed, network->graph, plan, &data->source.trainer, err);
}

struct lockstep_data *lockstep_data_open(struct lockstep_network *network, const char *spec,
                                         enum lockstep_split split, struct lockstep_error *error)
{
    struct error err = {0};
    struct lockstep_data *data = memory_allocate(sizeof *data);
    if (!data)
        error_set(&err, ERROR_MEMORY, "no memory for data");
    if (data) {
        data->network = network;
        data->split = split == LOCKSTEP_TRAIN ? SPLIT_TRAIN : SPLIT_EVALUATE;
    }
    if (!data || open_data(data, spec, &err) < 0) {
        report(error, &err);
        lockstep_data_close(data);
        return NULL;
    }
    return data;
}

void lockstep_data_close(struct lockstep_data *data)
{
    if (!data)
        return;
    source_close(&data->source);
    memory_free(data);
}

int64_t lockstep_data_steps_per_epoch(const struct lockstep_data *data)
{
    return loader_steps_per_epoch(data->source.trainer.loader);
}

int lockstep_data_next(struct lockstep_data *data, struct lockstep_error *error)
{
    struct error err = {0};
    /* The batch of the last forward is gone, and with it what backward would read. */
    if (data->split == SPLIT_TRAIN && data->network->at == STEP_FORWARD_DONE)
        data->network->at = STEP_NOT_BEGUN;
    if (feed_next(&data->feed, &err) < 0)
        return report(error, &err);
    return data->feed.rows;
}

/* --- One step --- */

static struct lockstep_result result_of(const struct metrics *metrics)
{
    return (struct lockstep_result){.examples = metrics->examples,
                                    .loss = metrics_loss(metrics),
                                    .accuracy = metrics_accuracy(metrics),
                                    .accuracy_top_5 = metrics_accuracy_top_5(metrics)};
}

int lockstep_forward(struct lockstep_network *network, struct lockstep_data *data,
                     struct lockstep_result *result, struct lockstep_error *error)
{
    struct error err = {0};
    if (data->split != SPLIT_TRAIN || data->network != network) {
        error_set(&err, ERROR_USAGE, "a forward pass needs this network's own training data");
        return report(error, &err);
    }
    if (data->feed.rows == 0) {
        error_set(&err, ERROR_USAGE, "no batch yet: call lockstep_data_next first");
        return report(error, &err);
    }
    struct metrics metrics = {0};
    plan_set_random(network->plan, network->options.seed, (uint64_t)network->step);
    feed_forward(&data->feed);
    feed_count(&data->feed, &metrics);
    network->loss = metrics_loss(&metrics);
    network->at = STEP_FORWARD_DONE;
    if (result)
        *result = result_of(&metrics);
    return 0;
}

int lockstep_backward(struct lockstep_network *network, struct lockstep_error *error)
{
    struct error err = {0};
    if (network->at != STEP_FORWARD_DONE) {
        error_set(&err, ERROR_USAGE,
                  "no forward pass to go back from: call lockstep_forward first, and once for "
                  "each lockstep_backward, with no lockstep_data_next in between");
        return report(error, &err);
    }
    plan_backward(network->plan, 1.0f / (float)network->options.batch, NULL, NULL);
    for (int i = 0; i < plan_sparse_count(network->plan); i++)
        plan_sparse(network->plan, i, &network->rows[i]);
    updater_give_rows(network->updater, network->rows, plan_sparse_count(network->plan));
    network->at = STEP_BACKWARD_DONE;
    return 0;
}

int lockstep_update(struct lockstep_network *network, float rate, struct lockstep_error *error)
{
    struct error err = {0};
    if (network->at != STEP_BACKWARD_DONE) {
        error_set(&err, ERROR_USAGE, "no gradients yet: call lockstep_backward first");
        return report(error, &err);
    }
    if (!isfinite(network->loss) || !updater_gradients_finite(network->updater)) {
        error_set(&err, ERROR_NUMERIC,
                  "step %lld: loss or gradients are not finite; the weights "
                  "are those of the step before",
                  (long long)network->step + 1);
        return report(error, &err);
    }
    updater_step(network->updater, rate, ++network->step);
    plan_commit_statistics(network->plan);
    network->at = STEP_NOT_BEGUN;
    return 0;
}

int lockstep_evaluate(struct lockstep_network *network, struct lockstep_data *data,
                      struct lockstep_result *result, struct lockstep_error *error)
{
    struct error err = {0};
    struct metrics metrics = {0};
    if (data->split != SPLIT_EVALUATE || data->network != network) {
        error_set(&err, ERROR_USAGE, "evaluation needs this network's own evaluation data");
        return report(error, &err);
    }
    if (trainer_evaluate(network->graph, network->evaluation_plan, &data->source.trainer, NULL,
                         &metrics, &err) < 0)
        return report(error, &err);
    if (result)
        *result = result_of(&metrics);
    return 0;
}

/* --- Parameters --- */

int lockstep_parameter_count(const struct lockstep_network *network)
{
    return params_count(network->params);
}

static bool is_parameter(const struct lockstep_network *network, int index)
{
    return index >= 0 && index < params_count(network->params);
}

const char *lockstep_parameter_name(const struct lockstep_network *network, int index)
{
    return is_parameter(network, index) ? params_name(network->params, index) : NULL;
}

struct shape lockstep_parameter_shape(const struct lockstep_network *network, int index)
{
    return is_parameter(network, index) ? params_range(network->params, index).shape
                                        : (struct shape){0};
}

static int check_index(const struct lockstep_network *network, int index, struct error *err)
{
    if (is_parameter(network, index))
        return 0;
    return error_set(err, ERROR_USAGE, "there is no parameter %d; there are %d", index,
                     params_count(network->params));
}

static struct tensor parameter_tensor(const struct lockstep_network *network, int index,
                                      const float *data)
{
    return (struct tensor){.dtype = DTYPE_F32,
                           .shape = lockstep_parameter_shape(network, index),
                           .data = (void *)data};
}

int lockstep_parameter_read(const struct lockstep_network *network, int index, float *out,
                            struct lockstep_error *error)
{
    struct error err = {0};
    struct tensor tensor = parameter_tensor(network, index, out);
    if (check_index(network, index, &err) < 0 ||
        params_read(network->params, index, &tensor, &err) < 0)
        return report(error, &err);
    return 0;
}

int lockstep_parameter_read_gradient(const struct lockstep_network *network, int index, float *out,
                                     struct lockstep_error *error)
{
    struct error err = {0};
    struct tensor tensor = parameter_tensor(network, index, out);
    if (check_index(network, index, &err) < 0 ||
        params_read_gradient(network->params, index, &tensor, &err) < 0)
        return report(error, &err);
    return 0;
}

int lockstep_parameter_write(struct lockstep_network *network, int index, const float *in,
                             struct lockstep_error *error)
{
    struct error err = {0};
    struct tensor tensor = parameter_tensor(network, index, in);
    if (check_index(network, index, &err) < 0 ||
        params_write(network->params, index, &tensor, &err) < 0)
        return report(error, &err);
    return 0;
}

int lockstep_save(const struct lockstep_network *network, const char *path,
                  struct lockstep_error *error)
{
    struct error err = {0};
    return weights_save(path, network->model->name, network->params, &err) < 0 ? report(error, &err)
                                                                               : 0;
}

int lockstep_load(struct lockstep_network *network, const char *path, struct lockstep_error *error)
{
    struct error err = {0};
    if (weights_load(path, network->params, &err) < 0)
        return report(error, &err);
    network->loaded = true;
    return 0;
}
