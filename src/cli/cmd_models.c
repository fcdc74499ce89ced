#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "graph/graph.h"
#include "models/registry.h"

struct models_settings {
    const char *model, *json;
    int classes, image_size;
};

static const char *model_name(int index)
{
    const struct model *model = model_list()[index];
    return model ? model->name : NULL;
}

static const struct option options[] = {
    OPTION_ARGUMENT(models_settings, model, "MODEL", .choice_at = model_name, .open = true,
                    .aliases = "model",
                    .help = "network whose operations to show; a path means an ONNX file, or a "
                            "shared object that defines `model_user`"),
    OPTION_SECTION("With MODEL"),
    OPTION_INT(models_settings, classes, "classes", OPTION_AT_LEAST(1),
               .initial_note = "the model's own", .help = "number of classes"),
    OPTION_INT(models_settings, image_size, "image-size", .value = "PIXELS", OPTION_AT_LEAST(1),
               .initial_note = "the model's own", .help = "height and width of the pictures"),
    OPTION_SECTION("Output"),
    OPTION_TEXT(models_settings, json, "json", .value = "FILE|-",
                .help = "write what is known as JSON to FILE, or to standard output"),
    OPTION_END};

static int build(const struct model *model, const struct models_settings *wanted,
                 struct graph **out, struct error *err)
{
    struct model_args args = model->defaults;
    if (wanted->classes)
        args.classes = wanted->classes;
    if (wanted->image_size)
        args.image_size = wanted->image_size;
    struct graph *graph = graph_create();
    if (!graph)
        return error_set(err, ERROR_MEMORY, "no memory for the graph");
    model->build(graph, &args);
    if (graph_finish(graph, err) < 0) {
        graph_destroy(graph);
        return error_wrap(err, "model %s", model->name);
    }
    *out = graph;
    return 0;
}

static struct json *describe_shape(const struct value *value)
{
    struct json *shape = json_array_create();
    for (int i = 0; i < value->shape.ndim; i++)
        json_append_integer(shape, value->shape.dim[i]);
    return shape;
}

static struct json *describe(const struct model *model, const struct graph *graph)
{
    struct json *json = json_object_create();
    json_set_text(json, "name", model->name);
    json_set_text(json, "summary", model->summary ? model->summary : "");
    json_set_integer(json, "parameters", graph_parameter_elements(graph));
    json_set_integer(json, "operations", graph_node_count(graph));
    json_set_text(json, "data", model->dataset ? model->dataset : "synthetic");
    json_set_text(json, "recipe", model->recipe ? model->recipe : "");
    json_set_integer(json, "classes", model->defaults.classes);
    struct json *inputs = json_array_create();
    for (int i = 0; i < graph_input_count(graph); i++) {
        const struct value *value = graph_value(graph, graph_input_value(graph, i));
        struct json *input = json_object_create();
        json_set_text(input, "name", value->name);
        json_set(input, "shape", describe_shape(value));
        json_append(inputs, input);
    }
    json_set(json, "inputs", inputs);
    return json;
}

/* What is known about one model, added to the text or to the JSON array. */
static int add_model(const struct model *model, const struct models_settings *wanted,
                     struct strbuf *text, struct json *list, struct error *err)
{
    struct graph *graph = NULL;
    if (build(model, wanted, &graph, err) < 0)
        return -1;
    if (wanted->json) {
        json_append(list, describe(model, graph));
    } else {
        strbuf_addf(text, "%s: %s\n", model->name, model->summary ? model->summary : "");
        strbuf_addf(text, "  parameters  %lld\n", (long long)graph_parameter_elements(graph));
        strbuf_addf(text, "  data        %s\n", model->dataset ? model->dataset : "synthetic");
        strbuf_addf(text, "  recipe      %s\n", model->recipe ? model->recipe : "");
        if (wanted->model) {
            strbuf_add_char(text, '\n');
            graph_print(graph, text);
        }
    }
    graph_destroy(graph);
    return 0;
}

static int add_all(const struct models_settings *wanted, struct strbuf *text, struct json *list,
                   struct error *err)
{
    if (!wanted->model) {
        for (const struct model *const *model = model_list(); *model; model++)
            if (add_model(*model, wanted, text, list, err) < 0)
                return -1;
        strbuf_add(text, "\n`lockstep models MODEL` shows the operations of one; `lockstep train "
                         "MODEL` trains it.\n");
        return 0;
    }
    const struct model *model;
    if (model_open(wanted->model, &model, err) < 0)
        return -1;
    int status = add_model(model, wanted, text, list, err);
    model_close(model);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    const struct models_settings *wanted = settings;
    if (!wanted->model && (wanted->classes || wanted->image_size))
        return error_set(err, ERROR_USAGE, "%s needs a MODEL",
                         options_source(parsed, "classes") ? "--classes" : "--image-size");
    struct strbuf text;
    strbuf_init(&text);
    struct json *list = json_array_create();
    int status = add_all(wanted, &text, list, err);
    if (status == 0)
        status = wanted->json ? output_json(list, wanted->json, err) : output_text(&text, err);
    json_release(list);
    strbuf_release(&text);
    return status;
}

const struct command command_models = {
    .name = "models",
    .order = 100,
    .summary = "list the networks, or show one of them",
    .description = "A model comes with the data it is meant for and a recipe: the optimizer, "
                   "schedule and batch size that `lockstep train` uses unless told otherwise, "
                   "written as its options.",
    .examples = "# what can be trained\n"
                "lockstep models\n"
                "# every operation of one, with shapes and parameters\n"
                "lockstep models resnet50 --classes 10\n"
                "# for a script\n"
                "lockstep models --json models.json\n",
    .options = options,
    .settings_size = sizeof(struct models_settings),
    .run = run,
};
