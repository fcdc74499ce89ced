#include "serve/warmup.h"

#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/log.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "serve/piece.h"
#include "serve/predict_message.h"
#include "serve/servable.h"
#include "serve/stats.h"
#include "wire/proto.h"
#include "wire/tfrecord.h"

enum {
    LOG_PREDICT = 6, /* PredictionLog.predict_log */
    PREDICT_REQUEST = 1,
    TENSOR_LIMIT = 1 << 30,
};

/* The bytes of field `number`, the last of them if there are several; false: there is none. */
static int find_message(const void *message, size_t bytes, uint32_t number, struct text_view *out,
                        struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    *out = (struct text_view){0};
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == number && field.wire == PROTO_BYTES)
            *out = (struct text_view){(const char *)field.bytes, field.count};
    return more;
}

/* Its answer is of no use to anybody. */
static int run_piece(struct servable *servable, struct inference *whole, int64_t first,
                     struct error *err)
{
    struct piece piece;
    struct inference *part = &piece.part;
    struct stats_batch told = {0};
    if (piece_open(&piece, whole, first, servable_max_batch(servable)))
        servable_run(servable, 0, &part, 1, &told);
    bool good = part->status == SERVE_OK;
    piece_close(&piece);
    return good ? 0 : error_set(err, ERROR_FORMAT, "%s", part->error.message);
}

/* As the batcher would, on the caller's thread: nobody else asks this version yet. */
static int run(struct servable *servable, const struct signature *signature,
               const struct tensor *inputs, struct arena *arena, struct error *err)
{
    struct inference inference = {.servable = servable,
                                  .signature = signature,
                                  .inputs = inputs,
                                  .rows = inputs[0].shape.ndim ? inputs[0].shape.dim[0] : 0,
                                  .arena = arena};
    int max_rows = servable_max_batch(servable);
    if (inference_check(&inference, err) < 0)
        return -1;
    for (int64_t first = 0; first < inference.rows; first += max_rows)
        if (run_piece(servable, &inference, first, err) < 0)
            return -1;
    return 0;
}

static int replay(struct servable *servable, struct text_view message, struct arena *arena,
                  struct error *err)
{
    struct predict_request request;
    struct tensor *inputs;
    if (predict_request_read(message.bytes, message.count, arena, &request, err) < 0)
        return -1;
    const struct signature *signature =
        imported_signature(servable_model(servable), request.spec.signature);
    if (!signature)
        return error_set(err, ERROR_ABSENT, "the model has no signature '%.128s'",
                         request.spec.signature);
    if (predict_request_inputs(&request, signature, TENSOR_LIMIT, arena, &inputs, err) < 0)
        return -1;
    return run(servable, signature, inputs, arena, err);
}

int warmup_record(struct servable *servable, const void *record, size_t bytes, struct error *err)
{
    struct text_view log, message;
    if (find_message(record, bytes, LOG_PREDICT, &log, err) < 0)
        return -1;
    if (!log.bytes)
        return 0;
    if (find_message(log.bytes, log.count, PREDICT_REQUEST, &message, err) < 0)
        return -1;
    struct arena *arena = arena_create();
    int status = arena ? replay(servable, message, arena, err)
                       : error_set(err, ERROR_MEMORY, "no memory for warm-up requests");
    arena_destroy(arena);
    return status < 0 ? -1 : 1;
}

static int replay_file(struct servable *servable, const char *path, const char *file, size_t bytes,
                       struct error *err)
{
    uint64_t offset = 0;
    struct tfrecord record;
    int more, count = 0, left_out = 0;
    while ((more = tfrecord_next(path, (const uint8_t *)file, bytes, &offset, &record, err)) > 0) {
        if (++count > WARMUP_MAX_RECORDS)
            return error_set(err, ERROR_FORMAT, "%s: more than %d records", path,
                             WARMUP_MAX_RECORDS);
        int replayed = warmup_record(servable, record.data, record.bytes, err);
        if (replayed < 0)
            return error_wrap(err, "%s: record %d", path, count);
        left_out += replayed == 0;
    }
    if (more == 0)
        log_line(LOG_INFO, "%s: %d requests replayed%s", path, count - left_out,
                 left_out ? "; those of other kinds than Predict were left out" : "");
    return more;
}

int warmup_replay(struct servable *servable, const char *directory, struct error *err)
{
    char path[PATH_MAX], *file;
    size_t bytes;
    snprintf(path, sizeof path, "%s/assets.extra/tf_serving_warmup_requests", directory);
    if (access(path, F_OK) < 0)
        return 0;
    if (file_map(path, &file, &bytes, err) < 0)
        return -1;
    int status = replay_file(servable, path, file, bytes, err);
    if (file_map_check(path, file, err) < 0)
        status = -1;
    file_unmap(file, bytes);
    return status;
}
