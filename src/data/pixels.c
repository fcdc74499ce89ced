#include "data/pixels.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/memory.h"

int scratch_reserve(struct scratch *scratch, size_t bytes, struct error *err)
{
    if (bytes <= scratch->bytes)
        return 0;
    scratch_release(scratch);
    /* A quarter more, so that pictures of slowly growing sizes do not each allocate. */
    bytes += bytes / 4;
    scratch->data = memory_allocate(bytes);
    if (!scratch->data)
        return error_set(err, ERROR_MEMORY, "no memory for %zu bytes of pixels", bytes);
    scratch->bytes = bytes;
    return 0;
}

void scratch_release(struct scratch *scratch)
{
    memory_free(scratch->data);
    *scratch = (struct scratch){0};
}

int pixels_check_size(int64_t width, int64_t height, struct error *err)
{
    if (width < 1 || height < 1)
        return error_set(err, ERROR_FORMAT, "a picture of %" PRId64 " x %" PRId64 " pixels", width,
                         height);
    if (width > PIXELS_MOST_BYTES / 3 || height > PIXELS_MOST_BYTES / 3 / width)
        return error_set(err, ERROR_FORMAT,
                         "a picture of %" PRId64 " x %" PRId64 " pixels; the most we decode is %d "
                         "million pixels, so make it smaller first",
                         width, height, PIXELS_MOST_BYTES / 3 / 1000000);
    return 0;
}
