/* PredictRequests and the TensorProtos in them: whatever the bytes, tensors that lie in memory, or
 * an error; and replies, as a client reads them. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "convert/imported.h"
#include "serve/predict_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { LIMIT = 1 << 16 };

static const struct signature_tensor inputs[] = {
    {"x", "x:0", DTYPE_F32, {2, {SHAPE_BATCH, 3}}},
    {"name", "name:0", DTYPE_STRING, {1, {SHAPE_BATCH}}},
};
static const struct signature signature = {
    .name = "predict", .inputs = inputs, .input_count = 2, .outputs = inputs, .output_count = 2};
static volatile uint8_t sum;

/* Looks at every byte that a tensor claims. */
static void touch(const struct tensor *tensor)
{
    size_t size = tensor_bytes(tensor);
    assert(size <= LIMIT);
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)tensor->data)[i]);
    const struct text_view *texts = tensor->data;
    for (int64_t i = 0; tensor->dtype == DTYPE_STRING && i < shape_count(&tensor->shape); i++)
        if (texts[i].count > 0)
            sum = (uint8_t)(sum + texts[i].bytes[0] + texts[i].bytes[texts[i].count - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct predict_request request;
    struct tensor *read, found;
    struct error err = {0};
    bool *wanted;
    if (predict_request_read(bytes, count, arena, &request, &err) == 0) {
        assert(request.spec.name && request.spec.signature);
        if (predict_request_inputs(&request, &signature, LIMIT, arena, &read, &err) == 0)
            for (int i = 0; i < 2; i++)
                touch(&read[i]);
        predict_request_outputs(&request, &signature, arena, &wanted, &err);
    } else {
        assert(err.code == ERROR_FORMAT && err.message[0]);
    }
    if (predict_reply_find(bytes, count, "x", LIMIT, arena, &found, &err) == 0)
        touch(&found);
    arena_destroy(arena);
    return 0;
}
