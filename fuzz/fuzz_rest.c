/* Bodies and paths of REST requests. The first byte says which; all that is read must lie in the
 * tensors that the signature promises. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/examples.h"
#include "serve/rest_examples.h"
#include "serve/rest_path.h"
#include "serve/rest_predict.h"
#include "serve/rest_v2.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const struct signature_tensor one_in[] = {{"x", "x:0", DTYPE_F32, {2, {SHAPE_BATCH, 2}}}};
static const struct signature_tensor many_in[] = {
    {"tag", "t:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
    {"signal", "s:0", DTYPE_F32, {3, {SHAPE_BATCH, 2, 1}}},
    {"count", "c:0", DTYPE_I64, {1, {SHAPE_BATCH}}},
    {"pixel", "p:0", DTYPE_U8, {1, {SHAPE_BATCH}}},
};
static const struct signature signatures[] = {
    {.name = "one",
     .method = "m",
     .inputs = one_in,
     .outputs = one_in,
     .input_count = 1,
     .output_count = 1},
    {.name = "many",
     .method = "m",
     .inputs = many_in,
     .outputs = many_in,
     .input_count = 4,
     .output_count = 4},
};

/* Reads every element, so that a sanitizer sees what is not there; the answer is the question. */
static void look(const struct signature *signature, const struct tensor *tensors, int64_t rows)
{
    struct strbuf out;
    strbuf_init(&out);
    for (int i = 0; i < signature->input_count; i++)
        assert(tensors[i].shape.ndim == signature->inputs[i].shape.ndim);
    for (int i = 0; i < signature->input_count; i++)
        rest_write_tensor(&out, &tensors[i], -1, i == 0);
    if (rows == tensors[0].shape.dim[0])
        rest_predict_write(signature, tensors, rows, false, &out);
    strbuf_release(&out);
}

static void try_v1(const struct signature *signature, const char *text, size_t count,
                   struct arena *arena)
{
    struct tensor inputs[4] = {{0}};
    struct rest_body body;
    struct error err = {0};
    int64_t rows, examples_count;
    bool by_rows;
    struct text_view *examples, context;
    if (rest_body_read(text, count, arena, &body, &err) < 0)
        return;
    if (rest_predict_read(&body, signature, arena, inputs, &rows, &by_rows, &err) == 0) {
        assert(rows == inputs[0].shape.dim[0]);
        look(signature, inputs, rows);
    }
    if (rest_examples_read(&body, arena, &examples, &examples_count, &context, &err) == 0 &&
        examples_to_inputs(signature, examples, examples_count, context, arena, inputs, &err) == 0)
        look(signature, inputs, examples_count);
}

static void try_v2(const struct signature *signature, const char *text, size_t count,
                   struct arena *arena)
{
    struct rest_v2_request request;
    struct error err = {0};
    const char *end = memchr(text, '\n', count);
    size_t json = end ? (size_t)(end - text) : count;
    if (rest_v2_read(text, count, json, signature, arena, &request, &err) < 0)
        return;
    look(signature, request.inputs, request.rows);
    struct strbuf out;
    strbuf_init(&out);
    assert(rest_v2_write("m", 1, signature, &request, request.inputs, &out) <= out.length);
    strbuf_release(&out);
}

static void try_path(const char *text, size_t count)
{
    char path[512];
    struct rest_path read;
    struct error err = {0};
    snprintf(path, sizeof path, "%.*s", (int)(count < 500 ? count : 500), text);
    if (rest_path_read(path, &read, &err) == 0)
        assert(read.model[0] && strlen(read.model) < sizeof read.model);
    else
        assert(err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 1)
        return 0;
    const char *text = (const char *)bytes + 1;
    struct arena *arena = arena_create();
    const struct signature *signature = &signatures[bytes[0] & 1];
    if ((bytes[0] & 6) == 0)
        try_v1(signature, text, count - 1, arena);
    else if ((bytes[0] & 6) == 2)
        try_v2(signature, text, count - 1, arena);
    else
        try_path(text, count - 1);
    arena_destroy(arena);
    return 0;
}
