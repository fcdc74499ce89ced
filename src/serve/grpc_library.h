/* gRPC's core, loaded when it is first needed: with all that it depends on it makes more work for
 * the dynamic linker than the rest of the program, and only servers and their clients should wait
 * for it. */
#ifndef SERVE_GRPC_LIBRARY_H
#define SERVE_GRPC_LIBRARY_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdbool.h>

#include "base/symbols.h"

struct error;

/* Every function that is called, once: the structure and the search for symbols are made of it. */
#define GRPC_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(grpc_init)                                                                            \
    FUNCTION(grpc_completion_queue_create_for_next)                                                \
    FUNCTION(grpc_completion_queue_next)                                                           \
    FUNCTION(grpc_completion_queue_shutdown)                                                       \
    FUNCTION(grpc_completion_queue_destroy)                                                        \
    FUNCTION(grpc_call_start_batch)                                                                \
    FUNCTION(grpc_call_unref)                                                                      \
    FUNCTION(grpc_metadata_array_init)                                                             \
    FUNCTION(grpc_metadata_array_destroy)                                                          \
    FUNCTION(grpc_insecure_credentials_create)                                                     \
    FUNCTION(grpc_ssl_credentials_create)                                                          \
    FUNCTION(grpc_channel_credentials_release)                                                     \
    FUNCTION(grpc_channel_create)                                                                  \
    FUNCTION(grpc_channel_create_call)                                                             \
    FUNCTION(grpc_channel_destroy)                                                                 \
    FUNCTION(grpc_byte_buffer_destroy)                                                             \
    FUNCTION(grpc_raw_byte_buffer_create)                                                          \
    FUNCTION(grpc_byte_buffer_reader_init)                                                         \
    FUNCTION(grpc_byte_buffer_reader_readall)                                                      \
    FUNCTION(grpc_byte_buffer_reader_destroy)                                                      \
    FUNCTION(grpc_slice_from_copied_buffer)                                                        \
    FUNCTION(grpc_slice_from_static_string)                                                        \
    FUNCTION(grpc_slice_unref)                                                                     \
    FUNCTION(grpc_empty_slice)                                                                     \
    FUNCTION(gpr_now)                                                                              \
    FUNCTION(gpr_convert_clock_type)                                                               \
    FUNCTION(gpr_inf_future)                                                                       \
    FUNCTION(gpr_time_add)                                                                         \
    FUNCTION(gpr_time_from_micros)                                                                 \
    FUNCTION(gpr_set_log_function)

struct grpc_library {
    GRPC_FUNCTIONS(SYMBOL_FIELD)
};

/* The same each time, for ever, and started; NULL when it is not installed. From any thread. */
const struct grpc_library *grpc_library_load(struct error *err);

/* clock_seconds() of a moment that gRPC gave; 0 when it is never. */
double grpc_library_seconds(const struct grpc_library *grpc, gpr_timespec moment);
/* The other way: so many seconds from now; 0 is never. */
gpr_timespec grpc_library_moment(const struct grpc_library *grpc, double seconds);

/* The bytes of a message in one piece: where they are when gRPC has them so, else joined in
 * *joined, which is to be unreferenced (it is always set). False when it cannot be read. */
bool grpc_library_bytes(const struct grpc_library *grpc, grpc_byte_buffer *message,
                        grpc_slice *joined, const void **bytes, size_t *count);

#endif
