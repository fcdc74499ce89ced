#include "convert/onnx_reading.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/arena.h"
#include "base/error.h"

/* Elements of one example of anything: far from what memory holds, and products still fit. */
#define MOST_ELEMENTS ((int64_t)1 << 36)

/* --- Names --- */

static size_t hash(const char *text)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        key = (key ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (size_t)(key ^ key >> 32);
}

/* The place of this name, or the free one where it would be. */
static struct term *place_of(const struct reading *reading, const char *name)
{
    size_t at = hash(name) & reading->term_mask;
    while (reading->terms[at].name && strcmp(reading->terms[at].name, name) != 0)
        at = (at + 1) & reading->term_mask;
    return &reading->terms[at];
}

struct term *reading_term(struct reading *reading, const char *name)
{
    struct term *term = place_of(reading, name);
    return term->name ? term : NULL;
}

struct term *reading_add_term(struct reading *reading, const char *name)
{
    struct term *term = place_of(reading, name);
    if (!term->name)
        *term = (struct term){.name = name, .value = -1, .last_reader = -1};
    return term;
}

static int make_table(struct reading *reading, struct error *err)
{
    const struct onnx_file *file = reading->file;
    size_t names = (size_t)file->tensor_count + (size_t)file->input_count + 1;
    for (int i = 0; i < file->node_count; i++)
        names += (size_t)file->nodes[i].output_count + (size_t)file->nodes[i].input_count;
    names += (size_t)file->output_count;
    size_t size = 16;
    while (size < names * 2)
        size *= 2;
    reading->terms = ARENA_ARRAY(reading->arena, struct term, size);
    reading->done = ARENA_ARRAY(reading->arena, bool, file->node_count + 1);
    reading->term_mask = size - 1;
    return reading->terms && reading->done
               ? 0
               : error_set(err, ERROR_MEMORY, "no memory for %zu names", names);
}

/* Counts who reads what; a name that two nodes put out is a broken file. */
static int add_names(struct reading *reading, struct error *err)
{
    const struct onnx_file *file = reading->file;
    for (int n = 0; n < file->node_count; n++) {
        const struct onnx_node *node = &file->nodes[n];
        for (int i = 0; i < node->input_count; i++) {
            struct term *term = reading_add_term(reading, node->inputs[i]);
            term->readers++;
            term->last_reader = n;
        }
        for (int i = 0; i < node->output_count; i++)
            reading_add_term(reading, node->outputs[i]);
    }
    for (int i = 0; i < file->output_count; i++)
        reading_add_term(reading, file->outputs[i].name)->readers++;
    for (int i = 0; i < file->tensor_count; i++) {
        const struct onnx_tensor *tensor = &file->tensors[i];
        if (reading_add_term(reading, tensor->name)->kind != TERM_UNKNOWN)
            return error_set(err, ERROR_FORMAT, "two tensors are named \"%s\"", tensor->name);
        reading_give_constant(reading, tensor->name, tensor, tensor->name);
    }
    return 0;
}

/* Weights may be turned round and put together; a small file that makes gigabytes is an attack. */
static int64_t budget_of(const struct onnx_file *file)
{
    int64_t elements = 1 << 20;
    for (int i = 0; i < file->tensor_count; i++)
        elements += 4 * file->tensors[i].count;
    for (int n = 0; n < file->node_count; n++)
        for (int i = 0; i < file->nodes[n].attribute_count; i++)
            if (file->nodes[n].attributes[i].tensor)
                elements += 4 * file->nodes[n].attributes[i].tensor->count;
    return elements;
}

int reading_open(struct reading *reading, struct error *err)
{
    strbuf_init(&reading->refused);
    reading->budget = budget_of(reading->file);
    if (make_table(reading, err) < 0)
        return -1;
    return add_names(reading, err);
}

void reading_close(struct reading *reading)
{
    strbuf_release(&reading->refused);
}

/* --- What operators ask and say --- */

struct term *reading_input(struct reading *reading, const struct onnx_node *node, int index)
{
    if (index >= node->input_count || !*node->inputs[index])
        return NULL;
    return reading_term(reading, node->inputs[index]);
}

const struct onnx_tensor *reading_constant(struct reading *reading, const struct onnx_node *node,
                                           int index)
{
    const struct term *term = reading_input(reading, node, index);
    return term && term->kind == TERM_CONSTANT ? &term->tensor : NULL;
}

/* A single number is [1]: the graph knows no shape without dimensions. */
static struct shape shape_of(const struct onnx_tensor *tensor)
{
    struct shape shape = {.ndim = tensor->ndim ? tensor->ndim : 1, .dim = {1}};
    for (int i = 0; i < tensor->ndim && i < TENSOR_MAX_DIMS; i++)
        shape.dim[i] = tensor->dim[i];
    return shape;
}

static value_id constant_value(struct reading *reading, const struct onnx_node *node, int index,
                               struct term *term)
{
    struct initializer init;
    if (term->tensor.ndim > TENSOR_MAX_DIMS || term->tensor.count < 1) {
        reading_refuse(reading, node, "%s has %d dimensions and %" PRId64 " elements", term->name,
                       term->tensor.ndim, term->tensor.count);
        return -1;
    }
    if (!reading_parameter(reading, node, index, NULL, term->tensor.count, &init))
        return -1;
    /* Newer exporters keep the 0.5 of `x * 0.5` among the tensors: a number without dimensions. */
    bool trained = term->parameter && term->tensor.ndim > 0;
    return graph_param(reading->graph, term->name, shape_of(&term->tensor), init,
                       trained ? PARAM_TRAINABLE : PARAM_STATISTIC);
}

value_id reading_bordered(struct reading *reading, const struct onnx_node *node, int index,
                          const int **border)
{
    struct term *term = reading_input(reading, node, index);
    if (!term || term->kind == TERM_UNKNOWN) {
        reading_refuse(reading, node, "input %d is %s", index,
                       term ? "not computed before it" : "missing");
        return -1;
    }
    *border = term->border;
    if (term->kind == TERM_CONSTANT)
        return constant_value(reading, node, index, term);
    return term->value;
}

value_id reading_value(struct reading *reading, const struct onnx_node *node, int index)
{
    const int *border;
    value_id value = reading_bordered(reading, node, index, &border);
    if (value >= 0 && (border[0] || border[1] || border[2] || border[3])) {
        reading_refuse(reading, node, "a Pad goes into Conv and AveragePool only");
        return -1;
    }
    return value;
}

bool reading_parameter(struct reading *reading, const struct onnx_node *node, int index,
                       const float *values, int64_t count, struct initializer *out)
{
    struct term *term = reading_input(reading, node, index);
    if (!term || term->kind != TERM_CONSTANT || !term->tensor.floats) {
        reading_refuse(reading, node, "input %d must be floating-point numbers in the file", index);
        return false;
    }
    if (!values && term->tensor.count != count) {
        reading_refuse(reading, node, "%s has %" PRId64 " elements, not %" PRId64, term->name,
                       term->tensor.count, count);
        return false;
    }
    if (term->taken) {
        reading_refuse(reading, node, "shares %s with another node; each needs its own",
                       term->name);
        return false;
    }
    term->taken = true;
    *out = (struct initializer){.kind = INIT_VALUES,
                                .values = values ? values : term->tensor.floats,
                                .name = term->parameter ? term->parameter : term->name};
    return true;
}

static bool is_reasonable(const struct shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++) {
        int64_t dim = shape->dim[i] == SHAPE_BATCH ? 1 : shape->dim[i];
        if (dim > MOST_ELEMENTS / count)
            return false;
        count *= dim;
    }
    return true;
}

void reading_give(struct reading *reading, const struct onnx_node *node, value_id value)
{
    struct term *term = node->output_count ? reading_term(reading, node->outputs[0]) : NULL;
    if (!term)
        return;
    const struct shape *shape = value < 0 ? NULL : &graph_value(reading->graph, value)->shape;
    if (shape && !is_reasonable(shape)) {
        reading_refuse(reading, node, "its result is larger than any memory");
        return;
    }
    if (shape && shape->dim[0] != SHAPE_BATCH) {
        reading_refuse(reading, node, "its result does not depend on an input");
        return;
    }
    term->kind = TERM_VALUE;
    term->value = value;
}

void reading_give_constant(struct reading *reading, const char *name,
                           const struct onnx_tensor *tensor, const char *parameter)
{
    struct term *term = reading_term(reading, name);
    if (!term)
        return;
    term->kind = TERM_CONSTANT;
    term->tensor = *tensor;
    term->parameter = parameter;
}

void reading_refuse_outputs(struct reading *reading, const struct onnx_node *node)
{
    for (int i = 0; i < node->output_count; i++)
        reading_term(reading, node->outputs[i])->kind = TERM_REFUSED;
}

void reading_refuse(struct reading *reading, const struct onnx_node *node, const char *format, ...)
{
    char why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    const char *name = *node->name ? node->name : node->output_count ? node->outputs[0] : "";
    strbuf_addf(&reading->refused, "%s%s %s: %s", reading->refused.length ? "; " : "", node->op,
                name, why);
    reading_refuse_outputs(reading, node);
}

float *reading_floats(struct reading *reading, int64_t count)
{
    float *room = ARENA_ARRAY(reading->arena, float, count + 1);
    reading->no_memory |= !room;
    return room;
}

int64_t *reading_integers(struct reading *reading, int64_t count)
{
    int64_t *room = ARENA_ARRAY(reading->arena, int64_t, count + 1);
    reading->no_memory |= !room;
    return room;
}

/* The file's own where nothing else has it; names of nodes and of values are not kept apart here. */
const char *reading_name(struct reading *reading, const struct onnx_node *node)
{
    bool usable = *node->name && !reading_term(reading, node->name);
    return graph_make_name(reading->graph, usable ? node->name : node->op);
}

const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name)
{
    for (int i = 0; i < node->attribute_count; i++)
        if (!strcmp(node->attributes[i].name, name))
            return &node->attributes[i];
    return NULL;
}

int64_t onnx_integer(const struct onnx_node *node, const char *name, int64_t missing)
{
    const struct onnx_attribute *attribute = onnx_attribute(node, name);
    return attribute ? attribute->integer : missing;
}

float onnx_number(const struct onnx_node *node, const char *name, float missing)
{
    const struct onnx_attribute *attribute = onnx_attribute(node, name);
    return attribute ? attribute->number : missing;
}

const char *onnx_text(const struct onnx_node *node, const char *name, const char *missing)
{
    const struct onnx_attribute *attribute = onnx_attribute(node, name);
    return attribute && attribute->text ? attribute->text : missing;
}

int onnx_axes(struct reading *reading, const struct onnx_node *node, int index, int ndim,
              int axes[ONNX_MAX_DIMS])
{
    const struct onnx_attribute *attribute = onnx_attribute(node, "axes");
    const struct onnx_tensor *tensor = reading_constant(reading, node, index);
    const int64_t *list = attribute ? attribute->integers : tensor ? tensor->integers : NULL;
    int64_t count = attribute ? attribute->integer_count : tensor ? tensor->count : 0;
    if (!attribute && !tensor)
        return reading_input(reading, node, index) ? -2 : -1;
    if (!list || count > ONNX_MAX_DIMS)
        return -2;
    for (int i = 0; i < count; i++) {
        int64_t axis = list[i] < 0 ? list[i] + ndim : list[i];
        if (axis < 0 || axis >= ndim)
            return -2;
        axes[i] = (int)axis;
    }
    return (int)count;
}
