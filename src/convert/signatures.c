#include "convert/signatures.h"

#include "base/arena.h"
#include "base/error.h"
#include "convert/face.h"
#include "convert/tf_network.h"
#include "graph/graph.h"

const char signature_method_predict[] = "tensorflow/serving/predict";
const char signature_method_classify[] = "tensorflow/serving/classify";
const char signature_method_regress[] = "tensorflow/serving/regress";

enum { MOST_SIGNATURES = 6, MOST_ANSWERS = 8, COLOURS = 3 };

/* One signature while it is put together. */
struct draft {
    struct signature_tensor *inputs, *outputs;
    struct question *questions;
    struct answer *answers;
    int input_count, output_count;
};

struct maker {
    const struct face *face;
    struct arena *arena;
    struct signatures *out;
    struct signature *list;
    int room; /* inputs or outputs that a signature may have */
    bool failed;
};

/* ---- what a serving plan takes and gives ---- */

bool *signatures_needed(const struct graph *graph, struct arena *arena)
{
    bool *needed = ARENA_ARRAY(arena, bool, graph_value_count(graph) + 1);
    if (!needed)
        return NULL;
    for (int i = 0; i < graph_output_count(graph); i++)
        needed[graph_output_value(graph, i)] = true;
    for (int i = graph_node_count(graph) - 1; i >= 0; i--) {
        const struct node *node = graph_node_at(graph, i);
        for (int k = 0; needed[node->output] && k < node->input_count; k++)
            needed[node->inputs[k]] = true;
    }
    return needed;
}

/* The order in memory: pictures come N, H, W, C though they are logically N, C, H, W. */
static struct imported_port port_of(const struct value *value)
{
    struct imported_port port = {value->name, value->dtype, value->shape};
    int last = value->shape.ndim - 1;
    if (!value->channels_last || last < 2)
        return port;
    for (int i = 1; i < last; i++)
        port.shape.dim[i] = value->shape.dim[i + 1];
    port.shape.dim[last] = value->shape.dim[1];
    return port;
}

static bool list_ports(const struct graph *graph, struct arena *arena, struct signatures *out)
{
    bool *needed = signatures_needed(graph, arena);
    struct imported_port *inputs =
        ARENA_ARRAY(arena, struct imported_port, graph_input_count(graph) + 1);
    struct imported_port *outputs =
        ARENA_ARRAY(arena, struct imported_port, graph_output_count(graph) + 1);
    if (!needed || !inputs || !outputs)
        return false;
    for (int i = 0; i < graph_input_count(graph); i++)
        if (needed[graph_input_value(graph, i)])
            inputs[out->input_count++] = port_of(graph_value(graph, graph_input_value(graph, i)));
    for (int i = 0; i < graph_output_count(graph); i++) {
        const struct value *value = graph_value(graph, graph_output_value(graph, i));
        outputs[out->output_count++] =
            (struct imported_port){graph_output_name(graph, i), value->dtype, value->shape};
    }
    out->inputs = inputs;
    out->outputs = outputs;
    return true;
}

static int find_port(const struct imported_port *ports, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(ports[i].name, name))
            return i;
    return -1;
}

/* ---- parts of a signature ---- */

static struct draft begin(struct maker *maker)
{
    struct draft draft = {
        .inputs = ARENA_ARRAY(maker->arena, struct signature_tensor, maker->room),
        .outputs = ARENA_ARRAY(maker->arena, struct signature_tensor, maker->room),
        .questions = ARENA_ARRAY(maker->arena, struct question, maker->room),
        .answers = ARENA_ARRAY(maker->arena, struct answer, maker->room),
    };
    if (!draft.inputs || !draft.outputs || !draft.questions || !draft.answers)
        maker->failed = true;
    return draft;
}

static void finish(struct maker *maker, const struct draft *draft, const char *name,
                   const char *method)
{
    if (maker->failed)
        return;
    maker->list[maker->out->count++] = (struct signature){.name = name,
                                                          .method = method,
                                                          .inputs = draft->inputs,
                                                          .outputs = draft->outputs,
                                                          .input_count = draft->input_count,
                                                          .output_count = draft->output_count,
                                                          .questions = draft->questions,
                                                          .answers = draft->answers};
}

static void ask(struct maker *maker, struct draft *draft, const char *key, enum dtype dtype,
                struct shape shape, struct question question)
{
    const char *tensor = arena_format(maker->arena, "%s:0", tf_name(key, maker->arena));
    if (maker->failed || !tensor) {
        maker->failed = true;
        return;
    }
    draft->questions[draft->input_count] = question;
    draft->inputs[draft->input_count++] = (struct signature_tensor){key, tensor, dtype, shape};
}

static void answer(struct maker *maker, struct draft *draft, const char *key, const char *node,
                   enum dtype dtype, struct shape shape, struct answer how)
{
    const char *tensor = arena_format(maker->arena, "answers/%s:0", tf_name(node, maker->arena));
    if (maker->failed || !tensor) {
        maker->failed = true;
        return;
    }
    draft->answers[draft->output_count] = how;
    draft->outputs[draft->output_count++] = (struct signature_tensor){key, tensor, dtype, shape};
}

/* ---- what is asked ---- */

/* A picture's pixels have the key that ResNet's exporter gave them. */
static const char *input_key(const struct imported_port *port)
{
    return strcmp(port->name, "image") == 0 ? "input_tensor" : port->name;
}

static bool is_table(const struct imported_port *port)
{
    return !strcmp(port->name, "numeric") || !strcmp(port->name, "category");
}

static void ask_columns(struct maker *maker, struct draft *draft, int port)
{
    const struct face *face = maker->face;
    bool numbers = !strcmp(maker->out->inputs[port].name, "numeric");
    int count = numbers ? face->number_count : face->category_count;
    for (int i = 0; i < count; i++)
        ask(maker, draft, numbers ? face->numbers[i].name : face->categories[i],
            numbers ? DTYPE_F32 : DTYPE_STRING, SHAPE(SHAPE_BATCH),
            (struct question){numbers ? QUESTION_NUMBER : QUESTION_CATEGORY, port, i});
}

static void ask_all(struct maker *maker, struct draft *draft)
{
    for (int i = 0; i < maker->out->input_count; i++) {
        const struct imported_port *port = &maker->out->inputs[i];
        if (is_table(port))
            ask_columns(maker, draft, i);
        else
            ask(maker, draft, input_key(port), port->dtype, port->shape,
                (struct question){QUESTION_ROWS, i, 0});
    }
}

static void ask_bytes(struct maker *maker, struct draft *draft)
{
    ask(maker, draft, "image_bytes", DTYPE_STRING, SHAPE(SHAPE_BATCH),
        (struct question){QUESTION_PICTURE, 0, 0});
}

static void ask_examples(struct maker *maker, struct draft *draft)
{
    ask(maker, draft, "inputs", DTYPE_STRING, SHAPE(SHAPE_BATCH),
        (struct question){QUESTION_EXAMPLE, 0, 0});
}

/* Square, in colour, and all there is: then encoded pictures can stand for the pixels. */
static bool takes_pictures(const struct signatures *ports)
{
    const struct shape *shape = &ports->inputs[0].shape;
    return ports->input_count == 1 && !strcmp(ports->inputs[0].name, "image") && shape->ndim == 4 &&
           shape->dim[1] == shape->dim[2] && shape->dim[3] == COLOURS;
}

static bool takes_table(const struct signatures *ports)
{
    bool table = ports->input_count > 0;
    for (int i = 0; i < ports->input_count; i++)
        table = table && is_table(&ports->inputs[i]);
    return table;
}

/* ---- what is answered ---- */

static int find_logits(const struct signatures *ports)
{
    int logits = find_port(ports->outputs, ports->output_count, "logits");
    return logits >= 0 && ports->outputs[logits].shape.ndim == 2 ? logits : -1;
}

static void answer_rows(struct maker *maker, struct draft *draft)
{
    for (int i = 0; i < maker->out->output_count; i++) {
        const struct imported_port *port = &maker->out->outputs[i];
        answer(maker, draft, port->name, port->name, port->dtype, port->shape,
               (struct answer){ANSWER_ROWS, i});
    }
}

/* As the estimator of TensorFlow's official ResNet. */
static void answer_classes(struct maker *maker, struct draft *draft, int logits)
{
    struct shape shape = maker->out->outputs[logits].shape;
    answer(maker, draft, "classes", "classes", DTYPE_I64, SHAPE(SHAPE_BATCH),
           (struct answer){ANSWER_ARGMAX, logits});
    answer(maker, draft, "probabilities", "probabilities", DTYPE_F32, shape,
           (struct answer){ANSWER_SOFTMAX, logits});
    if (maker->face->labels)
        answer(maker, draft, "labels", "labels", DTYPE_STRING, SHAPE(SHAPE_BATCH),
               (struct answer){ANSWER_NAME, logits});
}

/* As the head of TensorFlow's DNNLinearCombinedClassifier for two classes. */
static void answer_pair(struct maker *maker, struct draft *draft, int logits)
{
    struct shape one = SHAPE(SHAPE_BATCH, 1), two = SHAPE(SHAPE_BATCH, 2);
    const struct {
        const char *key;
        enum dtype dtype;
        struct shape shape;
        enum answer_kind kind;
    } rows[] = {{"logits", DTYPE_F32, one, ANSWER_ROWS},
                {"logistic", DTYPE_F32, one, ANSWER_LOGISTIC},
                {"probabilities", DTYPE_F32, two, ANSWER_PAIR},
                {"class_ids", DTYPE_I64, one, ANSWER_PAIR_ID},
                {"classes", DTYPE_STRING, one, ANSWER_PAIR_NAME},
                {"all_class_ids", DTYPE_I32, two, ANSWER_CLASS_IDS},
                {"all_classes", DTYPE_STRING, two, ANSWER_CLASS_NAMES}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        answer(maker, draft, rows[i].key, rows[i].key, rows[i].dtype, rows[i].shape,
               (struct answer){rows[i].kind, logits});
}

static void answer_usual(struct maker *maker, struct draft *draft)
{
    int logits = find_logits(maker->out);
    if (logits < 0 || maker->out->output_count > 1)
        answer_rows(maker, draft);
    else if (maker->out->outputs[logits].shape.dim[1] == 1)
        answer_pair(maker, draft, logits);
    else
        answer_classes(maker, draft, logits);
}

/* ---- all of them ---- */

static void make_tensors(struct maker *maker, const char *name)
{
    struct draft draft = begin(maker);
    ask_all(maker, &draft);
    answer_usual(maker, &draft);
    finish(maker, &draft, name, signature_method_predict);
}

static void make_bytes(struct maker *maker, const char *name)
{
    struct draft draft = begin(maker);
    ask_bytes(maker, &draft);
    answer_usual(maker, &draft);
    finish(maker, &draft, name, signature_method_predict);
}

static void make_classification(struct maker *maker, int logits)
{
    struct shape two = SHAPE(SHAPE_BATCH, 2);
    struct draft draft = begin(maker);
    ask_examples(maker, &draft);
    answer(maker, &draft, "classes", "all_classes", DTYPE_STRING, two,
           (struct answer){ANSWER_CLASS_NAMES, logits});
    answer(maker, &draft, "scores", "probabilities", DTYPE_F32, two,
           (struct answer){ANSWER_PAIR, logits});
    finish(maker, &draft, "classification", signature_method_classify);
}

static void make_regression(struct maker *maker, int logits)
{
    struct draft draft = begin(maker);
    ask_examples(maker, &draft);
    answer(maker, &draft, "outputs", "logistic", DTYPE_F32, SHAPE(SHAPE_BATCH, 1),
           (struct answer){ANSWER_LOGISTIC, logits});
    finish(maker, &draft, "regression", signature_method_regress);
}

static void make_all(struct maker *maker)
{
    const struct signatures *ports = maker->out;
    int logits = find_logits(ports);
    bool pictures = takes_pictures(ports), bytes = pictures && maker->face->bytes_by_default;
    if (bytes)
        make_bytes(maker, "serving_default");
    else
        make_tensors(maker, "serving_default");
    make_tensors(maker, "predict");
    if (pictures)
        make_bytes(maker, "image_bytes");
    if (takes_table(ports) && ports->output_count == 1 && logits >= 0 &&
        ports->outputs[logits].shape.dim[1] == 1) {
        make_classification(maker, logits);
        make_regression(maker, logits);
    }
}

int signatures_make(const struct graph *graph, const struct face *face, struct arena *arena,
                    struct signatures *out, struct error *err)
{
    struct maker maker = {.face = face, .arena = arena, .out = out};
    *out = (struct signatures){0};
    maker.list = ARENA_ARRAY(arena, struct signature, MOST_SIGNATURES);
    if (!maker.list || !list_ports(graph, arena, out))
        return error_set(err, ERROR_MEMORY, "no memory for the signatures");
    out->list = maker.list;
    maker.room = out->input_count + out->output_count + face->number_count + face->category_count;
    maker.room = maker.room > MOST_ANSWERS ? maker.room : MOST_ANSWERS;
    make_all(&maker);
    return maker.failed ? error_set(err, ERROR_MEMORY, "no memory for the signatures") : 0;
}

const char *signatures_label(const struct face *face, int index, struct arena *arena)
{
    return face->labels && index < face->label_count ? face->labels[index]
                                                     : arena_format(arena, "%d", index);
}
