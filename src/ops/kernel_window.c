#include "base/error.h"
#include "ops/window.h"

int window_resolve(struct window *window, int64_t size, int64_t *out, struct error *err)
{
    if (window->kernel < 1 || window->stride < 1 || window->dilation < 1)
        return error_set(err, ERROR_FORMAT,
                         "kernel %d, stride %d, dilation %d: all must be 1 or more", window->kernel,
                         window->stride, window->dilation);
    int64_t extent = (int64_t)(window->kernel - 1) * window->dilation + 1;
    if (window->padding == PADDING_VALID)
        window->pad_before = window->pad_after = 0;
    if (window->padding == PADDING_SAME) {
        int64_t positions = (size + window->stride - 1) / window->stride;
        int64_t needed = (positions - 1) * window->stride + extent - size;
        int64_t total = needed > 0 ? needed : 0;
        window->pad_before = (int)(total / 2);
        window->pad_after = (int)(total - total / 2);
    }
    int64_t padded = size + window->pad_before + window->pad_after;
    if (window->pad_before < 0 || window->pad_after < 0 || padded < extent)
        return error_set(err, ERROR_FORMAT,
                         "a window of %lld does not fit into %lld cells padded by %d and %d",
                         (long long)extent, (long long)size, window->pad_before, window->pad_after);
    *out = (padded - extent) / window->stride + 1;
    return 0;
}
