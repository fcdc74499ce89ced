/* One signed request to a bucket, with its retries; for s3.c and s3_write.c. */
#ifndef NET_S3_REQUEST_H
#define NET_S3_REQUEST_H

#include "net/aws.h"
#include "net/http.h"
#include "net/s3.h"

struct s3 {
    struct s3_settings settings;
    char bucket[S3_BUCKET_BYTES];
    char base[400]; /* what stands before the key: ends without a slash */
    char host[320]; /* of `base`, with a port that is not the scheme's */
    struct http_client *client;
    struct aws_identity *identity;
};

struct s3_request {
    const char *method, *key; /* key NULL: the bucket itself */
    const char *query;        /* encoded, parameters sorted by name, each with '='; NULL: none */
    const char *headers[4];   /* beside those of the signature */
    const void *body;
    size_t body_bytes;
    void *into;
    size_t into_bytes;
    /* A ranged read: `Range` is made here, because what is left of it changes with each attempt. */
    bool ranged;
    uint64_t offset;
    const char *etag;  /* of a ranged read: the reply must have it; "" or NULL: any */
    bool missing_fine; /* status 404 is an answer */
    bool cleans_up;    /* done once and all the same when a stop is wanted */
};

/* `reply` is the caller's; 0 when the status is 2xx (or 404, where that is fine). */
int s3_perform(struct s3 *s3, const struct s3_request *request, struct http_reply *reply,
               struct error *err);

#endif
