/* The index of a tensor bundle: whatever the bytes, entries with sizes that fit their shapes, or an
 * error; those that are tensors of ours are written to an index that says the same. */
#include <assert.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "mend_table.h"
#include "store/bundle_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_entry(const struct bundle_index *index, int i)
{
    const struct bundle_entry *entry = &index->entries[i];
    struct tensor tensor = {entry->dtype, entry->shape, NULL};
    assert(entry->name[0] && entry->shard >= 0 && entry->shard < index->shards);
    assert(i == 0 || strcmp(index->entries[i - 1].name, entry->name) < 0);
    assert(entry->offset + entry->bytes <= INT64_MAX);
    if (!entry->unreadable && entry->form == BUNDLE_NUMBERS)
        assert(tensor_bytes(&tensor) == entry->bytes);
    if (!entry->unreadable && entry->form == BUNDLE_STRINGS)
        assert((uint64_t)shape_count(&entry->shape) <= entry->bytes);
}

/* Ours are those of one data file. */
static bool is_ours(const struct bundle_entry *entry)
{
    return !entry->unreadable && entry->shard == 0;
}

static bool same(const struct bundle_entry *a, const struct bundle_entry *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype &&
           shape_equal(&a->shape, &b->shape) && a->offset == b->offset && a->bytes == b->bytes &&
           a->crc == b->crc && a->form == b->form && !b->unreadable;
}

static void write_again(struct bundle_index *index, struct arena *arena)
{
    struct bundle_index again;
    struct strbuf table;
    struct error err = {0};
    int kept = 0;
    for (int i = 0; i < index->count; i++)
        if (is_ours(&index->entries[i]))
            index->entries[kept++] = index->entries[i];
    strbuf_init(&table);
    assert(bundle_index_write(index->entries, kept, &table, &err) == 0);
    assert(bundle_index_read("again", table.text, table.length, arena, &again, &err) == 0);
    assert(again.count == kept && again.shards == 1);
    for (int i = 0; i < kept; i++)
        assert(same(&index->entries[i], &again.entries[i]));
    strbuf_release(&table);
}

static void try_index(const uint8_t *bytes, size_t count)
{
    struct arena *arena = arena_create();
    struct bundle_index index;
    struct error err = {0};
    if (bundle_index_read("input", bytes, count, arena, &index, &err) < 0) {
        assert(err.code == ERROR_FORMAT && strncmp(err.message, "input: ", 7) == 0);
    } else {
        for (int i = 0; i < index.count; i++)
            check_entry(&index, i);
        write_again(&index, arena);
    }
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    try_index(bytes, count);
    uint8_t *copied = memory_allocate(count);
    if (count > 0)
        memcpy(copied, bytes, count);
    mend_table(copied, count);
    try_index(copied, count);
    memory_free(copied);
    return 0;
}
