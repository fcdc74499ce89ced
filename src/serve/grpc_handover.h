/* gRPC hands a call from thread to thread by its completion queue. ThreadSanitizer does not see into
 * the library and has to be told; other builds do nothing here. */
#ifndef SERVE_GRPC_HANDOVER_H
#define SERVE_GRPC_HANDOVER_H

#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* Before the library gets a tag, and after it gave the tag back. */
static inline void handover_give(void *tag)
{
    __tsan_release(tag);
}

static inline void handover_take(void *tag)
{
    __tsan_acquire(tag);
}
#else
static inline void handover_give(void *tag)
{
    (void)tag;
}

static inline void handover_take(void *tag)
{
    (void)tag;
}
#endif

#endif
