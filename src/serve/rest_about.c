#include "serve/rest_about.h"

#include <inttypes.h>

#include "base/strbuf.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "serve/repository.h"
#include "serve/rest_predict.h"
#include "serve/servable.h"

static void write_name(struct strbuf *out, const char *text)
{
    rest_write_text(out, text, strlen(text));
}

/* --- TF Serving's ---------------------------------------------------------------------------- */

void rest_status_write(const struct model_status *status, struct strbuf *out)
{
    strbuf_add(out, "{\n \"model_version_status\": [");
    for (int i = 0; i < status->count; i++) {
        const struct version_status *version = &status->versions[i];
        strbuf_addf(out,
                    "%s\n  {\n   \"version\": \"%" PRId64 "\",\n   \"state\": \"%s\",\n"
                    "   \"status\": {\n    \"error_code\": \"%s\",\n    \"error_message\": ",
                    i ? "," : "", version->version, version_state_name(version->state),
                    serve_status_name(version->code));
        write_name(out, version->message);
        strbuf_add(out, "\n   }\n  }");
    }
    strbuf_add(out, "\n ]\n}\n");
}

static void write_tensor_info(struct strbuf *out, const struct signature_tensor *tensor)
{
    strbuf_addf(out, "{\"dtype\": \"%s\", \"tensor_shape\": {\"dim\": [",
                rest_tf_type(tensor->dtype));
    for (int i = 0; i < tensor->shape.ndim; i++)
        strbuf_addf(out, "%s{\"size\": \"%" PRId64 "\", \"name\": \"\"}", i ? ", " : "",
                    tensor->shape.dim[i]);
    strbuf_add(out, "], \"unknown_rank\": false}, \"name\": ");
    write_name(out, tensor->tensor ? tensor->tensor : tensor->key);
    strbuf_add(out, "}");
}

static void write_tensor_infos(struct strbuf *out, const char *name,
                               const struct signature_tensor *tensors, int count)
{
    strbuf_addf(out, "\"%s\": {", name);
    for (int i = 0; i < count; i++) {
        strbuf_add(out, i ? ",\n      " : "\n      ");
        write_name(out, tensors[i].key);
        strbuf_add(out, ": ");
        write_tensor_info(out, &tensors[i]);
    }
    strbuf_add(out, "}");
}

void rest_metadata_write(const struct servable *servable, struct strbuf *out)
{
    const struct imported *model = servable_model(servable);
    strbuf_add(out, "{\n\"model_spec\": {\"name\": ");
    write_name(out, servable_name(servable));
    strbuf_addf(out,
                ", \"signature_name\": \"\", \"version\": \"%" PRId64
                "\"},\n\"metadata\": {\"signature_def\": {\"signature_def\": {",
                servable_version(servable));
    for (int i = 0; i < model->signature_count; i++) {
        const struct signature *signature = &model->signatures[i];
        strbuf_add(out, i ? ",\n  " : "\n  ");
        write_name(out, signature->name);
        strbuf_add(out, ": {\n    ");
        write_tensor_infos(out, "inputs", signature->inputs, signature->input_count);
        strbuf_add(out, ",\n    ");
        write_tensor_infos(out, "outputs", signature->outputs, signature->output_count);
        strbuf_add(out, ",\n    \"method_name\": ");
        write_name(out, signature->method);
        strbuf_add(out, "}");
    }
    strbuf_add(out, "\n}}}\n}\n");
}

/* --- the Open Inference Protocol's ----------------------------------------------------------- */

const struct signature *rest_v2_signature(const struct imported *model)
{
    const struct signature *signature = imported_signature(model, NULL);
    if (!signature)
        signature = imported_signature(model, "predict");
    return !signature && model->signature_count ? &model->signatures[0] : signature;
}

static void write_v2_tensors(struct strbuf *out, const struct signature_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        strbuf_addf(out, "%s{\"name\": ", i ? ", " : "");
        write_name(out, tensors[i].key);
        strbuf_addf(out, ", \"datatype\": \"%s\", \"shape\": [", rest_v2_type(tensors[i].dtype));
        for (int d = 0; d < tensors[i].shape.ndim; d++)
            strbuf_addf(out, "%s%" PRId64, d ? ", " : "", tensors[i].shape.dim[d]);
        strbuf_add(out, "]}");
    }
}

void rest_v2_metadata_write(const struct servable *servable, struct strbuf *out)
{
    const struct signature *signature = rest_v2_signature(servable_model(servable));
    strbuf_add(out, "{\"name\": ");
    write_name(out, servable_name(servable));
    strbuf_addf(out,
                ", \"versions\": [\"%" PRId64 "\"], \"platform\": \"" INFERENCE_PLATFORM
                "\", \"inputs\": [",
                servable_version(servable));
    write_v2_tensors(out, signature->inputs, signature->input_count);
    strbuf_add(out, "], \"outputs\": [");
    write_v2_tensors(out, signature->outputs, signature->output_count);
    strbuf_add(out, "]}\n");
}
