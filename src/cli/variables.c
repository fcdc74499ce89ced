#include "cli/variables.h"

#include <stddef.h>

const struct variable *variables_list(void)
{
    static const struct variable list[] = {
        {"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
         "credentials for s3:// paths; looked at first"},
        {"AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE",
         "the profile whose credentials, region and endpoint_url are used, and the files it is in"},
        {"AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME, AWS_ENDPOINT_URL_STS",
         "a pod's web identity, exchanged for credentials at the token service"},
        {"AWS_NO_SIGN_REQUEST", "true: use no credentials, as public buckets allow"},
        {"AWS_REGION, AWS_DEFAULT_REGION", "region of the bucket; us-east-1 unless told"},
        {"AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, S3_ENDPOINT, S3_USE_HTTPS",
         "the S3 server, where it is not AWS"},
        {"AWS_CA_BUNDLE", "certificates to trust instead of the system's"},
        {"AWS_MAX_ATTEMPTS", "how often a request to S3 is tried; 8 unless told"},
        {"LOCKSTEP_S3_ADDRESSING", "path or virtual: where the bucket's name goes"},
        {"LOCKSTEP_S3_RETRY_SECONDS, LOCKSTEP_S3_STALL_SECONDS",
         "wait before the second attempt, 0.2 unless told; silence that ends one, 30 unless told"},
        {"LOCKSTEP_CACHE_DIR, XDG_CACHE_HOME", "where objects from S3 and indexes are kept"},
        {"LOCKSTEP_CACHE_BYTES", "how much of S3 is kept at most; 32G unless told"},
        {"KUBECTL", "the program that talks to a cluster; kubectl unless told"},
        {"TMPDIR", "where files are written on their way to S3, and Open MPI's for a member"},
        {"LOCKSTEP_AGENT, LOCKSTEP_MEMBERS, LOCKSTEP_TICKET",
         "set by a member's agent for what it starts"},
        {"MLFLOW_TRACKING_URI",
         "the MLflow server (http:// or https://) that train tells about each run"},
        {"MLFLOW_EXPERIMENT_NAME, MLFLOW_EXPERIMENT_ID",
         "the run's experiment, made when there is none of this name; Default unless told"},
        {"MLFLOW_RUN_NAME, MLFLOW_RUN_ID", "name of the run; the run to go on with"},
        {"MLFLOW_WORKSPACE", "the workspace, on servers that have several"},
        {"MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN",
         "credentials for MLflow; name and password are also looked for in ~/.mlflow/credentials"},
        {"MLFLOW_TRACKING_SERVER_CERT_PATH, MLFLOW_TRACKING_CLIENT_CERT_PATH, "
         "MLFLOW_TRACKING_INSECURE_TLS",
         "certificates to trust; a certificate with its key; true: trust anyone"},
        {"KUBEFLOW_TRAINER_SERVER_URL, KUBEFLOW_TRAINER_SERVER_CA_CERT, "
         "KUBEFLOW_TRAINER_SERVER_TOKEN",
         "where train reports its progress in a pod of a TrainJob, the certificates to trust, and "
         "the file of the token; set by Kubeflow Trainer"},
        {NULL, NULL},
    };
    return list;
}
