#include "train/feed.h"

#include "base/error.h"
#include "graph/graph.h"

struct dataset_field feed_field(const struct value *input)
{
    struct dataset_field field = {input->name, input->dtype, input->shape};
    int last = input->shape.ndim - 1;
    if (!input->channels_last || last < 2)
        return field;
    for (int i = 1; i < last; i++)
        field.shape.dim[i] = input->shape.dim[i + 1];
    field.shape.dim[last] = input->shape.dim[1];
    return field;
}

static int missing_field(const char *input, const struct trainer_data *data, struct error *err)
{
    char names[256] = "nothing";
    size_t used = 0;
    for (int i = 0; i < data->field_count && used < sizeof names - 1; i++) {
        int added = snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                             data->fields[i].name);
        used += added > 0 ? (size_t)added : 0;
    }
    return error_set(err, ERROR_USAGE, "the network wants an input %s, but the data gives %s",
                     input, names);
}

static int check_field(const struct value *value, const struct dataset_field *field,
                       struct error *err)
{
    struct dataset_field wanted = feed_field(value);
    if (field->dtype == wanted.dtype && shape_equal(&field->shape, &wanted.shape))
        return 0;
    char want[96], have[96];
    return error_set(err, ERROR_USAGE,
                     "the network's input %s is %s %s, but the data gives %s %s; choose other "
                     "data with --data, or another model or --image-size",
                     value->name, dtype_name(value->dtype),
                     shape_text(&wanted.shape, want, sizeof want), dtype_name(field->dtype),
                     shape_text(&field->shape, have, sizeof have));
}

int feed_find_field(const struct trainer_data *data, const char *name)
{
    for (int i = 0; i < data->field_count; i++)
        if (!strcmp(data->fields[i].name, name))
            return i;
    return -1;
}

static int bind_inputs(struct feed *feed, const struct graph *graph,
                       const struct trainer_data *data, struct error *err)
{
    for (int i = 0; i < feed->input_count; i++) {
        const char *name = plan_input_name(feed->plan, i);
        int field = feed_find_field(data, name);
        if (field < 0)
            return missing_field(name, data, err);
        const struct value *value = graph_value(graph, graph_find_input(graph, name));
        if (check_field(value, &data->fields[field], err) < 0)
            return -1;
        feed->field_of[i] = field;
        if (!strcmp(name, "label"))
            feed->label = i;
    }
    return 0;
}

static int find_output(const struct plan *plan, const char *name)
{
    for (int i = 0; i < plan_output_count(plan); i++)
        if (!strcmp(plan_output_name(plan, i), name))
            return i;
    return -1;
}

static bool has_one_logit(const struct graph *graph)
{
    for (int i = 0; i < graph_output_count(graph); i++)
        if (!strcmp(graph_output_name(graph, i), "logits"))
            return shape_count(&graph_value(graph, graph_output_value(graph, i))->shape) == 1;
    return false;
}

bool feed_is_binary(const struct feed *feed)
{
    return feed->binary;
}

int feed_init(struct feed *feed, const struct graph *graph, struct plan *plan,
              const struct trainer_data *data, struct error *err)
{
    *feed = (struct feed){.plan = plan,
                          .loader = data->loader,
                          .input_count = plan_input_count(plan),
                          .output_count = plan_output_count(plan),
                          .loss = find_output(plan, "loss"),
                          .logits = find_output(plan, "logits"),
                          .label = -1};
    if (feed->input_count > DATASET_MAX_FIELDS || feed->output_count > DATASET_MAX_FIELDS)
        return error_set(err, ERROR_USAGE,
                         "a network with %d inputs and %d outputs: the limit "
                         "is %d",
                         feed->input_count, feed->output_count, DATASET_MAX_FIELDS);
    if (feed->loss < 0)
        return error_set(err, ERROR_USAGE,
                         "the network has no loss, so there is nothing to "
                         "train or evaluate; end it with lockstep_loss or lockstep_classifier");
    if (bind_inputs(feed, graph, data, err) < 0)
        return -1;
    feed->binary = feed->label >= 0 && feed->logits >= 0 && has_one_logit(graph);
    return 0;
}

int feed_next(struct feed *feed, struct error *err)
{
    const struct batch *batch;
    if (loader_next(feed->loader, &batch, err) < 0)
        return -1;
    for (int i = 0; i < feed->input_count; i++)
        feed->inputs[i] = batch->fields[feed->field_of[i]];
    feed->rows = batch->rows;
    return 0;
}

void feed_forward(struct feed *feed)
{
    plan_forward(feed->plan, feed->inputs, feed->outputs);
}

void feed_count(const struct feed *feed, struct metrics *metrics)
{
    metrics_add(metrics, feed->logits < 0 ? NULL : &feed->outputs[feed->logits],
                feed->label < 0 ? NULL : &feed->inputs[feed->label], &feed->outputs[feed->loss],
                feed->rows);
}
