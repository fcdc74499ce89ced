/* Answers of the REST interface, written as TF Serving writes them. */
#include <inttypes.h>
#include <math.h>

#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/base64.h"
#include "serve/rest_predict.h"

const char *rest_tf_type(enum dtype dtype)
{
    static const char *const names[] = {[DTYPE_F32] = "DT_FLOAT",
                                        [DTYPE_U8] = "DT_UINT8",
                                        [DTYPE_I32] = "DT_INT32",
                                        [DTYPE_I64] = "DT_INT64",
                                        [DTYPE_STRING] = "DT_STRING"};
    return names[dtype];
}

const char *rest_v2_type(enum dtype dtype)
{
    static const char *const names[] = {[DTYPE_F32] = "FP32",
                                        [DTYPE_U8] = "UINT8",
                                        [DTYPE_I32] = "INT32",
                                        [DTYPE_I64] = "INT64",
                                        [DTYPE_STRING] = "BYTES"};
    return names[dtype];
}

/* Six digits when they are enough to get the same number back, else nine. */
void rest_write_float(struct strbuf *out, float value)
{
    char text[48];
    if (!isfinite(value)) {
        strbuf_add(out, isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
        return;
    }
    snprintf(text, sizeof text, "%.6g", (double)value);
    if (strtof(text, NULL) != value)
        snprintf(text, sizeof text, "%.9g", (double)value);
    strbuf_add(out, text);
    if (!strpbrk(text, ".e"))
        strbuf_add(out, ".0");
}

/* How long the sequence is that starts here; 0: it is no UTF-8. */
static size_t sequence_length(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t length;
    } rows[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (at[0] < rows[i].low || at[0] > rows[i].high || left < rows[i].length)
            continue;
        if (rows[i].length > 1 && (at[1] < rows[i].second_low || at[1] > rows[i].second_high))
            return 0;
        for (size_t j = 2; j < rows[i].length; j++)
            if ((at[j] & 0xc0) != 0x80)
                return 0;
        return rows[i].length;
    }
    return 0;
}

static void write_control(struct strbuf *out, unsigned char c)
{
    static const char letters[] = "btnvfr"; /* 8 to 13; \v has no short form */
    if (c >= 8 && c <= 13 && c != 11)
        strbuf_addf(out, "\\%c", letters[c - 8]);
    else
        strbuf_addf(out, "\\u%04x", c);
}

void rest_write_text(struct strbuf *out, const char *bytes, size_t count)
{
    const unsigned char *at = (const unsigned char *)bytes;
    strbuf_add_char(out, '"');
    for (size_t i = 0; i < count;) {
        size_t length = sequence_length(at + i, count - i);
        if (length == 0) {
            strbuf_add(out, "\xef\xbf\xbd");
            i++;
        } else if (length == 1 && (at[i] < 0x20 || at[i] == 0x7f)) {
            write_control(out, at[i++]);
        } else if (length == 1 && (at[i] == '"' || at[i] == '\\')) {
            strbuf_addf(out, "\\%c", at[i++]);
        } else {
            strbuf_add_bytes(out, at + i, length);
            i += length;
        }
    }
    strbuf_add_char(out, '"');
}

static void write_element(struct strbuf *out, const struct tensor *tensor, size_t index,
                          bool binary)
{
    switch (tensor->dtype) {
    case DTYPE_F32:
        rest_write_float(out, ((const float *)tensor->data)[index]);
        return;
    case DTYPE_U8:
        strbuf_addf(out, "%u", ((const uint8_t *)tensor->data)[index]);
        return;
    case DTYPE_I32:
        strbuf_addf(out, "%" PRId32, ((const int32_t *)tensor->data)[index]);
        return;
    case DTYPE_I64:
        strbuf_addf(out, "%" PRId64, ((const int64_t *)tensor->data)[index]);
        return;
    case DTYPE_STRING:
        break;
    }
    const struct text_view *text = &((const struct text_view *)tensor->data)[index];
    if (!binary) {
        rest_write_text(out, text->bytes, text->count);
        return;
    }
    strbuf_add(out, "{\"b64\": \"");
    base64_encode(text->bytes, text->count, out);
    strbuf_add(out, "\"}");
}

static void write_level(struct strbuf *out, const struct tensor *tensor, int level, size_t *index,
                        bool binary)
{
    if (level >= tensor->shape.ndim) {
        write_element(out, tensor, (*index)++, binary);
        return;
    }
    strbuf_add_char(out, '[');
    for (int64_t i = 0; i < tensor->shape.dim[level]; i++) {
        if (i > 0)
            strbuf_add(out, ", ");
        write_level(out, tensor, level + 1, index, binary);
    }
    strbuf_add_char(out, ']');
}

void rest_write_tensor(struct strbuf *out, const struct tensor *tensor, int64_t row, bool binary)
{
    size_t index = 0;
    if (row >= 0) {
        int64_t rows = tensor->shape.dim[0];
        index = (size_t)row * (size_t)(rows ? shape_count(&tensor->shape) / rows : 0);
    }
    write_level(out, tensor, row >= 0 ? 1 : 0, &index, binary);
}

void rest_write_flat(struct strbuf *out, const struct tensor *tensor)
{
    struct tensor flat = *tensor;
    flat.shape = SHAPE(shape_count(&tensor->shape));
    rest_write_tensor(out, &flat, -1, false);
}

static bool is_binary(const struct signature_tensor *output)
{
    static const char ending[] = "_bytes";
    size_t length = strlen(output->key);
    return output->dtype == DTYPE_STRING && length >= sizeof ending - 1 &&
           strcmp(output->key + length - (sizeof ending - 1), ending) == 0;
}

/* One row of all outputs, or (row < 0) all of them: an object unless there is only one. */
static void write_outputs(struct strbuf *out, const struct signature *signature,
                          const struct tensor *outputs, int64_t row)
{
    bool named = signature->output_count > 1;
    if (named)
        strbuf_add(out, "{");
    for (int i = 0; i < signature->output_count; i++) {
        if (named) {
            strbuf_add(out, i ? ", " : "");
            rest_write_text(out, signature->outputs[i].key, strlen(signature->outputs[i].key));
            strbuf_add(out, ": ");
        }
        rest_write_tensor(out, &outputs[i], row, is_binary(&signature->outputs[i]));
    }
    if (named)
        strbuf_add(out, "}");
}

void rest_predict_write(const struct signature *signature, const struct tensor *outputs,
                        int64_t rows, bool by_rows, struct strbuf *out)
{
    if (!by_rows) {
        strbuf_add(out, "{\n    \"outputs\": ");
        write_outputs(out, signature, outputs, -1);
        strbuf_add(out, "\n}\n");
        return;
    }
    strbuf_add(out, "{\n    \"predictions\": [");
    for (int64_t row = 0; row < rows; row++) {
        if (row > 0)
            strbuf_add(out, ",\n        ");
        write_outputs(out, signature, outputs, row);
    }
    strbuf_add(out, "]\n}\n");
}
