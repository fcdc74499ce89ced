/* What TF Serving's configuration files say, as text protos: models and their version policies
 * (ModelServerConfig), batching parameters, TLS and monitoring. Read with limits; a field that this
 * program cannot honour is refused with the reason. */
#ifndef SERVE_CONFIG_H
#define SERVE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct error;

enum version_policy { POLICY_LATEST, POLICY_ALL, POLICY_SPECIFIC };

struct version_label {
    const char *name;
    int64_t version;
};

struct model_config {
    const char *name, *base_path;
    enum version_policy policy;
    int latest;              /* POLICY_LATEST: how many; at least 1 */
    const int64_t *versions; /* POLICY_SPECIFIC */
    int version_count;
    const struct version_label *labels;
    int label_count;
};

/* A ModelServerConfig with a model_config_list. */
struct model_list {
    const struct model_config *models;
    int count;
};

enum { CONFIG_MAX_BYTES = 1 << 20, CONFIG_MAX_MODELS = 1024, CONFIG_MAX_VERSIONS = 1024 };

/* Everything read goes into the arena. `name` is the file's, for messages ("models.config:3:7: ..."). */
int config_read_models(const char *name, const char *text, size_t bytes, struct arena *arena,
                       struct model_list *out, struct error *err);
/* Names given once, not empty, base paths not empty, labels of one model distinct: what a list from
 * elsewhere (a gRPC request) must be, too. */
int config_check_models(const struct model_list *models, struct error *err);

/* Whether its policy asks for a version of that number, if it is there and among the newest. */
bool config_wants(const struct model_config *config, int64_t version);

/* 0: not given. */
struct batching_config {
    int64_t max_batch_size, batch_timeout_micros, max_enqueued_batches, num_batch_threads;
    bool timeout_given;
};
int config_read_batching(const char *name, const char *text, size_t bytes,
                         struct batching_config *out, struct error *err);

/* PEM texts (not file names) as TF Serving's SSLConfig has them; in the arena. */
struct ssl_config {
    const char *server_key, *server_cert, *custom_ca; /* NULL: not given */
    bool client_verify;
};
int config_read_ssl(const char *name, const char *text, size_t bytes, struct arena *arena,
                    struct ssl_config *out, struct error *err);

struct monitoring_config {
    bool enable;
    const char *path; /* NULL: as TF Serving's */
};
int config_read_monitoring(const char *name, const char *text, size_t bytes, struct arena *arena,
                           struct monitoring_config *out, struct error *err);

#endif
