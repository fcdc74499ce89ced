/* Manifests: whatever the bytes, one that can be composed again and read back alike, or an error.
 * Bytes without a checksum of their own get the right one, so that what is behind it is reached. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "store/manifest.h"
#include "wire/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void compose_again(const struct manifest *manifest, struct arena *arena)
{
    char *text;
    struct error err = {0};
    struct manifest again;
    assert(manifest_compose(manifest, &text, &err) == 0);
    if (manifest_parse("again", text, strlen(text), arena, &again, &err) == 0) {
        assert(again.step == manifest->step && again.goal == manifest->goal);
        assert(again.data_bytes == manifest->data_bytes);
        assert(again.index_crc == manifest->index_crc);
        assert(again.setting_count == manifest->setting_count);
    } else {
        assert(!"what was composed must be read");
    }
    memory_free(text);
}

static void try_text(const char *text, size_t count)
{
    struct arena *arena = arena_create();
    struct manifest manifest;
    struct error err = {0};
    if (manifest_parse("input", text, count, arena, &manifest, &err) < 0) {
        assert(err.code == ERROR_FORMAT && err.message[0]);
    } else {
        assert(manifest.step >= 0 && manifest.goal >= 0);
        assert(manifest_setting(&manifest, "") == NULL || manifest.setting_count > 0);
        compose_again(&manifest, arena);
    }
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char key[] = "\"crc32c\": \"";
    char *text = memory_allocate(count + 1), digits[9];
    assert(text);
    memcpy(text, bytes, count);
    try_text(text, count);
    char *place = memmem(text, count, key, strlen(key));
    if (place && count - (size_t)(place - text) >= strlen(key) + 8) {
        place += strlen(key);
        memset(place, '0', 8);
        snprintf(digits, sizeof digits, "%08x", (unsigned)crc32c(0, text, count));
        memcpy(place, digits, 8);
        try_text(text, count);
    }
    memory_free(text);
    return 0;
}
