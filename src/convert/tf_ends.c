#include "convert/tf_ends.h"

#include "base/arena.h"
#include "base/error.h"
#include "convert/face.h"
#include "convert/signatures.h"
#include "convert/tf_picture.h"

/* ---- what is asked ---- */

static bool asks(const struct signatures *signatures, enum question_kind kind)
{
    for (int i = 0; i < signatures->count; i++)
        for (int k = 0; k < signatures->list[i].input_count; k++)
            if (signatures->list[i].questions[k].kind == kind)
                return true;
    return false;
}

/* Fed by one signature, made from something else by another; or only fed. */
static void placeholder(struct tf_nodes *nodes, const char *name, enum dtype dtype,
                        const struct shape *shape, const char *otherwise)
{
    tf_begin(nodes, otherwise ? "PlaceholderWithDefault" : "Placeholder", name);
    if (otherwise)
        tf_input(nodes, otherwise);
    tf_attr_type(nodes, "dtype", tf_type_of(dtype));
    tf_attr_shape(nodes, "shape", shape);
    tf_end(nodes);
}

/* The function runs for all pictures of the batch side by side. */
static const char *write_pictures(struct tf_network *network, const struct imported_port *port,
                                  struct strbuf *library)
{
    static const char name[] = "pictures";
    struct tf_nodes *nodes = network->nodes;
    int side = (int)port->shape.dim[1];
    struct shape pixels = SHAPE(side, side, 3);
    tf_picture_write(side, library);
    placeholder(nodes, "image_bytes", DTYPE_STRING, &SHAPE(SHAPE_BATCH), NULL);
    tf_begin(nodes, "MapDefun", name);
    tf_input(nodes, "image_bytes");
    tf_attr_types(nodes, "Targuments", (int[]){TF_STRING}, 1);
    tf_attr_types(nodes, "Tcaptured", NULL, 0);
    tf_attr_types(nodes, "output_types", (int[]){TF_FLOAT}, 1);
    tf_attr_shapes(nodes, "output_shapes", &pixels, 1);
    tf_attr_function(nodes, "f", tf_picture_function);
    tf_attr_int(nodes, "max_intra_op_parallelism", 0);
    tf_end(nodes);
    return name;
}

/* tf.Examples with all columns, numbers first: "parsed:0", "parsed:1", ... */
static void write_examples(struct tf_network *network, const struct face *face)
{
    struct tf_nodes *nodes = network->nodes;
    int count = face->number_count + face->category_count;
    const char **keys = ARENA_ARRAY(network->arena, const char *, count);
    int *types = ARENA_ARRAY(network->arena, int, count);
    network->failed |= !keys || !types;
    if (network->failed)
        return;
    for (int i = 0; i < count; i++) {
        bool number = i < face->number_count;
        keys[i] = number ? face->numbers[i].name : face->categories[i - face->number_count];
        types[i] = number ? TF_FLOAT : TF_STRING;
    }
    placeholder(nodes, "inputs", DTYPE_STRING, &SHAPE(SHAPE_BATCH), NULL);
    tf_const_texts(nodes, "parsed/none", NULL, 0);
    tf_const_texts(nodes, "parsed/keys", keys, count);
    tf_const_float(nodes, "parsed/no_number", 0);
    struct text_view missing = {face->missing_category, strlen(face->missing_category)};
    tf_const(nodes, "parsed/no_category", &(struct tensor){DTYPE_STRING, {0}, &missing});
    tf_begin(nodes, "ParseExampleV2", "parsed");
    tf_input(nodes, "inputs");
    tf_input(nodes, "parsed/none"); /* names */
    tf_input(nodes, "parsed/none"); /* sparse keys */
    tf_input(nodes, "parsed/keys");
    tf_input(nodes, "parsed/none"); /* ragged keys */
    for (int i = 0; i < count; i++)
        tf_input(nodes, types[i] == TF_FLOAT ? "parsed/no_number" : "parsed/no_category");
    tf_attr_types(nodes, "Tdense", types, count);
    tf_attr_int(nodes, "num_sparse", 0);
    tf_attr_types(nodes, "sparse_types", NULL, 0);
    tf_attr_types(nodes, "ragged_value_types", NULL, 0);
    tf_attr_types(nodes, "ragged_split_types", NULL, 0);
    tf_attr_shapes(nodes, "dense_shapes", &(struct shape){0}, count);
    tf_end(nodes);
}

/* sign(x) * log(1 + |x|) */
static const char *write_logarithm(struct tf_network *network, const char *x)
{
    const char *size = arena_format(network->arena, "%s_scaled/Abs", x);
    const char *log = arena_format(network->arena, "%s_scaled/Log1p", x);
    const char *sign = arena_format(network->arena, "%s_scaled/Sign", x);
    const char *name = arena_format(network->arena, "%s_scaled", x);
    network->failed |= !size || !log || !sign || !name;
    if (network->failed)
        return x;
    tf_node(network->nodes, "Abs", size, TF_FLOAT, TF_INPUTS(x));
    tf_node(network->nodes, "Log1p", log, TF_FLOAT, TF_INPUTS(size));
    tf_node(network->nodes, "Sign", sign, TF_FLOAT, TF_INPUTS(x));
    tf_node(network->nodes, "Mul", name, TF_FLOAT, TF_INPUTS(sign, log));
    return name;
}

/* One [N] per column, put together to [N, columns]. */
static const char *write_columns(struct tf_network *network, const struct face *face, bool numbers,
                                 bool examples)
{
    struct tf_nodes *nodes = network->nodes;
    int count = numbers ? face->number_count : face->category_count;
    const char **columns = ARENA_ARRAY(network->arena, const char *, count);
    for (int i = 0; columns && i < count; i++) {
        const char *key = numbers ? face->numbers[i].name : face->categories[i];
        const char *name = tf_name(key, network->arena);
        const char *parsed =
            arena_format(network->arena, "parsed:%d", numbers ? i : face->number_count + i);
        columns = name && parsed ? columns : NULL;
        if (!columns)
            break;
        placeholder(nodes, name, numbers ? DTYPE_F32 : DTYPE_STRING, &SHAPE(SHAPE_BATCH),
                    examples ? parsed : NULL);
        columns[i] = numbers && face->numbers[i].logarithm ? write_logarithm(network, name) : name;
    }
    const char *name = numbers ? "columns/numeric" : "columns/category";
    network->failed |= !columns;
    tf_begin(nodes, "Pack", name);
    for (int i = 0; columns && i < count; i++)
        tf_input(nodes, columns[i]);
    tf_attr_type(nodes, "T", numbers ? TF_FLOAT : TF_STRING);
    tf_attr_int(nodes, "N", count);
    tf_attr_int(nodes, "axis", 1);
    tf_end(nodes);
    return name;
}

/* The key without ":0". */
static const char *node_of(struct tf_network *network, const char *tensor)
{
    char *name = arena_copy_text(network->arena, tensor);
    network->failed |= !name;
    if (name && strrchr(name, ':'))
        *strrchr(name, ':') = '\0';
    return name ? name : "";
}

/* The signature that takes the plan's inputs as they are, or by columns. */
static const struct signature *plain_signature(const struct signatures *signatures)
{
    for (int i = 0; i < signatures->count; i++)
        if (!strcmp(signatures->list[i].name, "predict"))
            return &signatures->list[i];
    return &signatures->list[0];
}

static const char *write_rows(struct tf_network *network, const struct signatures *signatures,
                              int port, const char *otherwise)
{
    const struct signature *plain = plain_signature(signatures);
    for (int i = 0; i < plain->input_count; i++)
        if (plain->questions[i].kind == QUESTION_ROWS && plain->questions[i].port == port) {
            const char *name = node_of(network, plain->inputs[i].tensor);
            placeholder(network->nodes, name, plain->inputs[i].dtype, &plain->inputs[i].shape,
                        otherwise);
            return name;
        }
    return "";
}

int tf_write_questions(struct tf_network *network, const struct signatures *signatures,
                       const struct face *face, struct strbuf *library, struct error *err)
{
    bool examples = asks(signatures, QUESTION_EXAMPLE);
    bool pictures = asks(signatures, QUESTION_PICTURE);
    if (examples)
        write_examples(network, face);
    for (int i = 0; i < signatures->input_count; i++) {
        const struct imported_port *port = &signatures->inputs[i];
        bool numbers = !strcmp(port->name, "numeric");
        const char *otherwise = pictures ? write_pictures(network, port, library) : NULL;
        value_id input = graph_find_input(network->graph, port->name);
        network->tensors[input] = numbers || !strcmp(port->name, "category")
                                      ? write_columns(network, face, numbers, examples)
                                      : write_rows(network, signatures, i, otherwise);
    }
    return network->failed || network->nodes->bytes.failed || library->failed
               ? error_set(err, ERROR_MEMORY, "no memory for the SavedModel's inputs")
               : 0;
}

/* ---- what is answered ---- */

struct answers {
    struct tf_network *network;
    const struct face *face;
    const char *name; /* of the node */
    const char *x;    /* the network's output */
    int ndim;         /* of it */
    int classes;
    bool pair; /* "answers/two_logits" is there */
};

static const char *part(struct answers *answers, const char *word)
{
    const char *name = arena_format(answers->network->arena, "%s/%s", answers->name, word);
    answers->network->failed |= !name;
    return name ? name : "";
}

static void arg_max(struct answers *answers, const char *name, const char *x)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char *axis = part(answers, "dimension");
    tf_const_int(nodes, axis, 1);
    tf_begin(nodes, "ArgMax", name);
    tf_input(nodes, x);
    tf_input(nodes, axis);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tidx", TF_INT32);
    tf_attr_type(nodes, "output_type", TF_INT64);
    tf_end(nodes);
}

/* [0, logit]: of two classes the first is the measure. */
static const char *two_logits(struct answers *answers)
{
    static const char name[] = "answers/two_logits";
    struct tf_nodes *nodes = answers->network->nodes;
    if (answers->pair)
        return name;
    answers->pair = true;
    tf_node(nodes, "ZerosLike", "answers/zeros", TF_FLOAT, TF_INPUTS(answers->x));
    tf_const_int(nodes, "answers/axis", 1);
    tf_begin(nodes, "ConcatV2", name);
    tf_input(nodes, "answers/zeros");
    tf_input(nodes, answers->x);
    tf_input(nodes, "answers/axis");
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tidx", TF_INT32);
    tf_attr_int(nodes, "N", 2);
    tf_end(nodes);
    return name;
}

static void pair_id(struct answers *answers, const char *name)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char *flat = part(answers, "ArgMax"), *axis = part(answers, "last");
    arg_max(answers, flat, two_logits(answers));
    tf_const_int(nodes, axis, -1);
    tf_begin(nodes, "ExpandDims", name);
    tf_input(nodes, flat);
    tf_input(nodes, axis);
    tf_attr_type(nodes, "T", TF_INT64);
    tf_attr_type(nodes, "Tdim", TF_INT32);
    tf_end(nodes);
}

static const char **class_names(struct answers *answers)
{
    struct arena *arena = answers->network->arena;
    const char **names = ARENA_ARRAY(arena, const char *, answers->classes);
    for (int i = 0; names && i < answers->classes; i++) {
        names[i] = signatures_label(answers->face, i, arena);
        names = names[i] ? names : NULL;
    }
    answers->network->failed |= !names;
    return names;
}

/* The names of the classes whose numbers are in `ids`. */
static void names_of(struct answers *answers, const char *ids)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char **names = class_names(answers);
    const char *table = part(answers, "names"), *axis = part(answers, "axis");
    if (!names)
        return;
    tf_const_texts(nodes, table, names, answers->classes);
    tf_const_int(nodes, axis, 0);
    tf_begin(nodes, "GatherV2", answers->name);
    tf_input(nodes, table);
    tf_input(nodes, ids);
    tf_input(nodes, axis);
    tf_attr_type(nodes, "Tparams", TF_STRING);
    tf_attr_type(nodes, "Tindices", TF_INT64);
    tf_attr_type(nodes, "Taxis", TF_INT32);
    tf_end(nodes);
}

/* One row of values, as often as there are rows in the batch. */
static void repeat(struct answers *answers, const char *row, int type)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char *shape = part(answers, "Shape"), *first = part(answers, "first");
    const char *one = part(answers, "one"), *rows = part(answers, "rows");
    const char *times = part(answers, "times"), *axis = part(answers, "axis");
    tf_begin(nodes, "Shape", shape);
    tf_input(nodes, answers->x);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "out_type", TF_INT32);
    tf_end(nodes);
    tf_const_ints(nodes, first, (int32_t[]){0}, 1);
    tf_const_ints(nodes, one, (int32_t[]){1}, 1);
    tf_const_int(nodes, axis, 0);
    tf_begin(nodes, "Slice", rows);
    tf_input(nodes, shape);
    tf_input(nodes, first);
    tf_input(nodes, one);
    tf_attr_type(nodes, "T", TF_INT32);
    tf_attr_type(nodes, "Index", TF_INT32);
    tf_end(nodes);
    tf_begin(nodes, "ConcatV2", times);
    tf_input(nodes, rows);
    tf_input(nodes, one);
    tf_input(nodes, axis);
    tf_attr_type(nodes, "T", TF_INT32);
    tf_attr_type(nodes, "Tidx", TF_INT32);
    tf_attr_int(nodes, "N", 2);
    tf_end(nodes);
    tf_begin(nodes, "Tile", answers->name);
    tf_input(nodes, row);
    tf_input(nodes, times);
    tf_attr_type(nodes, "T", type);
    tf_attr_type(nodes, "Tmultiples", TF_INT32);
    tf_end(nodes);
}

static void class_ids(struct answers *answers)
{
    int32_t *ids = ARENA_ARRAY(answers->network->arena, int32_t, answers->classes);
    const char *row = part(answers, "row");
    answers->network->failed |= !ids;
    for (int i = 0; ids && i < answers->classes; i++)
        ids[i] = i;
    if (ids)
        tf_const(answers->network->nodes, row,
                 &(struct tensor){DTYPE_I32, SHAPE(1, answers->classes), ids});
    repeat(answers, row, TF_INT32);
}

static void all_names(struct answers *answers)
{
    struct arena *arena = answers->network->arena;
    const char **names = class_names(answers);
    struct text_view *views = ARENA_ARRAY(arena, struct text_view, answers->classes);
    const char *row = part(answers, "row");
    answers->network->failed |= !views;
    for (int i = 0; names && views && i < answers->classes; i++)
        views[i] = (struct text_view){names[i], strlen(names[i])};
    if (names && views)
        tf_const(answers->network->nodes, row,
                 &(struct tensor){DTYPE_STRING, SHAPE(1, answers->classes), views});
    repeat(answers, row, TF_STRING);
}

/* As the graph has it: pictures have their channels first there. */
static void rows(struct answers *answers)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char *perm = part(answers, "perm");
    if (answers->ndim != 4) {
        tf_node(nodes, "Identity", answers->name, TF_FLOAT, TF_INPUTS(answers->x));
        return;
    }
    tf_const_ints(nodes, perm, (int32_t[]){0, 3, 1, 2}, 4);
    tf_begin(nodes, "Transpose", answers->name);
    tf_input(nodes, answers->x);
    tf_input(nodes, perm);
    tf_attr_type(nodes, "T", TF_FLOAT);
    tf_attr_type(nodes, "Tperm", TF_INT32);
    tf_end(nodes);
}

static void write_answer(struct answers *answers, enum answer_kind kind)
{
    struct tf_nodes *nodes = answers->network->nodes;
    const char *ids = part(answers, "ids");
    switch (kind) {
    case ANSWER_ROWS:
        rows(answers);
        break;
    case ANSWER_SOFTMAX:
        tf_node(nodes, "Softmax", answers->name, TF_FLOAT, TF_INPUTS(answers->x));
        break;
    case ANSWER_ARGMAX:
        arg_max(answers, answers->name, answers->x);
        break;
    case ANSWER_LOGISTIC:
        tf_node(nodes, "Sigmoid", answers->name, TF_FLOAT, TF_INPUTS(answers->x));
        break;
    case ANSWER_PAIR:
        tf_node(nodes, "Softmax", answers->name, TF_FLOAT, TF_INPUTS(two_logits(answers)));
        break;
    case ANSWER_PAIR_ID:
        pair_id(answers, answers->name);
        break;
    case ANSWER_PAIR_NAME:
        pair_id(answers, ids);
        names_of(answers, ids);
        break;
    case ANSWER_NAME:
        arg_max(answers, ids, answers->x);
        names_of(answers, ids);
        break;
    case ANSWER_CLASS_IDS:
        class_ids(answers);
        break;
    case ANSWER_CLASS_NAMES:
        all_names(answers);
        break;
    }
}

static const char *output_of(struct tf_network *network, int port)
{
    return network->tensors[graph_output_value(network->graph, port)];
}

static bool written_before(const struct signatures *signatures, int signature, int output)
{
    const char *tensor = signatures->list[signature].outputs[output].tensor;
    for (int i = 0; i <= signature; i++)
        for (int k = 0; k < (i < signature ? signatures->list[i].output_count : output); k++)
            if (!strcmp(signatures->list[i].outputs[k].tensor, tensor))
                return true;
    return false;
}

int tf_write_answers(struct tf_network *network, const struct signatures *signatures,
                     const struct face *face, struct error *err)
{
    struct answers answers = {.network = network, .face = face};
    for (int i = 0; i < signatures->count; i++)
        for (int k = 0; k < signatures->list[i].output_count; k++) {
            const struct answer *answer = &signatures->list[i].answers[k];
            const struct shape *shape = &signatures->outputs[answer->port].shape;
            if (written_before(signatures, i, k))
                continue;
            answers.name = node_of(network, signatures->list[i].outputs[k].tensor);
            answers.x = output_of(network, answer->port);
            answers.ndim = shape->ndim;
            answers.classes = shape->ndim == 2 && shape->dim[1] > 1 ? (int)shape->dim[1] : 2;
            write_answer(&answers, answer->kind);
        }
    return network->failed || network->nodes->bytes.failed
               ? error_set(err, ERROR_MEMORY, "no memory for the SavedModel's outputs")
               : 0;
}
