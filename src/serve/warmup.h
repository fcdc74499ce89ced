/* Requests that come with a version, replayed before it is served: TF Serving's
 * assets.extra/tf_serving_warmup_requests, TFRecords of PredictionLog. */
#ifndef SERVE_WARMUP_H
#define SERVE_WARMUP_H

#include <stddef.h>

struct error;
struct servable;

enum { WARMUP_MAX_RECORDS = 1000 };

/* DIRECTORY is the version's. Without such a file nothing is done. A file that is damaged, or a
 * request that the model cannot answer, fails: the version would not answer its clients either. Of
 * the logs only those of Predict are replayed; others are left out, and told. */
int warmup_replay(struct servable *servable, const char *directory, struct error *err);

/* One PredictionLog: 1 when its Predict was replayed, 0 when it holds another kind. */
int warmup_record(struct servable *servable, const void *record, size_t bytes, struct error *err);

#endif
