/* tf.Example messages: named lists of bytes, floats or integers. Read by a bounded reader of ours
 * (views into the message, nothing allocated), written by one append per feature. */
#ifndef WIRE_EXAMPLE_H
#define WIRE_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct strbuf;

enum feature_kind { FEATURE_NONE, FEATURE_BYTES, FEATURE_FLOAT, FEATURE_INT64 };

/* One feature of an example: its undecoded list, in the message. */
struct feature {
    enum feature_kind kind; /* FEATURE_NONE: absent, or an empty Feature message */
    const uint8_t *list;
    size_t list_bytes;
};

/* Finds several features in one pass; the last of a repeated name counts, as in protobuf. Absent
 * ones are FEATURE_NONE. Fails with ERROR_FORMAT and the offset in the message. */
int example_find(const void *message, size_t bytes, const char *const *names, int count,
                 struct feature *out, struct error *err);
/* Calls `each` for every feature in order of the message; stops when it returns nonzero. */
int example_walk(const void *message, size_t bytes,
                 int (*each)(void *context, const char *name, size_t name_bytes,
                             const struct feature *feature),
                 void *context, struct error *err);

int64_t feature_count(const struct feature *feature);
/* Value `index` of the list; false when there is none or the kind is another. */
bool feature_bytes(const struct feature *feature, int64_t index, const uint8_t **out,
                   size_t *count);
bool feature_int64(const struct feature *feature, int64_t index, int64_t *out);
bool feature_float(const struct feature *feature, int64_t index, float *out);

/* A message under construction, alone in `out` (example_begin clears it). The parts go into it in
 * the order of the calls; a failed allocation stays in the strbuf. */
void example_begin(struct strbuf *out);
void example_add_bytes(struct strbuf *out, const char *name, const void *bytes, size_t count);
void example_add_int64(struct strbuf *out, const char *name, const int64_t *values, int count);
void example_add_float(struct strbuf *out, const char *name, const float *values, int count);
void example_end(struct strbuf *out);

#endif
