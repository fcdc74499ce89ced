/* Requests about models rather than to them: tensorflow.serving.GetModelMetadata, GetModelStatus
 * and ReloadConfig. */
#ifndef SERVE_MODEL_MESSAGE_H
#define SERVE_MODEL_MESSAGE_H

#include "serve/model_spec.h"
#include "serve/status.h"

struct imported;
struct model_list;
struct model_status;

struct metadata_request {
    struct model_spec spec;
    int field_count;     /* of what was asked for */
    const char *unknown; /* the first that is not "signature_def"; NULL: none */
};
int metadata_request_read(const void *message, size_t bytes, struct arena *arena,
                          struct metadata_request *out, struct error *err);
/* GetModelMetadataResponse with all signatures. */
void metadata_reply_write(const char *model, int64_t version, const struct imported *imported,
                          struct strbuf *out);

/* The other side's half, for clients: what one signature's first input is called and looks like, and
 * the last dimension of an output (0: it has none of that name). */
struct metadata_form {
    const char *input; /* in the arena */
    struct shape shape;
    int classes;
};
void metadata_request_write(const char *model, int64_t version, struct strbuf *out);
int metadata_reply_read(const void *message, size_t bytes, const char *signature,
                        const char *output, struct arena *arena, struct metadata_form *out,
                        struct error *err);

/* GetModelStatusRequest: only a spec. */
int status_request_read(const void *message, size_t bytes, struct arena *arena,
                        struct model_spec *out, struct error *err);
void status_reply_write(const struct model_status *status, struct strbuf *out);

/* ReloadConfigRequest. `has_list` is false when it holds another kind of configuration or none.
 * What this server cannot honour (a platform other than TensorFlow's, request logging) is refused
 * with the reason. Everything is in the arena. */
struct reload_request {
    bool has_list;
    const char *const *metrics; /* names whose increase is asked for */
    int metric_count;
};
int reload_request_read(const void *message, size_t bytes, struct arena *arena,
                        struct reload_request *out, struct model_list *models, struct error *err);
void reload_reply_write(const struct reload_request *request, enum serve_status status,
                        const char *message, struct strbuf *out);

#endif
