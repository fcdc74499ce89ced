#include "serve/grpc_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct grpc_library library;
static char failure[256]; /* "": it is there */

static const struct symbol symbols[] = {
#define GRPC_ROW(name) SYMBOL_ROW(struct grpc_library, name)
    GRPC_FUNCTIONS(GRPC_ROW)
#undef GRPC_ROW
};

/* What gRPC has to say goes where our own lines go, for who wants to know it all: most of its errors
 * are what some client did wrong, and no client shall fill the log. */
static void log_message(gpr_log_func_args *args)
{
    log_line(LOG_DEBUG, "gRPC: %s", args->message);
}

/* Debian builds Abseil so that each of gRPC's locks is looked up in a graph of all of them, behind one
 * lock of its own, to find deadlocks: for those who write gRPC. We can do without; where there is no
 * such function, it is not done anyway. */
static void leave_locks_unwatched(void *grpc)
{
    void (*set_mode)(int mode);
    void *symbol =
        dlsym(grpc, "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");
    memcpy(&set_mode, &symbol, sizeof set_mode);
    if (symbol)
        set_mode(0); /* OnDeadlockCycle::kIgnore */
}

/* The soname stands for the layout of the structures in the headers that this was built with. */
static void load(void)
{
    void *grpc = dlopen("libgrpc.so.29", RTLD_NOW | RTLD_LOCAL); /* brings libgpr */
    if (!grpc) {
        snprintf(failure, sizeof failure, "libgrpc.so.29 cannot be loaded; install libgrpc29");
        return;
    }
    const char *missing = symbols_find(grpc, symbols, sizeof symbols / sizeof *symbols, &library);
    if (missing) {
        snprintf(failure, sizeof failure, "the installed libgrpc has no %s", missing);
        return;
    }
    leave_locks_unwatched(grpc);
    library.gpr_set_log_function(log_message);
    library.grpc_init();
}

const struct grpc_library *grpc_library_load(struct error *err)
{
    pthread_once(&once, load);
    if (!failure[0])
        return &library;
    error_set(err, ERROR_IO, "%s", failure);
    return NULL;
}

/* Its monotonic clock is the one that clock_seconds() reads. */
double grpc_library_seconds(const struct grpc_library *grpc, gpr_timespec moment)
{
    if (moment.tv_sec == INT64_MAX)
        return 0;
    if (moment.clock_type != GPR_CLOCK_MONOTONIC)
        moment = grpc->gpr_convert_clock_type(moment, GPR_CLOCK_MONOTONIC);
    return (double)moment.tv_sec + 1e-9 * moment.tv_nsec;
}

gpr_timespec grpc_library_moment(const struct grpc_library *grpc, double seconds)
{
    if (seconds <= 0)
        return grpc->gpr_inf_future(GPR_CLOCK_MONOTONIC);
    gpr_timespec span = grpc->gpr_time_from_micros((int64_t)(seconds * 1e6), GPR_TIMESPAN);
    return grpc->gpr_time_add(grpc->gpr_now(GPR_CLOCK_MONOTONIC), span);
}

bool grpc_library_bytes(const struct grpc_library *grpc, grpc_byte_buffer *message,
                        grpc_slice *joined, const void **bytes, size_t *count)
{
    grpc_slice_buffer *slices = &message->data.raw.slice_buffer;
    grpc_byte_buffer_reader reader;
    *joined = grpc->grpc_empty_slice();
    if (slices->count == 1 && message->data.raw.compression == GRPC_COMPRESS_NONE) {
        *bytes = GRPC_SLICE_START_PTR(slices->slices[0]);
        *count = GRPC_SLICE_LENGTH(slices->slices[0]);
        return true;
    }
    if (!grpc->grpc_byte_buffer_reader_init(&reader, message))
        return false;
    *joined = grpc->grpc_byte_buffer_reader_readall(&reader);
    grpc->grpc_byte_buffer_reader_destroy(&reader);
    *bytes = GRPC_SLICE_START_PTR(*joined);
    *count = GRPC_SLICE_LENGTH(*joined);
    return true;
}
