#include "convert/onnx_build.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/onnx_reading.h"
#include "ops/softmax.h"

extern const struct op op_sigmoid;

enum { USUAL_SIZE = 224, SMALLEST_PICTURE = 8 };

/* --- Inputs --- */

/* The side of a square picture of one or three channels with so many numbers; 0: none has. */
static int side_of(int64_t numbers, int *channels)
{
    for (*channels = 1; *channels <= 3; *channels += 2) {
        int64_t side = (int64_t)llround(sqrt((double)(numbers / *channels)));
        if (side >= SMALLEST_PICTURE && side * side * *channels == numbers)
            return (int)side;
    }
    return 0;
}

static value_id picture_input(struct reading *reading, int channels, int height, int width)
{
    int wanted = reading->options->image_size;
    reading->facts->channels = channels;
    reading->facts->image_size = height;
    if (wanted && wanted != height)
        height = width = wanted;
    return lockstep_image_input(reading->graph, channels, height, width);
}

/* As data gives it: a picture, or columns of numbers. */
static value_id data_input(struct reading *reading, const struct onnx_port *port)
{
    const int64_t *dim = port->dim;
    int channels, side;
    if (port->ndim == 4 && dim[1] > 0)
        return picture_input(reading, (int)dim[1], dim[2] > 0 ? (int)dim[2] : USUAL_SIZE,
                             dim[3] > 0 ? (int)dim[3] : USUAL_SIZE);
    if (port->ndim == 2 && (side = side_of(dim[1], &channels)))
        return lockstep_flatten(reading->graph, picture_input(reading, channels, side, side));
    struct shape shape = {.ndim = port->ndim};
    for (int i = 0; i < port->ndim; i++)
        shape.dim[i] = i ? dim[i] : SHAPE_BATCH;
    return lockstep_input(reading->graph, port->ndim == 2 ? "numeric" : port->name, DTYPE_F32,
                          shape);
}

static value_id plain_input(struct reading *reading, const struct onnx_port *port)
{
    struct shape shape = {.ndim = port->ndim};
    for (int i = 0; i < port->ndim; i++)
        shape.dim[i] = i ? port->dim[i] : SHAPE_BATCH;
    return lockstep_input(reading->graph, port->name, DTYPE_F32, shape);
}

static int check_input(const struct onnx_port *port, struct error *err)
{
    if (port->type != ONNX_FLOAT)
        return error_set(err, ERROR_FORMAT,
                         "input %s has elements of type %d; only float (1) can be computed with",
                         port->name, port->type);
    if (port->ndim < 1 || port->ndim > TENSOR_MAX_DIMS)
        return error_set(err, ERROR_FORMAT,
                         "input %s has %d dimensions; the first must be the batch, and there may "
                         "be %d",
                         port->name, port->ndim < 0 ? 0 : port->ndim, TENSOR_MAX_DIMS);
    int64_t count = 1;
    for (int i = 1; i < port->ndim; i++) {
        if (port->dim[i] > INT32_MAX / count)
            return error_set(err, ERROR_FORMAT, "input %s: dimension %d is %" PRId64, port->name, i,
                             port->dim[i]);
        count *= port->dim[i] > 0 ? port->dim[i] : 1;
    }
    return 0;
}

/* Files of old list their tensors among the inputs, too. */
static bool is_input(struct reading *reading, const struct onnx_port *port)
{
    struct term *term = reading_add_term(reading, port->name);
    return term->kind == TERM_UNKNOWN;
}

static int add_inputs(struct reading *reading, struct error *err)
{
    const struct onnx_file *file = reading->file;
    int count = 0;
    for (int i = 0; i < file->input_count; i++)
        count += is_input(reading, &file->inputs[i]);
    reading->batch = -1;
    for (int i = 0; i < file->input_count; i++) {
        const struct onnx_port *port = &file->inputs[i];
        if (!is_input(reading, port))
            continue;
        if (check_input(port, err) < 0)
            return -1;
        if (reading->batch < 0)
            reading->batch = port->dim[0];
        struct term *term = reading_add_term(reading, port->name);
        term->kind = TERM_VALUE;
        term->value = reading->options->plain || count > 1 ? plain_input(reading, port)
                                                           : data_input(reading, port);
    }
    return 0;
}

/* --- Nodes --- */

static const struct onnx_operator *find_in(const struct onnx_operator *rows, const char *name)
{
    for (; rows->name; rows++)
        if (!strcmp(rows->name, name))
            return rows;
    return NULL;
}

static const struct onnx_operator *find_operator(const struct onnx_node *node)
{
    const struct onnx_operator *found;
    if (*node->domain && strcmp(node->domain, "ai.onnx") != 0)
        return NULL;
    if (!(found = find_in(onnx_layers, node->op)) && !(found = find_in(onnx_elements, node->op)))
        found = find_in(onnx_shapes, node->op);
    return found;
}

/* Each name once, with how many nodes have it; whether one of them comes before this node. */
static bool is_repeated(const struct onnx_file *file, int index)
{
    for (int i = 0; i < index; i++)
        if (!strcmp(file->nodes[i].op, file->nodes[index].op) &&
            !strcmp(file->nodes[i].domain, file->nodes[index].domain))
            return true;
    return false;
}

static int count_nodes(const struct onnx_file *file, const struct onnx_node *like)
{
    int count = 0;
    for (int i = 0; i < file->node_count; i++)
        count +=
            !strcmp(file->nodes[i].op, like->op) && !strcmp(file->nodes[i].domain, like->domain);
    return count;
}

static void list_unknown(const struct onnx_file *file, const bool *unknown, struct strbuf *out)
{
    for (int i = 0; i < file->node_count; i++) {
        const struct onnx_node *node = &file->nodes[i];
        if (!unknown[i] || is_repeated(file, i))
            continue;
        int count = count_nodes(file, node);
        strbuf_addf(out, "%s%s%s%s", out->length ? ", " : "", node->domain,
                    *node->domain ? "." : "", node->op);
        if (count > 1)
            strbuf_addf(out, " (%d times)", count);
    }
}

static bool depends_on_refused(struct reading *reading, const struct onnx_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        const struct term *term = reading_input(reading, node, i);
        if (term && term->kind == TERM_REFUSED)
            return true;
    }
    return false;
}

/* False: this operator is not known. */
static bool read_node(struct reading *reading, int index)
{
    const struct onnx_node *node = &reading->file->nodes[index];
    const struct onnx_operator *row = find_operator(node);
    if (reading->done[index])
        return true;
    bool refused = depends_on_refused(reading, node);
    if (!refused && onnx_fold(reading, node))
        return true;
    if (!row || refused)
        reading_refuse_outputs(reading, node);
    else
        row->read(reading, node);
    return row != NULL;
}

static int read_nodes(struct reading *reading, struct error *err)
{
    const struct onnx_file *file = reading->file;
    bool *unknown = ARENA_ARRAY(reading->arena, bool, file->node_count + 1);
    if (!unknown)
        return error_set(err, ERROR_MEMORY, "no memory for %d nodes", file->node_count);
    bool some = false;
    for (int i = 0; i < file->node_count; i++) {
        unknown[i] = !read_node(reading, i);
        some |= unknown[i];
    }
    struct strbuf operators;
    strbuf_init(&operators);
    list_unknown(file, unknown, &operators);
    const struct strbuf *refused = &reading->refused;
    int status = 0;
    if (reading->no_memory || operators.failed || refused->failed)
        status = error_set(err, ERROR_MEMORY, "no memory for the network");
    else if (some)
        status = error_set(err, ERROR_FORMAT, "operators that lockstep does not have: %s%s%s",
                           operators.text, refused->length ? "; and " : "",
                           refused->length ? refused->text : "");
    else if (refused->length)
        status = error_set(err, ERROR_FORMAT, "lockstep cannot compute %s", refused->text);
    strbuf_release(&operators);
    return status;
}

/* --- Outputs --- */

static const struct onnx_node *producer_of(const struct onnx_file *file, const char *name)
{
    for (int i = 0; i < file->node_count; i++)
        for (int o = 0; o < file->nodes[i].output_count; o++)
            if (!strcmp(file->nodes[i].outputs[o], name))
                return &file->nodes[i];
    return NULL;
}

/* Back from the first output over what changes no number of the logits, or only their scale. */
static const char *find_head(const struct onnx_file *file)
{
    static const char *const passed[] = {"Softmax", "LogSoftmax", "Identity", "Flatten",
                                         "Reshape", "Squeeze",    "Cast",     NULL};
    const char *name = file->output_count ? file->outputs[0].name : "";
    for (int steps = 0; steps < 16; steps++) {
        const struct onnx_node *node = producer_of(file, name);
        bool passes = false;
        for (int i = 0; node && passed[i]; i++)
            passes |= !strcmp(node->op, passed[i]);
        if (!passes || !node->input_count)
            break;
        name = node->inputs[0];
    }
    return name;
}

/* What a softmax, or its logarithm, was taken of, or the sigmoid of a single number; else the value
 * itself. `*name`: what the output then is to be called beside the logits; else NULL. */
static value_id logits_of(struct reading *reading, value_id output, const char **name)
{
    const struct value *value = graph_value(reading->graph, output);
    *name = NULL;
    if (value->kind != VALUE_RESULT)
        return output;
    const struct node *node = graph_node_at(reading->graph, value->producer);
    bool softmax = node->op == &op_softmax;
    bool binary = node->op == &op_sigmoid && shape_count(&value->shape) == 1;
    if (!softmax && !binary)
        return output;
    bool logarithm = softmax && ((const struct softmax_attributes *)node->attributes)->logarithm;
    *name = logarithm ? "log_probabilities" : "probabilities";
    return node->inputs[0];
}

static void add_binary_loss(struct reading *reading, value_id logits)
{
    struct graph *graph = reading->graph;
    lockstep_output(graph, "logits", logits);
    value_id labels = lockstep_input(graph, "label", DTYPE_F32, SHAPE(SHAPE_BATCH));
    struct loss_options options = {.label_smoothing = reading->options->label_smoothing};
    lockstep_loss(graph, lockstep_sigmoid_cross_entropy(graph, logits, labels, options));
}

static void finish_classifier(struct reading *reading, value_id output)
{
    const char *name;
    value_id logits = logits_of(reading, output, &name);
    const struct shape *shape = &graph_value(reading->graph, logits)->shape;
    if (shape->ndim > 2 && shape_count(shape) == shape->dim[1])
        logits = lockstep_flatten(reading->graph, logits);
    shape = &graph_value(reading->graph, logits)->shape;
    if (shape->ndim != 2) {
        lockstep_output(reading->graph, reading->file->outputs[0].name, output);
        return;
    }
    reading->facts->classes = (int)shape->dim[1];
    if (shape->dim[1] == 1)
        add_binary_loss(reading, logits);
    else
        lockstep_classifier(reading->graph, logits, reading->options->label_smoothing);
    if (name)
        lockstep_output(reading->graph, name, output);
}

static int check_output(struct reading *reading, const struct onnx_port *port, struct error *err)
{
    const struct term *term = reading_term(reading, port->name);
    if (term->border[0] || term->border[1] || term->border[2] || term->border[3])
        return error_set(err, ERROR_FORMAT, "output %s is a Pad's, which only goes into windows",
                         port->name);
    if (term->kind == TERM_VALUE || (reading->options->plain && term->kind == TERM_CONSTANT))
        return 0;
    return error_set(err, ERROR_FORMAT, "output %s %s", port->name,
                     term->kind == TERM_CONSTANT ? "does not depend on an input"
                                                 : "is not computed by any node");
}

/* Our own files have probabilities and their kind beside what the network gives, for those who
 * compute with them; here they are made from the network's own outputs, whoever asks. */
static bool is_extra(const struct reading *reading, int output)
{
    const struct onnx_file *file = reading->file;
    const struct onnx_node *node = producer_of(file, file->outputs[output].name);
    return file->own && !reading->options->plain && output > 0 && node &&
           strcmp(node->op, "Identity") != 0;
}

static int add_outputs(struct reading *reading, struct error *err)
{
    const struct onnx_file *file = reading->file;
    if (!file->output_count)
        return error_set(err, ERROR_FORMAT, "the network has no output");
    for (int i = 0; i < file->output_count; i++) {
        const struct onnx_port *port = &file->outputs[i];
        if (check_output(reading, port, err) < 0)
            return -1;
        const struct term *term = reading_term(reading, port->name);
        if (term->kind != TERM_VALUE || term->value < 0 || is_extra(reading, i))
            continue;
        if (i == 0 && !reading->options->plain)
            finish_classifier(reading, term->value);
        else
            lockstep_output(reading->graph, port->name, term->value);
    }
    return 0;
}

static int read_file(struct reading *reading, struct error *err)
{
    if (reading_open(reading, err) < 0 || add_inputs(reading, err) < 0)
        return -1;
    reading->head = find_head(reading->file);
    if (read_nodes(reading, err) < 0)
        return -1;
    return add_outputs(reading, err);
}

int onnx_build(const struct onnx_file *file, const struct onnx_build_options *options,
               struct arena *arena, struct graph *graph, struct onnx_facts *facts,
               struct error *err)
{
    struct onnx_facts ignored;
    struct reading reading = {.file = file,
                              .options = options,
                              .arena = arena,
                              .graph = graph,
                              .facts = facts ? facts : &ignored};
    *reading.facts = (struct onnx_facts){0};
    int status = read_file(&reading, err);
    reading_close(&reading);
    return status;
}

const struct onnx_tensor *onnx_constant_output(const struct onnx_file *file, const char *name,
                                               struct arena *arena, struct error *err)
{
    static const struct onnx_build_options options = {.plain = true};
    struct onnx_facts facts = {0};
    struct reading reading = {.file = file,
                              .options = &options,
                              .arena = arena,
                              .graph = graph_create(),
                              .facts = &facts};
    const struct onnx_tensor *found = NULL;
    if (!reading.graph)
        return NULL;
    if (read_file(&reading, err) == 0) {
        const struct term *term = reading_term(&reading, name);
        if (term && term->kind == TERM_CONSTANT)
            found = &term->tensor; /* in the arena, with the table */
    }
    reading_close(&reading);
    graph_destroy(reading.graph);
    return found;
}
