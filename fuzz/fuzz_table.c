/* Sorted string tables: whatever the bytes, records in ascending order or an error; what was read is
 * written to a table that has the same records. */
#include <assert.h>

#include "base/error.h"
#include "base/memory.h"
#include "mend_table.h"
#include "wire/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Keys, values and their lengths. */
static int keep(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                size_t value_bytes, struct error *err)
{
    struct strbuf *seen = context;
    if (seen->length > 1 << 22)
        return error_set(err, ERROR_FORMAT, "large enough");
    strbuf_addf(seen, "%zu %zu ", key_bytes, value_bytes);
    strbuf_add_bytes(seen, key, key_bytes);
    strbuf_add_bytes(seen, value, value_bytes);
    return 0;
}

static int copy(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                size_t value_bytes, struct error *err)
{
    int status = table_writer_add(context, key, key_bytes, value, value_bytes, err);
    assert(status == 0); /* the reader gives them in order */
    return status;
}

static void try_table(const uint8_t *bytes, size_t count)
{
    struct error err = {0};
    struct strbuf seen, table, again;
    struct table_writer writer;
    strbuf_init(&seen);
    strbuf_init(&table);
    strbuf_init(&again);
    if (table_walk("input", bytes, count, keep, &seen, &err) < 0) {
        assert(err.code == ERROR_FORMAT && strncmp(err.message, "input: ", 7) == 0);
    } else {
        table_writer_init(&writer, &table);
        assert(table_walk("input", bytes, count, copy, &writer, &err) == 0);
        assert(table_writer_finish(&writer, &err) == 0);
        table_writer_release(&writer);
        assert(table_walk("again", table.text, table.length, keep, &again, &err) == 0);
        assert(again.length == seen.length && memcmp(again.text, seen.text, seen.length) == 0);
    }
    strbuf_release(&seen);
    strbuf_release(&table);
    strbuf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    try_table(bytes, count);
    uint8_t *copied = memory_allocate(count);
    if (count > 0)
        memcpy(copied, bytes, count);
    mend_table(copied, count);
    try_table(copied, count);
    memory_free(copied);
    return 0;
}
