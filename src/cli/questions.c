#include "cli/questions.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/client_data.h"
#include "cli/session.h"
#include "convert/imported.h"
#include "convert/signatures.h"
#include "tensor/random.h"
#include "train/feed.h"

struct questions {
    const struct imported *model;
    const struct signature *signature;
    const struct source *source; /* its fields are the inputs; or NULL... */
    struct client_data *rows;    /* ...of a click log; or NULL: drawn */
};

static bool takes_plain_rows(const struct signature *signature)
{
    for (int i = 0; i < signature->input_count; i++)
        if (signature->questions[i].kind != QUESTION_ROWS)
            return false;
    return true;
}

static int field_of(const struct questions *questions, int input)
{
    int port = questions->signature->questions[input].port;
    return feed_find_field(&questions->source->trainer, questions->model->inputs[port].name);
}

static bool source_fits(const struct questions *questions)
{
    const struct signature *signature = questions->signature;
    if (!takes_plain_rows(signature))
        return false;
    for (int i = 0; i < signature->input_count; i++) {
        int field = field_of(questions, i);
        if (field < 0)
            return false;
        const struct dataset_field *given = &questions->source->trainer.fields[field];
        if (given->dtype != signature->inputs[i].dtype ||
            !shape_equal(&given->shape, &signature->inputs[i].shape))
            return false;
    }
    return true;
}

/* The networks' inputs are hashes of what the rows have as text: clients send the text. */
static void open_rows(struct questions *questions, const struct source *source,
                      const atomic_int *stop)
{
    struct error ignored = {0};
    if (strcmp(source->kind->name, "criteo") != 0 || !source->kind->locate)
        return;
    const char *file = source->kind->locate(source->dataset, 0).file;
    if (client_data_open(file, NULL, stop, &questions->rows, &ignored) < 0)
        questions->rows = NULL; /* on a distant store */
}

int questions_open(const struct imported *model, const struct signature *signature,
                   const struct session_data *data, const atomic_int *stop, struct questions **out,
                   struct error *err)
{
    struct questions *questions = memory_allocate(sizeof *questions);
    if (!questions)
        return error_set(err, ERROR_MEMORY, "no memory for the questions");
    *questions = (struct questions){.model = model, .signature = signature};
    if (data->source.kind) {
        questions->source = &data->source;
        if (!source_fits(questions)) {
            questions->source = NULL;
            open_rows(questions, &data->source, stop);
        }
    }
    *out = questions;
    return 0;
}

void questions_close(struct questions *questions)
{
    if (questions)
        client_data_close(questions->rows);
    memory_free(questions);
}

const char *questions_kind(const struct questions *questions)
{
    return questions->source || questions->rows ? "evaluation examples" : "drawn examples";
}

/* ---- from data ---- */

static int make_fields(const struct trainer_data *data, int rows, struct arena *arena,
                       struct tensor **out, struct error *err)
{
    struct tensor *fields = ARENA_ARRAY(arena, struct tensor, data->field_count + 1);
    if (!fields)
        return error_set(err, ERROR_MEMORY, "no memory for the questions");
    for (int i = 0; i < data->field_count; i++)
        if (tensor_create(arena, data->fields[i].dtype,
                          shape_with_batch(data->fields[i].shape, rows), &fields[i], err) < 0)
            return -1;
    *out = fields;
    return 0;
}

static int take_examples(const struct questions *questions, int64_t first, int rows,
                         struct arena *arena, struct tensor *inputs, int32_t **labels,
                         struct error *err)
{
    const struct source *source = questions->source;
    int64_t count = source->kind->count(source->dataset);
    struct tensor *fields = NULL;
    if (make_fields(&source->trainer, rows, arena, &fields, err) < 0)
        return -1;
    for (int row = 0; row < rows; row++)
        if (source->kind->read(source->dataset, (first + row) % count, 0, fields, row, err) < 0)
            return -1;
    for (int i = 0; i < questions->signature->input_count; i++)
        inputs[i] = fields[field_of(questions, i)];
    int label = feed_find_field(&source->trainer, "label");
    *labels = label >= 0 && fields[label].dtype == DTYPE_I32 ? fields[label].data : NULL;
    return 0;
}

static int take_rows(const struct questions *questions, int64_t first, int rows,
                     struct arena *arena, struct tensor *inputs, int32_t **labels,
                     struct error *err)
{
    struct client_batch batch;
    if (client_data_batch(questions->rows, first, rows, arena, &batch, err) < 0)
        return -1;
    for (int i = 0; i < questions->signature->input_count; i++) {
        int column = 0;
        while (column < batch.inputs &&
               strcmp(batch.names[column], questions->signature->inputs[i].key) != 0)
            column++;
        if (column == batch.inputs)
            return error_set(err, ERROR_FORMAT, "the rows have no column %s",
                             questions->signature->inputs[i].key);
        inputs[i] = batch.tensors[column];
        inputs[i].shape = shape_with_batch(questions->signature->inputs[i].shape, rows);
    }
    *labels = batch.labels;
    return 0;
}

/* ---- drawn ---- */

static int draw_one(struct tensor *tensor, uint64_t key, struct arena *arena, struct error *err)
{
    int64_t count = shape_count(&tensor->shape);
    for (int64_t i = 0; i < count; i++) {
        uint64_t number = random_at(key, (uint64_t)i);
        if (tensor->dtype == DTYPE_F32)
            ((float *)tensor->data)[i] = (float)(number >> 40) / (float)(1 << 24);
        else if (tensor->dtype == DTYPE_I32)
            ((int32_t *)tensor->data)[i] = (int32_t)(number & 1);
        else if (tensor->dtype == DTYPE_I64)
            ((int64_t *)tensor->data)[i] = (int64_t)(number & 1);
        else if (tensor->dtype == DTYPE_U8)
            ((uint8_t *)tensor->data)[i] = (uint8_t)number;
        else {
            const char *text = arena_format(arena, "%08x", (unsigned)(number >> 32));
            if (!text)
                return error_set(err, ERROR_MEMORY, "no memory for the questions");
            ((struct text_view *)tensor->data)[i] = (struct text_view){text, strlen(text)};
        }
    }
    return 0;
}

static int draw(const struct questions *questions, int64_t first, int rows, struct arena *arena,
                struct tensor *inputs, struct error *err)
{
    for (int i = 0; i < questions->signature->input_count; i++) {
        const struct signature_tensor *input = &questions->signature->inputs[i];
        uint64_t key = random_key_text((uint64_t)first, input->key);
        if (tensor_create(arena, input->dtype, shape_with_batch(input->shape, rows), &inputs[i],
                          err) < 0 ||
            draw_one(&inputs[i], key, arena, err) < 0)
            return -1;
    }
    return 0;
}

int questions_take(struct questions *questions, int64_t first, int rows, struct arena *arena,
                   struct tensor **inputs, int32_t **labels, struct error *err)
{
    *labels = NULL;
    *inputs = ARENA_ARRAY(arena, struct tensor, questions->signature->input_count + 1);
    if (!*inputs)
        return error_set(err, ERROR_MEMORY, "no memory for the questions");
    if (questions->source)
        return take_examples(questions, first, rows, arena, *inputs, labels, err);
    if (questions->rows)
        return take_rows(questions, first, rows, arena, *inputs, labels, err);
    return draw(questions, first, rows, arena, *inputs, err);
}
