/* MNIST's files, plain or packed: whatever the bytes, a view that lies inside them or an error. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/idx.h"
#include "wire/gzip.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { LIMIT = 1 << 20 };

/* Reads every value that was promised, so that the sanitizer sees the last one. */
static void read_all(const uint8_t *bytes, size_t count)
{
    struct idx idx;
    struct error err = {0};
    if (idx_parse("input", bytes, count, &idx, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
        return;
    }
    size_t values = 1;
    for (int i = 0; i < idx.ndim; i++)
        values *= (size_t)idx.dim[i];
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < values; i++)
        sum = (uint8_t)(sum + idx.values[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *unpacked;
    size_t unpacked_bytes;
    struct error err = {0};
    read_all(bytes, count);
    if (gzip_unpack("input", bytes, count, LIMIT, &unpacked, &unpacked_bytes, &err) == 0) {
        assert(unpacked_bytes <= LIMIT);
        read_all((const uint8_t *)unpacked, unpacked_bytes);
        memory_free(unpacked);
    }
    return 0;
}
