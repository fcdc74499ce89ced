/* PNG bytes. As the corpus is PNG, the checksums of chunks are the fuzzer's to get past; libpng is
 * told nothing special. */
#include "try_picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    try_picture(bytes, count, count);
    return 0;
}
