/* nghttp2, which libcurl brings along; loaded when it is first needed. */
#ifndef SERVE_H2_LIBRARY_H
#define SERVE_H2_LIBRARY_H

#include <nghttp2/nghttp2.h>

#include "base/symbols.h"

struct error;

/* Every function that is called, once: the structure and the search for symbols are made of it. */
#define H2_FUNCTIONS(FUNCTION)                                                                     \
    FUNCTION(nghttp2_session_callbacks_new)                                                        \
    FUNCTION(nghttp2_session_callbacks_del)                                                        \
    FUNCTION(nghttp2_session_callbacks_set_on_begin_headers_callback)                              \
    FUNCTION(nghttp2_session_callbacks_set_on_frame_recv_callback)                                 \
    FUNCTION(nghttp2_session_callbacks_set_on_frame_send_callback)                                 \
    FUNCTION(nghttp2_session_callbacks_set_on_header_callback)                                     \
    FUNCTION(nghttp2_session_callbacks_set_on_data_chunk_recv_callback)                            \
    FUNCTION(nghttp2_session_callbacks_set_on_stream_close_callback)                               \
    FUNCTION(nghttp2_session_server_new)                                                           \
    FUNCTION(nghttp2_session_client_new)                                                           \
    FUNCTION(nghttp2_session_del)                                                                  \
    FUNCTION(nghttp2_session_check_request_allowed)                                                \
    FUNCTION(nghttp2_session_get_stream_user_data)                                                 \
    FUNCTION(nghttp2_session_set_stream_user_data)                                                 \
    FUNCTION(nghttp2_session_mem_recv)                                                             \
    FUNCTION(nghttp2_session_mem_send)                                                             \
    FUNCTION(nghttp2_session_set_local_window_size)                                                \
    FUNCTION(nghttp2_session_want_read)                                                            \
    FUNCTION(nghttp2_session_want_write)                                                           \
    FUNCTION(nghttp2_session_get_last_proc_stream_id)                                              \
    FUNCTION(nghttp2_session_get_stream_remote_close)                                              \
    FUNCTION(nghttp2_session_resume_data)                                                          \
    FUNCTION(nghttp2_submit_goaway)                                                                \
    FUNCTION(nghttp2_submit_ping)                                                                  \
    FUNCTION(nghttp2_submit_response)                                                              \
    FUNCTION(nghttp2_submit_shutdown_notice)                                                       \
    FUNCTION(nghttp2_submit_trailer)                                                               \
    FUNCTION(nghttp2_submit_request)                                                               \
    FUNCTION(nghttp2_submit_rst_stream)                                                            \
    FUNCTION(nghttp2_submit_settings)                                                              \
    FUNCTION(nghttp2_http2_strerror)                                                               \
    FUNCTION(nghttp2_strerror)

struct h2_library {
    H2_FUNCTIONS(SYMBOL_FIELD)
};

/* The same each time, for ever; NULL when it is not installed. From any thread. */
const struct h2_library *h2_library_load(struct error *err);

#endif
