/* Where the tracking server is and who we are to it, from the variables that MLflow's own client
 * reads. */
#ifndef WATCH_MLFLOW_SETTINGS_H
#define WATCH_MLFLOW_SETTINGS_H

#include <stdbool.h>

struct error;

enum { MLFLOW_URL_BYTES = 2048, MLFLOW_NAME_BYTES = 512, MLFLOW_SECRET_BYTES = 4096 };

struct mlflow_settings {
    char url[MLFLOW_URL_BYTES];                   /* without slashes at its end; "": none */
    char shown[MLFLOW_URL_BYTES];                 /* the same without user and password */
    char experiment[MLFLOW_NAME_BYTES];           /* name; "": by id */
    char experiment_id[64];                       /* "": by name */
    char run_name[MLFLOW_NAME_BYTES], run_id[64]; /* or "" */
    char workspace[MLFLOW_NAME_BYTES];            /* of servers that have several; or "" */
    char user[MLFLOW_SECRET_BYTES], password[MLFLOW_SECRET_BYTES], token[MLFLOW_SECRET_BYTES];
    char who[128];                              /* mlflow.user, or "" */
    const char *ca_bundle, *client_certificate; /* borrowed from the environment; or NULL */
    bool trust_anyone;
};

/* `url` is "" when MLFLOW_TRACKING_URI is not set. ERROR_USAGE for what we cannot do. */
int mlflow_settings_read(char *(*environment)(const char *name), struct mlflow_settings *out,
                         struct error *err);

/* `url` without what stands before an @ in its authority: messages never hold a secret. */
void mlflow_hide_password(const char *url, char out[MLFLOW_URL_BYTES]);

#endif
