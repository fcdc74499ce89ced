/* A bucket of an S3 server: list, ranged reads, uploads. Each call tries again, with a growing and
 * scattered wait, what may pass by itself (5xx, 429, SlowDown, timeouts, resets, bodies that end
 * early), bounded in number and time; what will not (403, 404) fails at once. Messages never hold
 * a secret. A stop ends every wait and transfer, within a second, with ERROR_CANCELLED. */
#ifndef NET_S3_H
#define NET_S3_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct s3;

enum { S3_KEY_BYTES = 1025, S3_ETAG_BYTES = 160, S3_BUCKET_BYTES = 64 };

struct s3_object {
    const char *key; /* valid during the call that shows it */
    uint64_t bytes;
    char etag[S3_ETAG_BYTES]; /* as the server writes it, with quotes; changes with the content */
};

struct s3_settings {
    char endpoint[256]; /* "http[s]://host[:port]"; "": AWS itself */
    bool path_style;    /* http://host/bucket/key, else http://bucket.host/key */
    int attempts;       /* of one request, at least 1 */
    double retry_wait;  /* seconds before the second attempt; doubles from there */
    double retry_total; /* no attempt is begun later than this */
    double connect_seconds, stall_seconds;
    int64_t list_limit; /* objects */
    size_t part_bytes;  /* of a multipart upload */
    /* NULL, or nonzero when everything is to end; borrowed. Not from the environment. */
    const atomic_int *stop;
};

/* What the environment says: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or S3_ENDPOINT (a host:port,
 * as TensorFlow had it, is https unless S3_USE_HTTPS=0), AWS_MAX_ATTEMPTS,
 * LOCKSTEP_S3_ADDRESSING=path|virtual, LOCKSTEP_S3_RETRY_SECONDS, LOCKSTEP_S3_STALL_SECONDS. */
int s3_settings_read(struct s3_settings *out, struct error *err);

/* "s3://bucket/some/prefix" taken apart; slashes at the prefix's end are dropped. */
int s3_parse(const char *url, char bucket[S3_BUCKET_BYTES], char prefix[S3_KEY_BYTES],
             struct error *err);

/* Finds endpoint, region and credentials; asks the server nothing yet. */
int s3_open(const char *bucket, const struct s3_settings *settings, struct s3 **out,
            struct error *err);
void s3_close(struct s3 *s3);                 /* accepts NULL */
const char *s3_endpoint(const struct s3 *s3); /* for messages and cache names */

/* Everything below from any number of threads at once. */

typedef int s3_visit(void *context, const struct s3_object *object, struct error *err);
/* All objects whose keys start with `prefix`; stops when `visit` returns -1. */
int s3_list(struct s3 *s3, const char *prefix, s3_visit *visit, void *context, struct error *err);
/* Whether the object is there; fails only when that cannot be found out. */
int s3_find(struct s3 *s3, const char *key, bool *found, struct s3_object *out, struct error *err);
/* Exactly these bytes of the object that has this ETag ("": any); an object that was replaced in
 * the meantime is an error that says so. */
int s3_read(struct s3 *s3, const char *key, const char *etag, uint64_t offset, size_t bytes,
            void *out, struct error *err);
/* The object appears complete or not at all; more than one part's bytes go as a multipart upload,
 * which is taken back when it fails. */
int s3_write(struct s3 *s3, const char *key, const void *data, size_t bytes, struct error *err);

#endif
