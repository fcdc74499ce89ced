/* Column files: whatever the bytes, a description that makes sense or an error that names a line. */
#include <assert.h>
#include <stdint.h>

#include "base/error.h"
#include "data/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct table_description out;
    struct error err = {0};
    if (table_describe_text("input", "/data", (const char *)bytes, count, &out, &err) < 0) {
        assert(err.code == ERROR_FORMAT && strncmp(err.message, "input: ", 7) == 0);
        return 0;
    }
    int kinds[4] = {0};
    for (int i = 0; i < out.column_count; i++) {
        assert(out.columns[i].name[0]);
        kinds[out.columns[i].kind]++;
        assert((out.columns[i].buckets > 0) == (out.columns[i].kind == TABLE_CATEGORICAL));
    }
    assert(out.files[0] && kinds[TABLE_LABEL] == 1);
    assert(kinds[TABLE_NUMERIC] == out.numeric_count);
    assert(kinds[TABLE_CATEGORICAL] == out.categorical_count);
    assert(out.label_value_count <= TABLE_MAX_LABEL_VALUES);
    table_description_release(&out);
    return 0;
}
