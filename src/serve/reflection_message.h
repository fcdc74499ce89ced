/* grpc.reflection's questions about what a server's services and messages look like, answered from
 * a google.protobuf.FileDescriptorSet. */
#ifndef SERVE_REFLECTION_MESSAGE_H
#define SERVE_REFLECTION_MESSAGE_H

#include <stddef.h>

struct error;
struct strbuf;

/* Appends a ServerReflectionResponse to one ServerReflectionRequest; v1 and v1alpha are alike. What
 * is not there is an ErrorResponse; only a request that is no protobuf message fails. */
int reflection_answer(const void *set, size_t set_bytes, const void *message, size_t bytes,
                      struct strbuf *out, struct error *err);

/* The descriptors of proto/, embedded. */
const void *services_descriptors(size_t *bytes);

#endif
