/* Files of weights: whatever the bytes, entries that lie inside the data without overlap, or an
 * error. */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct safetensors file;
    struct error err = {0};
    if (safetensors_parse("input", bytes, count, arena, &file, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
    } else {
        size_t used = 0;
        volatile char sum = 0;
        for (int i = 0; i < file.count; i++) {
            const struct safetensors_entry *entry = &file.entries[i];
            assert(entry->first <= file.data_bytes);
            assert(entry->bytes <= file.data_bytes - entry->first);
            assert(safetensors_find(&file, entry->name) == entry);
            for (size_t j = 0; j < entry->bytes; j++)
                sum = (char)(sum + file.data[entry->first + j]);
            used += entry->bytes;
        }
        assert(used == file.data_bytes);
    }
    arena_destroy(arena);
    return 0;
}
