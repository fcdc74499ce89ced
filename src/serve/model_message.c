#include "serve/model_message.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/repository.h"
#include "serve/tensor_message.h"

/* ---- metadata ------------------------------------------------------------------------------- */

int metadata_request_read(const void *message, size_t bytes, struct arena *arena,
                          struct metadata_request *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    const char *name;
    int more;
    *out = (struct metadata_request){.spec = {.name = "", .signature = ""}};
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number == 1 && model_spec_read(&reader, &field, arena, &out->spec, err) < 0)
            return -1;
        if (field.number != 2)
            continue;
        if (field_text(&reader, &field, arena, &name, err) < 0)
            return -1;
        out->field_count++;
        if (!out->unknown && strcmp(name, "signature_def") != 0)
            out->unknown = name;
    }
    return more;
}

/* A map from keys to TensorInfos. */
static void write_tensors(uint32_t number, const struct signature_tensor *tensors, int count,
                          struct strbuf *out)
{
    for (int i = 0; i < count; i++) {
        size_t entry = proto_begin(out, number);
        proto_add_text(out, 1, tensors[i].key);
        size_t info = proto_begin(out, 2);
        proto_add_text(out, 1, tensors[i].tensor);
        proto_add_varint(out, 2, (uint64_t)tensor_message_type(tensors[i].dtype));
        tensor_message_write_shape(3, &tensors[i].shape, out);
        proto_end(out, info);
        proto_end(out, entry);
    }
}

/* A SignatureDefMap: names to SignatureDefs. */
static void write_signatures(const struct imported *imported, struct strbuf *out)
{
    for (int i = 0; i < imported->signature_count; i++) {
        const struct signature *signature = &imported->signatures[i];
        size_t entry = proto_begin(out, 1);
        proto_add_text(out, 1, signature->name);
        size_t definition = proto_begin(out, 2);
        write_tensors(1, signature->inputs, signature->input_count, out);
        write_tensors(2, signature->outputs, signature->output_count, out);
        proto_add_text(out, 3, signature->method);
        proto_end(out, definition);
        proto_end(out, entry);
    }
}

void metadata_reply_write(const char *model, int64_t version, const struct imported *imported,
                          struct strbuf *out)
{
    model_spec_write(1, model, NULL, version, out);
    size_t entry = proto_begin(out, 2);
    proto_add_text(out, 1, "signature_def");
    size_t any = proto_begin(out, 2); /* google.protobuf.Any */
    proto_add_text(out, 1, "type.googleapis.com/tensorflow.serving.SignatureDefMap");
    size_t map = proto_begin(out, 2);
    write_signatures(imported, out);
    proto_end(out, map);
    proto_end(out, any);
    proto_end(out, entry);
}

/* ---- status --------------------------------------------------------------------------------- */

int status_request_read(const void *message, size_t bytes, struct arena *arena,
                        struct model_spec *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field;
    int more;
    *out = (struct model_spec){.name = "", .signature = ""};
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0)
        if (field.number == 1 && model_spec_read(&reader, &field, arena, out, err) < 0)
            return -1;
    return more;
}

/* StatusProto; all its fields are at their defaults when nothing is wrong. */
static void write_status(uint32_t number, enum serve_status status, const char *message,
                         struct strbuf *out)
{
    size_t start = proto_begin(out, number);
    if (status != SERVE_OK)
        proto_add_varint(out, 1, (uint64_t)status);
    if (*message)
        proto_add_text(out, 2, message);
    proto_end(out, start);
}

void status_reply_write(const struct model_status *status, struct strbuf *out)
{
    for (int i = 0; i < status->count; i++) {
        const struct version_status *version = &status->versions[i];
        size_t start = proto_begin(out, 1);
        if (version->version != 0)
            proto_add_varint(out, 1, (uint64_t)version->version);
        proto_add_varint(out, 2, (uint64_t)version->state);
        write_status(3, version->code, version->message, out);
        proto_end(out, start);
    }
}

/* A metric that the server does not know has not grown. */
void reload_reply_write(const struct reload_request *request, enum serve_status status,
                        const char *message, struct strbuf *out)
{
    write_status(1, status, message, out);
    for (int i = 0; i < request->metric_count; i++) {
        size_t metric = proto_begin(out, 2);
        proto_add_text(out, 1, request->metrics[i]);
        proto_add_varint(out, 2, 0);
        proto_end(out, metric);
    }
}
