/* Who we are to AWS and what speaks its language: region, endpoints, credentials. */
#ifndef NET_AWS_H
#define NET_AWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct aws_identity;
struct http_client;

enum { AWS_SECRET_BYTES = 256, AWS_TOKEN_BYTES = 8192 };

struct aws_credentials {
    bool anonymous; /* no signature: public buckets */
    char key_id[AWS_SECRET_BYTES], secret[AWS_SECRET_BYTES];
    char token[AWS_TOKEN_BYTES]; /* of a session, or "" */
    int64_t expires;             /* seconds since 1970; 0: never */
};

/* Looks, in this order, at the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
 * AWS_SESSION_TOKEN), the profile (AWS_PROFILE or "default" in AWS_SHARED_CREDENTIALS_FILE, else
 * ~/.aws/credentials, and AWS_CONFIG_FILE, else ~/.aws/config) and the web identity of a pod
 * (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN); where none is, or AWS_NO_SIGN_REQUEST is true,
 * requests are not signed. `client` must outlive it. */
int aws_identity_create(struct http_client *client, struct aws_identity **out, struct error *err);
void aws_identity_destroy(struct aws_identity *identity); /* accepts NULL */
const char *aws_region(const struct aws_identity *identity);
/* A setting of the profile, or "". */
void aws_profile_setting(const struct aws_identity *identity, const char *name, char *out,
                         size_t space);
/* For messages: "the environment", "profile x", "the web identity", "nowhere". */
const char *aws_credentials_source(const struct aws_identity *identity);

/* Credentials good for the next minutes. A web identity is exchanged when there are none yet, when
 * they end within five minutes, or when `refresh` says that they were refused. Any thread. */
int aws_credentials_get(struct aws_identity *identity, bool refresh, struct aws_credentials *out,
                        struct error *err);

/* The reply of STS's AssumeRoleWithWebIdentity. */
int aws_sts_reply(const void *bytes, size_t count, struct aws_credentials *out, struct error *err);

#endif
