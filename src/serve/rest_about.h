/* What the REST interface tells about models: their status and their signatures, as TF Serving and
 * as the Open Inference Protocol have it. */
#ifndef SERVE_REST_ABOUT_H
#define SERVE_REST_ABOUT_H

struct imported;
struct model_status;
struct servable;
struct strbuf;

/* GetModelStatusResponse. */
void rest_status_write(const struct model_status *status, struct strbuf *out);
/* GetModelMetadataResponse with its signature_def. */
void rest_metadata_write(const struct servable *servable, struct strbuf *out);
/* The protocol's model metadata: inputs and outputs of the default signature, or of the only one. */
struct signature;
const struct signature *rest_v2_signature(const struct imported *model);
void rest_v2_metadata_write(const struct servable *servable, struct strbuf *out);

#endif
