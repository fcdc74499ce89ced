/* JPEG bytes; the first eight are the random key of the crop. */
#include "try_picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    uint64_t key;
    if (count < sizeof key)
        return 0;
    memcpy(&key, bytes, sizeof key);
    try_picture(bytes + sizeof key, count - sizeof key, key);
    return 0;
}
