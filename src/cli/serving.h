/* What `lockstep serve` was told, made into a server: models, batching, the doors and who may come
 * in. */
#ifndef CLI_SERVING_H
#define CLI_SERVING_H

#include <stdatomic.h>
#include <stdio.h>

#include "cli/options.h"

struct error;

struct serve_settings {
    struct option_list models;
    const char *path; /* of one more */
    const char *model_name, *base_path, *models_dir, *config_file;
    double config_poll_seconds, poll_seconds;
    int load_retries;
    int64_t retry_micros;
    bool labels_ahead, warm_up;

    const char *host, *port, *rest_port, *socket_path;
    int64_t rest_timeout_ms;
    int rest_threads, grpc_threads;
    bool cors, tensor_content, status_page;
    const char *channel_arguments;

    bool batching;
    const char *batching_file;
    int max_batch, workers, threads;
    int64_t timeout_micros, max_batches;

    const char *ssl_file, *tls_cert, *tls_key, *tls_client_ca, *token_file;
    size_t message_limit;
    int connections;
    double request_seconds, idle_seconds, farewell_seconds, drain_seconds;

    const char *access_log, *monitoring_file;
};

/* Serves until *stop is not 0, then drains. Returns an exit status, or -1 with `err` filled. */
int serving_run(const struct serve_settings *settings, const struct options *parsed,
                const atomic_int *stop, struct error *err);

/* The same in steps, for those who want something from their own server before. `parsed` says which
 * settings were given. Both must outlive it. What users want to know of the doors goes to `out`. */
struct serving;
int serving_open(const struct serve_settings *settings, const struct options *parsed, FILE *out,
                 struct serving **serving, struct error *err);
/* Until every model answers. Fails when one cannot, with the reason, and after `seconds`. */
int serving_await(struct serving *serving, double seconds, struct error *err);
int serving_grpc_port(const struct serving *serving); /* 0: that door is closed */
/* Until *stop is not 0, then drains. Returns an exit status. */
int serving_go_on(struct serving *serving, const atomic_int *stop);
void serving_close(struct serving *serving); /* accepts NULL */

#endif
