#include "serve/predict_message.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/tensor_message.h"

enum { REQUEST_SPEC = 1, REQUEST_INPUTS = 2, REQUEST_FILTER = 3 };
enum { REPLY_OUTPUTS = 1, REPLY_SPEC = 2 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the request");
}

/* ---- reading -------------------------------------------------------------------------------- */

static int make_room(const struct proto_reader *reader, struct arena *arena,
                     struct predict_request *out, struct error *err)
{
    int inputs = message_count(*reader, REQUEST_INPUTS, PREDICT_MAX_TENSORS, err);
    int filter = inputs < 0 ? -1 : message_count(*reader, REQUEST_FILTER, PREDICT_MAX_TENSORS, err);
    if (filter < 0)
        return -1;
    out->inputs = ARENA_ARRAY(arena, struct message_entry, inputs);
    out->filter = ARENA_ARRAY(arena, struct text_view, filter);
    return out->inputs && out->filter ? 0 : no_memory(err);
}

int predict_request_read(const void *message, size_t bytes, struct arena *arena,
                         struct predict_request *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    *out = (struct predict_request){.spec = {.name = "", .signature = ""}};
    proto_open(&reader, message, bytes);
    if (make_room(&reader, arena, out, err) < 0)
        return -1;
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == REQUEST_SPEC) {
            if (model_spec_read(&reader, &field, arena, &out->spec, err) < 0)
                return -1;
        } else if (field.number == REQUEST_INPUTS) {
            if (message_entry_read(&reader, &field, &out->inputs[out->input_count++], err) < 0)
                return -1;
        } else if (field.number == REQUEST_FILTER) {
            if (proto_expect(&reader, &field, PROTO_BYTES, err) < 0)
                return -1;
            out->filter[out->filter_count++] =
                (struct text_view){(const char *)field.bytes, field.count};
        }
    }
    return more;
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* The signature's input of this name, or -1. Most clients send inputs in an order of their own, but
 * the same each time: `hint`, where the next one would be, often saves the search. */
static int find_input(const struct signature *signature, const struct text_view *key, int hint)
{
    if (hint < signature->input_count && text_view_is(key, signature->inputs[hint].key))
        return hint;
    for (int i = 0; i < signature->input_count; i++)
        if (text_view_is(key, signature->inputs[i].key))
            return i;
    return -1;
}

static void add_name(struct strbuf *list, const char *name, size_t length)
{
    if (list->length > 0)
        strbuf_add_char(list, ',');
    strbuf_add_bytes(list, name, length);
}

/* What TensorFlow Serving says when the names do not fit. */
static int explain_names(const struct predict_request *request, const struct signature *signature,
                         const struct message_entry *const *found, struct error *err)
{
    struct strbuf extra, missing;
    strbuf_init(&extra);
    strbuf_init(&missing);
    for (int i = 0; i < request->input_count; i++)
        if (find_input(signature, &request->inputs[i].key, 0) < 0)
            add_name(&extra, request->inputs[i].key.bytes, request->inputs[i].key.count);
    for (int i = 0; i < signature->input_count; i++)
        if (!found[i])
            add_name(&missing, signature->inputs[i].key, strlen(signature->inputs[i].key));
    error_set(err, ERROR_FORMAT,
              "input size does not match signature: %d!=%d. Sent extra: {%.150s}. Missing but "
              "required: {%.150s}.",
              request->input_count, signature->input_count, extra.length ? extra.text : "",
              missing.length ? missing.text : "");
    strbuf_release(&extra);
    strbuf_release(&missing);
    return -1;
}

/* Which entry each input of the signature is in: of several with one name the last. */
static int match_inputs(const struct predict_request *request, const struct signature *signature,
                        const struct message_entry **found, struct error *err)
{
    int hint = 0, matched = 0;
    bool unknown = false;
    for (int i = 0; i < request->input_count; i++) {
        int at = find_input(signature, &request->inputs[i].key, hint);
        unknown |= at < 0;
        if (at < 0)
            continue;
        matched += !found[at];
        found[at] = &request->inputs[i];
        hint = at + 1;
    }
    if (unknown || matched < signature->input_count)
        return explain_names(request, signature, found, err);
    return 0;
}

int predict_request_inputs(const struct predict_request *request, const struct signature *signature,
                           size_t limit, struct arena *arena, struct tensor **out,
                           struct error *err)
{
    int count = signature->input_count;
    struct tensor *inputs = ARENA_ARRAY(arena, struct tensor, count);
    const struct message_entry **found = ARENA_ARRAY(arena, const struct message_entry *, count);
    if (!inputs || !found)
        return no_memory(err);
    if (match_inputs(request, signature, found, err) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        if (tensor_message_read(&found[i]->value, limit, arena, &inputs[i], err) < 0)
            return error_wrap(err, "input \"%s\"", signature->inputs[i].key);
        limit -= tensor_bytes(&inputs[i]);
    }
    *out = inputs;
    return 0;
}

/* ---- outputs -------------------------------------------------------------------------------- */

int predict_request_outputs(const struct predict_request *request,
                            const struct signature *signature, struct arena *arena, bool **wanted,
                            struct error *err)
{
    *wanted = NULL;
    if (request->filter_count == 0)
        return 0;
    bool *chosen = ARENA_ARRAY(arena, bool, signature->output_count);
    if (!chosen)
        return no_memory(err);
    for (int i = 0; i < request->filter_count; i++) {
        const struct text_view *name = &request->filter[i];
        int at = 0;
        while (at < signature->output_count && !text_view_is(name, signature->outputs[at].key))
            at++;
        int length = name->count < 200 ? (int)name->count : 200;
        if (at == signature->output_count)
            return error_set(err, ERROR_FORMAT, "output tensor alias not found in signature: %.*s",
                             length, name->bytes);
        if (chosen[at])
            return error_set(err, ERROR_FORMAT, "duplicate output tensor alias: %.*s", length,
                             name->bytes);
        chosen[at] = true;
    }
    *wanted = chosen;
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void add_tensor(uint32_t number, const char *key, const struct tensor *tensor,
                       bool as_content, struct strbuf *out)
{
    size_t entry = proto_begin(out, number);
    proto_add_text(out, 1, key);
    size_t value = proto_begin(out, 2);
    tensor_message_write(tensor, as_content, out);
    proto_end(out, value);
    proto_end(out, entry);
}

void predict_reply_write(const char *model, const struct signature *signature, int64_t version,
                         const struct tensor *outputs, const bool *wanted, bool as_content,
                         struct strbuf *out)
{
    for (int i = 0; i < signature->output_count; i++)
        if (!wanted || wanted[i])
            add_tensor(REPLY_OUTPUTS, signature->outputs[i].key, &outputs[i], as_content, out);
    model_spec_write(REPLY_SPEC, model, signature->name, version, out);
}

void predict_request_begin(const char *model, const char *signature, int64_t version,
                           struct strbuf *out)
{
    size_t spec = proto_begin(out, REQUEST_SPEC);
    proto_add_text(out, 1, model);
    if (version > 0) {
        size_t wrapper = proto_begin(out, 2);
        proto_add_varint(out, 1, (uint64_t)version);
        proto_end(out, wrapper);
    }
    proto_add_text(out, 3, signature);
    proto_end(out, spec);
}

void predict_request_add(const char *input, const struct tensor *tensor, struct strbuf *out)
{
    add_tensor(REQUEST_INPUTS, input, tensor, true, out);
}

int predict_reply_find(const void *message, size_t bytes, const char *output, size_t limit,
                       struct arena *arena, struct tensor *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    struct message_entry entry;
    int more;
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number != REPLY_OUTPUTS)
            continue;
        if (message_entry_read(&reader, &field, &entry, err) < 0)
            return -1;
        if (text_view_is(&entry.key, output))
            return tensor_message_read(&entry.value, limit, arena, out, err);
    }
    if (more < 0)
        return -1;
    return error_set(err, ERROR_FORMAT, "the reply has no output '%s'", output);
}
