#include "serve/examples.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "wire/example.h"

static bool method_is(const struct signature *signature, const char *kind)
{
    const char *slash = strrchr(signature->method, '/');
    return strcmp(slash ? slash + 1 : signature->method, kind) == 0;
}

static int find_output(const struct signature *signature, const char *key, enum dtype dtype)
{
    for (int i = 0; i < signature->output_count; i++)
        if (strcmp(signature->outputs[i].key, key) == 0 && signature->outputs[i].dtype == dtype)
            return i;
    return -1;
}

static int first_output(const struct signature *signature, const char *const *keys,
                        enum dtype dtype)
{
    for (; *keys; keys++) {
        int found = find_output(signature, *keys, dtype);
        if (found >= 0)
            return found;
    }
    return -1;
}

/* --- which signature ------------------------------------------------------------------------- */

static const char *const score_keys[] = {"scores", "probabilities", NULL};
static const char *const label_keys[] = {"classes", "all_classes", NULL};
static const char *const value_keys[] = {"outputs", "predictions", "logistic", "logits", NULL};

/* The output with one number a row that a regression tells, or -1. */
static int value_output(const struct signature *signature)
{
    int output = first_output(signature, value_keys, DTYPE_F32);
    if (output < 0)
        return -1;
    struct shape shape = signature->outputs[output].shape;
    return shape_count(&shape) == 1 ? output : -1;
}

static bool fits(const struct signature *signature, bool regress)
{
    if (method_is(signature, regress ? "classify" : "regress"))
        return false;
    if (regress)
        return value_output(signature) >= 0;
    return first_output(signature, score_keys, DTYPE_F32) >= 0 ||
           find_output(signature, "classes", DTYPE_STRING) >= 0;
}

static const struct signature *find_signature(const struct imported *model, const char *name)
{
    for (int i = 0; i < model->signature_count; i++)
        if (strcmp(model->signatures[i].name, name) == 0)
            return &model->signatures[i];
    return NULL;
}

const struct signature *examples_signature(const struct imported *model, const char *name,
                                           bool regress, enum serve_status *status,
                                           struct error *err)
{
    const char *called = name && *name ? name : "serving_default";
    const struct signature *signature = find_signature(model, called);
    *status = SERVE_INVALID;
    if (!signature)
        error_set(err, ERROR_ABSENT,
                  "Serving signature name: \"%.128s\" not found in signature def", called);
    else if (fits(signature, regress))
        *status = SERVE_OK;
    else
        error_set(err, ERROR_FORMAT,
                  "signature \"%.128s\" (%s) has no outputs for %s; ask it with predict", called,
                  signature->method, regress ? "a regression" : "a classification");
    return *status == SERVE_OK ? signature : NULL;
}

/* --- inputs ---------------------------------------------------------------------------------- */

/* One that reads the messages itself. */
static bool takes_messages(const struct signature *signature)
{
    return signature->input_count == 1 && signature->inputs[0].dtype == DTYPE_STRING &&
           signature->inputs[0].shape.ndim == 1 && !method_is(signature, "predict");
}

/* A message with the context's features before its own: in protobuf, one behind the other is both. */
static int join_context(struct text_view context, struct text_view example, struct arena *arena,
                        struct text_view *out, struct error *err)
{
    *out = example;
    if (!context.count)
        return 0;
    char *bytes = arena_take(arena, context.count + example.count);
    if (!bytes)
        return error_set(err, ERROR_MEMORY, "no memory for the examples");
    memcpy(bytes, context.bytes, context.count);
    if (example.count)
        memcpy(bytes + context.count, example.bytes, example.count);
    *out = (struct text_view){bytes, context.count + example.count};
    return 0;
}

static bool copy_value(const struct feature *feature, int64_t index, enum dtype dtype, void *data,
                       int64_t at)
{
    int64_t whole;
    struct text_view *texts = data;
    switch (dtype) {
    case DTYPE_F32:
        if (feature->kind != FEATURE_INT64)
            return feature_float(feature, index, &((float *)data)[at]);
        if (!feature_int64(feature, index, &whole))
            return false;
        ((float *)data)[at] = (float)whole;
        return true;
    case DTYPE_I64:
        return feature_int64(feature, index, &((int64_t *)data)[at]);
    case DTYPE_I32:
        if (!feature_int64(feature, index, &whole) || whole < INT32_MIN || whole > INT32_MAX)
            return false;
        ((int32_t *)data)[at] = (int32_t)whole;
        return true;
    case DTYPE_U8:
        if (!feature_int64(feature, index, &whole) || whole < 0 || whole > UINT8_MAX)
            return false;
        ((uint8_t *)data)[at] = (uint8_t)whole;
        return true;
    case DTYPE_STRING:
        return feature_bytes(feature, index, (const uint8_t **)&texts[at].bytes, &texts[at].count);
    }
    return false;
}

/* Row `row` of one input. */
static int copy_feature(const struct signature_tensor *wanted, const struct feature *feature,
                        int64_t row, struct tensor *input, struct error *err)
{
    int64_t count = shape_count(&wanted->shape);
    if (feature->kind == FEATURE_NONE)
        return error_set(err, ERROR_FORMAT, "example %" PRId64 " has no feature '%s'", row,
                         wanted->key);
    if (feature_count(feature) != count)
        return error_set(err, ERROR_FORMAT,
                         "example %" PRId64 ": feature '%s' has %" PRId64 " values; %" PRId64
                         " are wanted",
                         row, wanted->key, feature_count(feature), count);
    for (int64_t i = 0; i < count; i++)
        if (!copy_value(feature, i, wanted->dtype, input->data, row * count + i))
            return error_set(err, ERROR_FORMAT, "example %" PRId64 ": feature '%s' is not %s", row,
                             wanted->key, dtype_name(wanted->dtype));
    return 0;
}

static int copy_example(const struct signature *signature, const char *const *names,
                        struct feature *features, struct text_view message, int64_t row,
                        struct tensor *inputs, struct error *err)
{
    if (example_find(message.bytes, message.count, names, signature->input_count, features, err) <
        0)
        return error_wrap(err, "example %" PRId64, row);
    for (int i = 0; i < signature->input_count; i++)
        if (copy_feature(&signature->inputs[i], &features[i], row, &inputs[i], err) < 0)
            return -1;
    return 0;
}

static int take_inputs(const struct signature *signature, int64_t rows, struct arena *arena,
                       struct tensor *inputs, struct error *err)
{
    for (int i = 0; i < signature->input_count; i++)
        if (tensor_create(arena, signature->inputs[i].dtype,
                          shape_with_batch(signature->inputs[i].shape, rows), &inputs[i], err) < 0)
            return -1;
    return 0;
}

int examples_to_inputs(const struct signature *signature, const struct text_view *examples,
                       int64_t count, struct text_view context, struct arena *arena,
                       struct tensor *inputs, struct error *err)
{
    bool whole = takes_messages(signature);
    if (count < 1 || count > EXAMPLES_MAX)
        return error_set(err, ERROR_FORMAT, "%" PRId64 " examples; 1 to %d", count, EXAMPLES_MAX);
    const char **names = ARENA_ARRAY(arena, const char *, signature->input_count + 1);
    struct feature *features = ARENA_ARRAY(arena, struct feature, signature->input_count + 1);
    if (!names || !features)
        return error_set(err, ERROR_MEMORY, "no memory for the examples");
    for (int i = 0; i < signature->input_count; i++)
        names[i] = signature->inputs[i].key;
    if (take_inputs(signature, count, arena, inputs, err) < 0)
        return -1;
    for (int64_t row = 0; row < count; row++) {
        struct text_view message;
        if (join_context(context, examples[row], arena, &message, err) < 0)
            return -1;
        if (whole)
            ((struct text_view *)inputs[0].data)[row] = message;
        else if (copy_example(signature, names, features, message, row, inputs, err) < 0)
            return -1;
    }
    return 0;
}

/* --- outputs --------------------------------------------------------------------------------- */

/* All of an output's dimensions behind the first. */
static int64_t per_row(const struct tensor *tensor)
{
    int64_t rows = tensor->shape.dim[0];
    return rows > 0 ? shape_count(&tensor->shape) / rows : 0;
}

int examples_classification(const struct signature *signature, const struct tensor *outputs,
                            struct arena *arena, struct classification *out, struct error *err)
{
    int scores = first_output(signature, score_keys, DTYPE_F32);
    int labels = first_output(signature, label_keys, DTYPE_STRING);
    (void)arena;
    *out = (struct classification){0};
    if (scores < 0 && labels < 0)
        return error_set(err, ERROR_FORMAT, "the signature has neither scores nor classes");
    const struct tensor *shown = &outputs[scores >= 0 ? scores : labels];
    out->rows = shown->shape.dim[0];
    out->classes = per_row(shown);
    if (scores >= 0)
        out->scores = outputs[scores].data;
    /* "classes" of a canned estimator has the one chosen: it names no scores */
    if (labels >= 0 && per_row(&outputs[labels]) != out->classes)
        labels = find_output(signature, "all_classes", DTYPE_STRING);
    if (labels >= 0 && per_row(&outputs[labels]) == out->classes)
        out->labels = outputs[labels].data;
    return 0;
}

int examples_regression(const struct signature *signature, const struct tensor *outputs,
                        const float **out, int64_t *rows, struct error *err)
{
    int output = value_output(signature);
    if (output < 0)
        return error_set(err, ERROR_FORMAT, "the signature has no output with one number a row");
    *out = outputs[output].data;
    *rows = outputs[output].shape.dim[0];
    return 0;
}
