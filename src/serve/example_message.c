#include "serve/example_message.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "serve/examples.h"

enum { INPUT_LIST = 1, INPUT_LIST_WITH_CONTEXT = 2 };
enum { LIST_EXAMPLES = 1, LIST_CONTEXT = 2 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the request");
}

/* ---- tensorflow.serving.Input --------------------------------------------------------------- */

static int read_list(struct proto_reader *reader, struct arena *arena, struct example_request *out,
                     struct error *err)
{
    struct proto_field field;
    int count = message_count(*reader, LIST_EXAMPLES, EXAMPLES_MAX, err), more;
    if (count < 0)
        return -1;
    out->example_count = 0;
    out->context = (struct text_view){"", 0};
    out->examples = ARENA_ARRAY(arena, struct text_view, count);
    if (!out->examples)
        return no_memory(err);
    while ((more = proto_next(reader, &field, err)) > 0) {
        if (field.number != LIST_EXAMPLES && field.number != LIST_CONTEXT)
            continue;
        if (proto_expect(reader, &field, PROTO_BYTES, err) < 0)
            return -1;
        struct text_view view = {(const char *)field.bytes, field.count};
        if (field.number == LIST_EXAMPLES)
            out->examples[out->example_count++] = view;
        else
            out->context = view;
    }
    return more;
}

static int read_input(const struct proto_reader *outer, const struct proto_field *field,
                      struct arena *arena, struct example_request *out, struct error *err)
{
    struct proto_reader reader, list;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0)
        if (inner.number == INPUT_LIST || inner.number == INPUT_LIST_WITH_CONTEXT)
            if (proto_enter(&reader, &inner, &list, err) < 0 ||
                read_list(&list, arena, out, err) < 0)
                return -1;
    return more;
}

/* ---- the requests --------------------------------------------------------------------------- */

static int make_tasks(int count, struct arena *arena, struct example_request *out,
                      struct error *err)
{
    *out = (struct example_request){.task_count = count};
    out->tasks = ARENA_ARRAY(arena, struct example_task, count);
    if (!out->tasks)
        return no_memory(err);
    for (int i = 0; i < count; i++)
        out->tasks[i] = (struct example_task){.spec = {.name = "", .signature = ""}, .method = ""};
    return 0;
}

int example_request_read(const void *message, size_t bytes, struct arena *arena,
                         struct example_request *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    proto_open(&reader, message, bytes);
    if (make_tasks(1, arena, out, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == 1 &&
            model_spec_read(&reader, &field, arena, &out->tasks[0].spec, err) < 0)
            return -1;
        if (field.number == 2 && read_input(&reader, &field, arena, out, err) < 0)
            return -1;
    }
    return more;
}

static int read_task(const struct proto_reader *outer, const struct proto_field *field,
                     struct arena *arena, struct example_task *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field inner;
    int more;
    if (proto_enter(outer, field, &reader, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &inner, err)) > 0) {
        if (inner.number == 1 && model_spec_read(&reader, &inner, arena, &out->spec, err) < 0)
            return -1;
        if (inner.number == 2 && field_text(&reader, &inner, arena, &out->method, err) < 0)
            return -1;
    }
    return more;
}

int multi_request_read(const void *message, size_t bytes, struct arena *arena,
                       struct example_request *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more, task = 0;
    proto_open(&reader, message, bytes);
    int count = message_count(reader, 1, EXAMPLE_MAX_TASKS, err);
    if (count < 0 || make_tasks(count, arena, out, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == 1 && read_task(&reader, &field, arena, &out->tasks[task++], err) < 0)
            return -1;
        if (field.number == 2 && read_input(&reader, &field, arena, out, err) < 0)
            return -1;
    }
    return more;
}

/* ---- results -------------------------------------------------------------------------------- */

static void write_class(const struct classification *result, int64_t index, struct strbuf *out)
{
    size_t start = proto_begin(out, 1);
    if (result->labels)
        proto_add_bytes(out, 1, result->labels[index].bytes, result->labels[index].count);
    if (result->scores)
        proto_add_float(out, 2, result->scores[index]);
    proto_end(out, start);
}

void classify_result_write(uint32_t number, const struct classification *result, struct strbuf *out)
{
    size_t start = proto_begin(out, number);
    for (int64_t row = 0; row < result->rows; row++) {
        size_t classifications = proto_begin(out, 1);
        for (int64_t i = 0; i < result->classes; i++)
            write_class(result, row * result->classes + i, out);
        proto_end(out, classifications);
    }
    proto_end(out, start);
}

void regress_result_write(uint32_t number, const float *values, int64_t rows, struct strbuf *out)
{
    size_t start = proto_begin(out, number);
    for (int64_t row = 0; row < rows; row++) {
        size_t regression = proto_begin(out, 1);
        proto_add_float(out, 1, values[row]);
        proto_end(out, regression);
    }
    proto_end(out, start);
}
