/* Rows of requests into a plan's inputs, and rows of its outputs into replies. */
#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported_parts.h"
#include "convert/signatures.h"
#include "data/fingerprint.h"
#include "data/pictures.h"
#include "wire/example.h"

/* ---- in ---- */

/* Of one row of a port. */
static size_t row_elements(const struct shape *shape)
{
    struct shape rest = *shape;
    rest.dim[0] = 1;
    return (size_t)shape_count(&rest);
}

static void copy_rows(const struct imported_port *port, const struct tensor *in, int64_t rows,
                      struct tensor *out, int64_t at)
{
    size_t bytes = row_elements(&port->shape) * dtype_bytes(port->dtype);
    memcpy((char *)out->data + (size_t)at * bytes, in->data, (size_t)rows * bytes);
}

static int take_pictures(const struct imported *model, const struct imported_port *port,
                         const struct tensor *in, int64_t rows, struct tensor *out, int64_t at,
                         struct error *err)
{
    const struct text_view *encoded = in->data;
    size_t elements = row_elements(&port->shape);
    for (int64_t i = 0; i < rows; i++)
        if (pictures_centre(model->memory->pictures, encoded[i].bytes, encoded[i].count,
                            (int)port->shape.dim[1], &picture_numbers_imagenet,
                            (float *)out->data + (size_t)(at + i) * elements, err) < 0)
            return error_wrap(err, "row %" PRId64, i);
    return 0;
}

static float scale_number(const struct face *face, int column, float x)
{
    return face->numbers[column].logarithm ? copysignf(log1pf(fabsf(x)), x) : x;
}

static void take_numbers(const struct face *face, const struct imported_port *port, int column,
                         const struct tensor *in, int64_t rows, struct tensor *out, int64_t at)
{
    const float *numbers = in->data;
    size_t columns = (size_t)port->shape.dim[1];
    float *first = (float *)out->data + (size_t)at * columns + (size_t)column;
    for (int64_t i = 0; i < rows; i++)
        first[(size_t)i * columns] = scale_number(face, column, numbers[i]);
}

static void take_categories(const struct imported_port *port, int column, const struct tensor *in,
                            int64_t rows, struct tensor *out, int64_t at)
{
    const struct text_view *texts = in->data;
    size_t columns = (size_t)port->shape.dim[1];
    int64_t *first = (int64_t *)out->data + (size_t)at * columns + (size_t)column;
    for (int64_t i = 0; i < rows; i++)
        first[(size_t)i * columns] = (int64_t)fingerprint64(texts[i].bytes, texts[i].count);
}

/* A feature of another kind, or of several values, is what TensorFlow's parser refuses, too. */
static int wrong_feature(const char *name, const char *wanted, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "its feature %s is not one %s", name, wanted);
}

static int take_feature(const struct face *face, int column, const struct feature *feature,
                        float *numbers, int64_t *categories, struct error *err)
{
    bool there = feature->kind != FEATURE_NONE && feature_count(feature) > 0;
    if (column < face->number_count) {
        float x = 0;
        if (there && (feature_count(feature) != 1 || !feature_float(feature, 0, &x)))
            return wrong_feature(face->numbers[column].name, "float", err);
        numbers[column] = scale_number(face, column, x);
        return 0;
    }
    int category = column - face->number_count;
    const uint8_t *text = (const uint8_t *)face->missing_category;
    size_t bytes = strlen(face->missing_category);
    if (there && (feature_count(feature) != 1 || !feature_bytes(feature, 0, &text, &bytes)))
        return wrong_feature(face->categories[category], "text", err);
    categories[category] = (int64_t)fingerprint64(text, bytes);
    return 0;
}

/* The columns of a table, numbers first. */
struct columns {
    const char **names;
    struct feature *features;
    int count;
};

static int list_columns(const struct face *face, struct arena *arena, struct columns *out,
                        struct error *err)
{
    out->count = face->number_count + face->category_count;
    out->names = ARENA_ARRAY(arena, const char *, out->count);
    out->features = ARENA_ARRAY(arena, struct feature, out->count);
    if (!out->names || !out->features)
        return error_set(err, ERROR_MEMORY, "no memory for the columns");
    for (int i = 0; i < out->count; i++)
        out->names[i] = i < face->number_count ? face->numbers[i].name
                                               : face->categories[i - face->number_count];
    return 0;
}

static int find_input(const struct imported *model, const char *name)
{
    for (int i = 0; i < model->input_count; i++)
        if (!strcmp(model->inputs[i].name, name))
            return i;
    return -1;
}

static int take_example(const struct face *face, const struct text_view *message,
                        const struct columns *columns, float *numbers, int64_t *categories,
                        struct error *err)
{
    if (example_find(message->bytes, message->count, columns->names, columns->count,
                     columns->features, err) < 0)
        return -1;
    for (int i = 0; i < columns->count; i++)
        if (take_feature(face, i, &columns->features[i], numbers, categories, err) < 0)
            return -1;
    return 0;
}

static int take_examples(const struct imported *model, const struct tensor *in, int64_t rows,
                         struct tensor *plan_inputs, int64_t at, struct error *err)
{
    const struct face *face = &model->memory->face;
    int numeric = find_input(model, "numeric"), category = find_input(model, "category");
    struct arena *arena = arena_create();
    struct columns columns;
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory for the examples");
    int status = list_columns(face, arena, &columns, err);
    for (int64_t i = 0; status == 0 && i < rows; i++) {
        size_t row = (size_t)(at + i);
        float *numbers = numeric >= 0
                             ? (float *)plan_inputs[numeric].data + row * (size_t)face->number_count
                             : NULL;
        int64_t *categories = category >= 0 ? (int64_t *)plan_inputs[category].data +
                                                  row * (size_t)face->category_count
                                            : NULL;
        status = take_example(face, (const struct text_view *)in->data + i, &columns, numbers,
                              categories, err);
        if (status < 0)
            error_wrap(err, "row %" PRId64, i);
    }
    arena_destroy(arena);
    return status;
}

static int take(const struct imported *model, const struct question *question,
                const struct tensor *in, int64_t rows, struct tensor *plan_inputs, int64_t at,
                struct error *err)
{
    const struct imported_port *port = &model->inputs[question->port];
    struct tensor *out = &plan_inputs[question->port];
    switch (question->kind) {
    case QUESTION_ROWS:
        copy_rows(port, in, rows, out, at);
        return 0;
    case QUESTION_PICTURE:
        return take_pictures(model, port, in, rows, out, at, err);
    case QUESTION_NUMBER:
        take_numbers(&model->memory->face, port, question->column, in, rows, out, at);
        return 0;
    case QUESTION_CATEGORY:
        take_categories(port, question->column, in, rows, out, at);
        return 0;
    case QUESTION_EXAMPLE:
        return take_examples(model, in, rows, plan_inputs, at, err);
    }
    return 0;
}

int imported_prepare(const struct imported *model, const struct signature *signature,
                     const struct tensor *request, int64_t rows, struct tensor *plan_inputs,
                     int64_t at, struct error *err)
{
    for (int i = 0; i < signature->input_count; i++)
        if (take(model, &signature->questions[i], &request[i], rows, plan_inputs, at, err) < 0)
            return error_wrap(err, "input %s", signature->inputs[i].key);
    return 0;
}

/* ---- out ---- */

/* exp(x - greatest) / their sum: [count]. */
static void soft_max(const float *x, int64_t count, float *out)
{
    float greatest = x[0];
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        greatest = x[i] > greatest ? x[i] : greatest;
    for (int64_t i = 0; i < count; i++) {
        out[i] = expf(x[i] - greatest);
        sum += (double)out[i];
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)((double)out[i] / sum);
}

/* The first of the greatest, as TensorFlow's ArgMax. */
static int64_t arg_max(const float *x, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

static struct text_view name_of(const struct imported_memory *memory, int64_t index)
{
    return index < memory->name_count ? memory->names[index] : (struct text_view){"", 0};
}

/* One row of an output: x has `count` numbers, the answer is written to element `at` onwards. */
static void answer_row(const struct imported_memory *memory, enum answer_kind kind, const float *x,
                       int64_t count, void *out, size_t at, size_t width)
{
    struct text_view *texts = (struct text_view *)out + at;
    float *numbers = (float *)out + at;
    switch (kind) {
    case ANSWER_ROWS:
        memcpy(numbers, x, width * sizeof *x);
        break;
    case ANSWER_SOFTMAX:
        soft_max(x, count, numbers);
        break;
    case ANSWER_ARGMAX:
        ((int64_t *)out)[at] = arg_max(x, count);
        break;
    case ANSWER_LOGISTIC:
        for (size_t i = 0; i < width; i++)
            numbers[i] = logistic(x[i]);
        break;
    case ANSWER_PAIR:
        soft_max((float[]){0, x[0]}, 2, numbers);
        break;
    case ANSWER_PAIR_ID:
        ((int64_t *)out)[at] = x[0] > 0;
        break;
    case ANSWER_PAIR_NAME:
        *texts = name_of(memory, x[0] > 0);
        break;
    case ANSWER_NAME:
        *texts = name_of(memory, arg_max(x, count));
        break;
    case ANSWER_CLASS_IDS:
        for (size_t i = 0; i < width; i++)
            ((int32_t *)out)[at + i] = (int32_t)i;
        break;
    case ANSWER_CLASS_NAMES:
        for (size_t i = 0; i < width; i++)
            texts[i] = name_of(memory, (int64_t)i);
        break;
    }
}

int imported_finish(const struct imported *model, const struct signature *signature,
                    const struct tensor *plan_outputs, int64_t at, int64_t rows,
                    struct arena *arena, struct tensor *reply, struct error *err)
{
    for (int i = 0; i < signature->output_count; i++) {
        const struct signature_tensor *output = &signature->outputs[i];
        const struct answer *answer = &signature->answers[i];
        size_t count = row_elements(&model->outputs[answer->port].shape);
        size_t width = row_elements(&output->shape);
        const float *x = (const float *)plan_outputs[answer->port].data + (size_t)at * count;
        if (tensor_create(arena, output->dtype, shape_with_batch(output->shape, rows), &reply[i],
                          err) < 0)
            return -1;
        for (int64_t row = 0; row < rows; row++)
            answer_row(model->memory, answer->kind, x + (size_t)row * count, (int64_t)count,
                       reply[i].data, (size_t)row * width, width);
    }
    return 0;
}
