/* Arithmetic on weights, and values scaled and shifted by them channel by channel: how Keras writes
 * out a batch norm that is no longer trained. */
#include <string.h>

#include "base/arena.h"
#include "convert/tf_import.h"
#include "exec/known_ops.h"

#define MOST_ELEMENTS (INT64_C(1) << 40)

/* An affine operation is a batch norm of mean 0 and a deviation of exactly 1. */
static const float epsilon = 0x1p-10f, variance = 1 - 0x1p-10f;

static struct import_value nothing(void)
{
    return (struct import_value){.kind = IMPORT_NOTHING};
}

bool import_is_sensible(const struct shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++) {
        bool batch = i == 0 && shape->dim[i] == SHAPE_BATCH;
        if (!batch && (shape->dim[i] < 1 || shape->dim[i] > MOST_ELEMENTS / count))
            return false;
        count *= batch ? 1 : shape->dim[i];
    }
    return true;
}

bool import_is_weights(const struct import_value *value)
{
    return value->kind == IMPORT_WEIGHTS ||
           (value->kind == IMPORT_CONSTANT && value->constant.dtype == DTYPE_F32);
}

bool import_weights_shape(const struct import_value *value, struct shape *out)
{
    if (value->kind == IMPORT_CONSTANT)
        *out = value->constant.shape;
    else if (value->numbers)
        *out = SHAPE(value->numbers->count);
    else if (!tf_def_shape(value->variable, "shape", out))
        return false;
    if (!import_is_sensible(out))
        return false;
    if (value->is_vector)
        *out = SHAPE(shape_count(out));
    return true;
}

/* ---- weights with weights ---- */

static bool sum_of(const char *op, enum import_sum *out)
{
    static const struct {
        const char *op;
        enum import_sum sum;
    } rows[] = {{"Add", SUM_ADD},
                {"AddV2", SUM_ADD},
                {"Sub", SUM_SUBTRACT},
                {"Mul", SUM_MULTIPLY},
                {"Rsqrt", SUM_INVERSE_ROOT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, op)) {
            *out = rows[i].sum;
            return true;
        }
    return false;
}

/* Vectors of one length, or single numbers; 0: neither. */
static int64_t common_count(const struct import_value *a, const struct import_value *b)
{
    struct shape left, right;
    if (!import_weights_shape(a, &left) || !import_weights_shape(b, &right) || left.ndim > 1 ||
        right.ndim > 1)
        return 0;
    int64_t x = shape_count(&left), y = shape_count(&right);
    return x == y || y == 1 ? x : x == 1 ? y : 0;
}

static struct import_value combine(struct import *import, const struct tf_def_node *node,
                                   const struct import_value *a, const struct import_value *b)
{
    struct import_numbers *numbers = ARENA_NEW(import->arena, struct import_numbers);
    int64_t count = common_count(a, b);
    if (!numbers)
        return nothing();
    *numbers = (struct import_numbers){.a = *a, .b = *b, .count = count};
    if (count == 0 || !sum_of(node->op, &numbers->sum))
        return import_refuse(import, node);
    return (struct import_value){.kind = IMPORT_WEIGHTS, .numbers = numbers};
}

/* ---- values with weights ---- */

/* A number for each channel. */
static struct import_value filled(struct import *import, int64_t count, float number)
{
    float *numbers = ARENA_ARRAY(import->arena, float, count);
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = number;
    return (struct import_value){.kind = numbers ? IMPORT_CONSTANT : IMPORT_NOTHING,
                                 .constant = {DTYPE_F32, SHAPE(count), numbers}};
}

static struct import_value affine(struct import *import, value_id x,
                                  const struct import_value *scale,
                                  const struct import_value *shift)
{
    int64_t channels = graph_value(import->graph, x)->shape.dim[1];
    struct import_value parts[] = {scale ? *scale : filled(import, channels, 1),
                                   shift ? *shift : filled(import, channels, 0),
                                   filled(import, channels, 0), filled(import, channels, variance)};
    value_id id =
        lockstep_batch_norm(import->graph, x, (struct batch_norm_options){.epsilon = epsilon});
    if (id < 0)
        return nothing();
    const struct node *made =
        graph_node_at(import->graph, graph_value(import->graph, id)->producer);
    for (int i = 0; i < 4; i++)
        if (parts[i].kind == IMPORT_NOTHING ||
            !import_add_load(import, made->inputs[BATCH_NORM_SCALE + i], &parts[i], TURN_NONE,
                             NULL))
            return nothing();
    return (struct import_value){.kind = IMPORT_VALUE, .id = id};
}

/* Can each channel of the value get one of these numbers? */
static bool fits(const struct import *import, const struct import_value *value,
                 const struct import_value *weights)
{
    struct shape shape;
    const struct shape *x = &graph_value(import->graph, value->id)->shape;
    return (x->ndim == 2 || x->ndim == 4) && !value->flat[2] && !value->channels_first &&
           !(value->pads[0] || value->pads[1] || value->pads[2] || value->pads[3]) &&
           import_weights_shape(weights, &shape) && shape.ndim == 1 && shape.dim[0] == x->dim[1];
}

static struct import_value scale(struct import *import, const struct import_value *value,
                                 const struct import_value *weights)
{
    struct import_numbers *factors = ARENA_NEW(import->arena, struct import_numbers);
    if (!factors)
        return nothing();
    *factors = (struct import_numbers){.a = *weights};
    return (struct import_value){.kind = IMPORT_SCALED, .id = value->id, .numbers = factors};
}

struct import_value import_unshifted(struct import *import, struct import_value value)
{
    return affine(import, value.id, &value.numbers->a, NULL);
}

struct import_value import_arithmetic(struct import *import, const struct tf_def_node *node,
                                      struct import_value a, struct import_value b)
{
    enum import_sum sum = SUM_SAME;
    if (import_is_weights(&a) && import_is_weights(&b))
        return combine(import, node, &a, &b);
    bool turned = import_is_weights(&a);
    const struct import_value *value = turned ? &b : &a, *weights = turned ? &a : &b;
    sum_of(node->op, &sum);
    bool known = value->kind == IMPORT_VALUE || value->kind == IMPORT_SCALED;
    if (!known || !import_is_weights(weights) || !fits(import, value, weights))
        return import_refuse(import, node);
    if (sum == SUM_ADD)
        return affine(import, value->id, value->kind == IMPORT_SCALED ? &value->numbers->a : NULL,
                      weights);
    if (sum == SUM_MULTIPLY && value->kind == IMPORT_VALUE)
        return scale(import, value, weights);
    return import_refuse(import, node);
}
