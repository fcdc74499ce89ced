#include "serve/inference.h"

#include <inttypes.h>

#include "convert/imported.h"
#include "serve/batcher.h"
#include "serve/core.h"

static int check_input(const struct signature_tensor *wanted, const struct tensor *given,
                       int64_t rows, struct error *err)
{
    char want[96], have[96];
    if (given->dtype != wanted->dtype)
        return error_set(err, ERROR_FORMAT, "input '%s' is %s; %s is wanted", wanted->key,
                         dtype_name(given->dtype), dtype_name(wanted->dtype));
    struct shape shape = shape_with_batch(wanted->shape, rows);
    if (!shape_equal(&shape, &given->shape))
        return error_set(err, ERROR_FORMAT, "input '%s' has the shape %s; %s is wanted%s",
                         wanted->key, shape_text(&given->shape, have, sizeof have),
                         shape_text(&wanted->shape, want, sizeof want),
                         given->shape.ndim > 0 && given->shape.dim[0] != rows
                             ? ", with as many rows as the other inputs"
                             : "");
    return 0;
}

int inference_check(const struct inference *inference, struct error *err)
{
    const struct signature *signature = inference->signature;
    if (inference->rows < 1 || inference->rows > INFERENCE_MAX_ROWS)
        return error_set(err, ERROR_FORMAT, "%" PRId64 " rows; 1 to %d can be asked at once",
                         inference->rows, INFERENCE_MAX_ROWS);
    for (int i = 0; i < signature->input_count; i++)
        if (check_input(&signature->inputs[i], &inference->inputs[i], inference->rows, err) < 0)
            return -1;
    return 0;
}

void inference_ask(struct serve_core *core, struct inference *inference)
{
    inference->status = SERVE_OK;
    inference->outputs = NULL;
    inference->batch = 0;
    inference->queue_seconds = inference->run_seconds = 0;
    bool asked = false;
    if (inference_check(inference, &inference->error) < 0)
        inference->status = SERVE_INVALID;
    else
        asked = batcher_add(core_batcher(core), inference);
    if (!asked)
        inference->done(inference);
}
