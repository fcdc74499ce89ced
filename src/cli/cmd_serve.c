#include "cli/command.h"
#include "cli/serving.h"
#include "cli/signals.h"
#include "serve/door.h"

static const struct option options[] = {
    OPTION_ARGUMENT(serve_settings, path, "PATH",
                    .help =
                        "the directory of a model's versions, or an ONNX file, which is version "
                        "1 of a model of its name; NAME=PATH gives another name"),
    OPTION_SECTION("Models"),
    OPTION_LIST(serve_settings, models, "model", .value = "NAME=DIR",
                .help = "serve the versions DIR/<number>/ as NAME; may be given several times. "
                        "Without NAME= the directory's own name is taken"),
    OPTION_TEXT(serve_settings, config_file, "model-config-file", .value = "FILE",
                .help = "models, version policies and labels as TensorFlow Serving's "
                        "ModelServerConfig, a text proto"),
    OPTION_SECONDS(serve_settings, config_poll_seconds, "model-config-file-poll-wait-seconds",
                   .initial = "0", .help = "read that file again every so often; 0: once"),
    OPTION_TEXT(serve_settings, model_name, "model-name", .value = "NAME", .initial_note = "model",
                .environment = "MODEL_NAME",
                .help = "name of the one model of --model-base-path or --models-dir"),
    OPTION_TEXT(serve_settings, base_path, "model-base-path", .value = "DIR",
                .help = "its directory: the versions are DIR/<number>/"),
    OPTION_TEXT(serve_settings, models_dir, "models-dir", .value = "DIR",
                .environment = "MODEL_BASE_PATH",
                .help = "where a directory of its name is; as in TensorFlow Serving's image, where "
                        "MODEL_BASE_PATH means this"),
    OPTION_SECONDS(serve_settings, poll_seconds, "file-system-poll-wait-seconds", .initial = "1",
                   .aliases = "poll",
                   .help = "look for new versions every so often; 0: once, at the start"),
    OPTION_INT(serve_settings, load_retries, "max-num-load-retries", .initial = "5",
               OPTION_AT_LEAST(0),
               .help = "attempts after the first on a version that cannot be loaded; one whose "
                       "files change is tried at once"),
    OPTION_LONG(serve_settings, retry_micros, "load-retry-interval-micros", .initial = "60000000",
                OPTION_AT_LEAST(0), .help = "between them"),
    OPTION_FLAG(serve_settings, labels_ahead, "allow-version-labels-for-unavailable-models",
                .help = "a new label may name a version that is not loaded yet"),
    OPTION_FLAG(serve_settings, warm_up, "enable-model-warmup", .initial = "true",
                .help = "replay a version's assets.extra/tf_serving_warmup_requests before it is "
                        "served"),
    OPTION_SECTION("Doors"),
    OPTION_TEXT(serve_settings, host, "host", .value = "ADDRESS", .initial = "0.0.0.0",
                .help = "address to listen on; 127.0.0.1: for this machine only"),
    OPTION_TEXT(serve_settings, port, "port", .value = "PORT", .letter = 'p', .initial = "8500",
                .aliases = "grpc-port", .help = "gRPC; 0: no gRPC, auto: any that is free"),
    OPTION_TEXT(serve_settings, rest_port, "rest-port", .value = "PORT", .initial = "8501",
                .aliases = "rest-api-port http-port",
                .help = "REST, metrics and the status page; 0: none, auto: any that is free"),
    OPTION_TEXT(serve_settings, socket_path, "grpc-socket-path", .value = "PATH",
                .help = "gRPC on a UNIX socket, too"),
    OPTION_LONG(serve_settings, rest_timeout_ms, "rest-api-timeout-in-ms", .initial = "30000",
                OPTION_AT_LEAST(0), .help = "a deadline for REST requests; 0: none"),
    OPTION_INT(serve_settings, rest_threads, "rest-api-num-threads", .initial = "0", .min = 0,
               .max = DOOR_MOST_THREADS, .initial_note = "2",
               .help = "threads that read and write large REST bodies"),
    OPTION_INT(serve_settings, grpc_threads, "grpc-max-threads", .initial = "0", .min = 0,
               .max = DOOR_MOST_THREADS, .initial_note = "half of the cores",
               .help = "threads that read and write gRPC messages"),
    OPTION_FLAG(serve_settings, cors, "rest-api-enable-cors-support",
                .help = "pages of other sites may ask over REST"),
    OPTION_TEXT(serve_settings, channel_arguments, "grpc-channel-arguments",
                .value = "NAME=VALUE,...",
                .help = "limits under the names that gRPC's server gives them, such as "
                        "grpc.max_connection_age_ms=60000"),
    OPTION_FLAG(serve_settings, tensor_content, "enable-serialization-as-tensor-content",
                .help = "gRPC answers carry tensor_content instead of *_val"),
    OPTION_SECTION("Batching"),
    OPTION_FLAG(serve_settings, batching, "enable-batching", .initial = "true",
                .help = "compute requests that wait together; without it each alone"),
    OPTION_INT(serve_settings, max_batch, "max-batch-size", .initial = "32", .min = 1, .max = 4096,
               .help = "rows computed together; larger requests are computed in pieces"),
    OPTION_LONG(serve_settings, timeout_micros, "batch-timeout-micros", .initial = "0",
                OPTION_AT_LEAST(0),
                .help = "how long a request may wait for others; 0: only while another batch is "
                        "computed"),
    OPTION_LONG(serve_settings, max_batches, "max-enqueued-batches", .initial = "10", .min = 1,
                .max = 1000000000,
                .help = "full batches that may wait for a model; what comes beyond is refused at "
                        "once"),
    OPTION_INT(serve_settings, workers, "num-batch-threads", .initial = "1", .min = 1, .max = 1024,
               .aliases = "workers",
               .help = "batches computed at the same time, each with memory of its own"),
    OPTION_TEXT(serve_settings, batching_file, "batching-parameters-file", .value = "FILE",
                .help = "the four above as TensorFlow Serving's BatchingParameters, a text proto"),
    OPTION_INT(serve_settings, threads, "threads", .letter = 'a', .initial = "0",
               OPTION_AT_LEAST(0), .initial_note = "all cores this process may use",
               .environment = "OMP_NUM_THREADS",
               .aliases = "tensorflow-intra-op-parallelism tensorflow-session-parallelism "
                          "num-intra-threads",
               .help = "threads that compute one batch"),
    OPTION_SECTION("Who may ask, and how much"),
    OPTION_TEXT(serve_settings, token_file, "token-file", .value = "FILE",
                .help = "bearer tokens, one a line; only who sends one is answered. Read again "
                        "when it changes"),
    OPTION_TEXT(serve_settings, tls_cert, "tls-cert", .value = "FILE",
                .help = "PEM certificate: all doors speak TLS"),
    OPTION_TEXT(serve_settings, tls_key, "tls-key", .value = "FILE", .help = "and its key"),
    OPTION_TEXT(serve_settings, tls_client_ca, "tls-client-ca", .value = "FILE",
                .help = "clients must show a certificate that one of these signed"),
    OPTION_TEXT(serve_settings, ssl_file, "ssl-config-file", .value = "FILE",
                .help = "the same as TensorFlow Serving's SSLConfig, a text proto; here it is for "
                        "REST, too"),
    OPTION_BYTES(serve_settings, message_limit, "max-request-bytes", .initial = "64M", .min = 1024,
                 .max = 2147483647, .help = "a larger request is refused"),
    OPTION_INT(
        serve_settings, connections, "max-connections", .initial = "4096", OPTION_AT_LEAST(1),
        .help = "to each port at the same time; more have to wait for REST, and are turned away by "
                "gRPC"),
    OPTION_SECONDS(serve_settings, request_seconds, "request-timeout", .initial = "30",
                   .help = "a request, from its first byte to its last, a handshake, and a client "
                           "that does not take its answer may take so long; 0: any time"),
    OPTION_SECONDS(serve_settings, idle_seconds, "idle-timeout", .initial = "60",
                   OPTION_AT_LEAST(1), .help = "a connection that says nothing is closed"),
    OPTION_SECTION("Running"),
    OPTION_SECONDS(serve_settings, farewell_seconds, "drain-delay", .initial = "0",
                   .help =
                       "after SIGTERM or SIGINT, first say at /readyz that the server is ending "
                       "and answer as before for so long: load balancers need time to notice"),
    OPTION_SECONDS(serve_settings, drain_seconds, "drain-timeout", .initial = "20",
                   .help = "then no connection is taken, and requests in flight may take so long"),
    OPTION_FLAG(serve_settings, status_page, "status-page", .initial = "true",
                .help = "show models, rates and latencies at / of the REST port"),
    OPTION_TEXT(serve_settings, access_log, "access-log", .value = "FILE",
                .help = "a line for each request; - is standard output"),
    OPTION_TEXT(serve_settings, monitoring_file, "monitoring-config-file", .value = "FILE",
                .help = "where metrics are, or that they are not, as TensorFlow Serving's "
                        "MonitoringConfig; without it /monitoring/prometheus/metrics"),
    OPTION_REFUSED("enable-per-model-batching-parameters", .accepts = "false 0",
                   .help = "all models share the parameters of --batching-parameters-file"),
    OPTION_REFUSED("num-load-threads", .value = "N", .accepts = "0 1",
                   .aliases = "num-unload-threads",
                   .help = "models are loaded one after the other, beside serving"),
    OPTION_REFUSED("flush-filesystem-caches", .accepts = "false 0",
                   .help = "the kernel decides what files it keeps in memory"),
    OPTION_REFUSED("tensorflow-session-config-file", .value = "FILE",
                   .aliases = "platform-config-file thread-pool-factory-config-file",
                   .help = "there is no TensorFlow here to configure; write --threads"),
    OPTION_REFUSED("tensorflow-inter-op-parallelism", .value = "N", .accepts = "0 1",
                   .help = "operations run one after the other, each on all threads; write "
                           "--num-batch-threads for several batches at a time"),
    OPTION_REFUSED("use-alts-credentials", .accepts = "false 0",
                   .help = "TLS is what there is: --tls-cert"),
    OPTION_REFUSED("per-process-gpu-memory-fraction", .value = "X", .accepts = "0 0.0",
                   .help = "this program computes on CPUs only"),
    OPTION_REFUSED("saved-model-tags", .value = "TAGS", .accepts = "serve",
                   .help = "the graph with the tag `serve` is served"),
    OPTION_REFUSED("num-request-iterations-for-warmup", .value = "N", .accepts = "0 1",
                   .help = "each warm-up request is replayed once"),
    OPTION_REFUSED("remove-unused-fields-from-bundle-metagraph", .accepts = "true 1",
                   .help = "only what is needed of a model is kept in memory"),
    OPTION_REFUSED("prefer-tflite-model", .accepts = "false 0",
                   .aliases = "num-tflite-pools num-tflite-interpreters-per-pool",
                   .help = "SavedModels are served, not TensorFlow Lite's"),
    OPTION_REFUSED("enable-signature-method-name-check", .accepts = "false 0",
                   .help = "classify and regress take any signature whose outputs fit"),
    OPTION_REFUSED("xla-cpu-compilation-enabled", .accepts = "false 0",
                   .aliases = "xla-gpu-compilation-enabled",
                   .help = "kernels come from oneDNN and from this program"),
    OPTION_REFUSED("enable-profiler", .accepts = "false 0",
                   .help = "write lockstep bench --forward-only --trace FILE"),
    OPTION_REFUSED("mixed-precision", .value = "NAME",
                   .help = "this program computes in float32 only"),
    OPTION_REFUSED("skip-initialize-tpu", .accepts = "true 1 false 0",
                   .help = "this program computes on CPUs only"),
    OPTION_REFUSED("enable-grpc-healthcheck-service", .accepts = "true 1",
                   .help = "grpc.health.v1 is always there"),
    OPTION_REFUSED("version", .accepts = "false 0", .help = "write lockstep version"),
    OPTION_END};

static int run(struct options *parsed, void *settings, struct error *err)
{
    return serving_run(settings, parsed, signals_catch(), err);
}

const struct command command_serve = {
    .name = "serve",
    .order = 25,
    .summary = "answer questions to exported models over gRPC and REST",
    .description =
        "Serves SavedModels, as `lockstep train --export-dir` and `lockstep export` write them, "
        "the "
        "way TensorFlow Serving does: its gRPC and REST interfaces, its options, its configuration "
        "files and its metrics, and beside them the Open Inference Protocol (v2).\n"
        "\n"
        "A model is a directory with numbered versions, or a single ONNX file. The newest is "
        "served; a newer one is "
        "loaded, checked and warmed beside it and takes its place between two requests. One that "
        "is damaged or half copied is reported and never served.\n"
        "\n"
        "Requests that wait are computed together. When more wait than can be answered soon, the "
        "next is refused at once (429, RESOURCE_EXHAUSTED). SIGTERM lets requests in flight "
        "finish.",
    .examples = "# serve the newest version below export/\n"
                "lockstep serve --model mnist=export\n"
                "# a network that another program wrote\n"
                "lockstep serve resnet18.onnx\n"
                "# ask it\n"
                "curl -d '{\"instances\": [...]}' http://localhost:8501/v1/models/mnist:predict\n"
                "# as TensorFlow Serving is started\n"
                "lockstep serve --port=8500 --rest_api_port=8501 --model_name=mnist "
                "--model_base_path=/models/mnist\n"
                "# only for who knows a token, over TLS\n"
                "lockstep serve --model mnist=export --tls-cert cert.pem --tls-key key.pem "
                "--token-file tokens\n",
    .options = options,
    .settings_size = sizeof(struct serve_settings),
    .run = run,
};
