/* What lies in memory that an earlier process left: whatever the bytes, a state whose parts can all be
 * read, or none, with a reason. Bytes get the right checksums, too, so that what is behind them is
 * reached. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "store/manifest.h"
#include "store/state.h"
#include "wire/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void read_all(struct state *state)
{
    struct arena *arena = arena_create();
    struct manifest manifest;
    struct state_update update;
    struct error err = {0};
    assert(state_step(state) >= 0);
    assert(strlen(state_facts(state)) < (size_t)1 << 20);
    if (state_manifest(state, arena, &manifest, &err) < 0)
        assert(err.message[0]);
    if (state_unfinished(state, &update))
        assert(update.step == state_step(state));
    struct params_memory memory = state_memory(state);
    const float *weights = memory.take(memory.context, "weights", 4096, &err);
    if (weights)
        assert(weights[0] == weights[0] || weights[0] != weights[0]);
    arena_destroy(arena);
}

static void try_bytes(const uint8_t *bytes, size_t count)
{
    struct state *state;
    struct error err = {0};
    int memory = memfd_create("fuzz", 0);
    assert(memory >= 0 && write(memory, bytes, count) == (ssize_t)count);
    assert(state_open(memory, &state, &err) == 0);
    if (state_holds(state))
        read_all(state);
    state_close(state);
    close(memory);
}

static void put_crc(uint8_t *bytes, size_t first, size_t end)
{
    uint32_t crc = crc32c(0, bytes + first, end - first);
    memcpy(bytes + end, &crc, sizeof crc);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    /* Where store/state.c has them. */
    enum { HEADER_CRC = 976, RECORDS = 992, RECORD = 72, RECORD_CRC = 64, LEAST = 4096 };
    count = count > 1 << 16 ? 1 << 16 : count;
    try_bytes(bytes, count);
    if (count < LEAST)
        return 0;
    uint8_t *mended = malloc(count);
    assert(mended);
    memcpy(mended, bytes, count);
    put_crc(mended, 0, HEADER_CRC);
    for (size_t i = 0; i < 2; i++)
        put_crc(mended, RECORDS + i * RECORD, RECORDS + i * RECORD + RECORD_CRC);
    try_bytes(mended, count);
    free(mended);
    return 0;
}
