/* Any table whose columns a small file explains: Adult census, one's own logs. */
#include "data/table.h"

#include "base/error.h"
#include "data/dataset.h"

static int open_table(const struct dataset_request *request, struct dataset **out,
                      struct error *err)
{
    if (!request->path)
        return error_set(err, ERROR_USAGE,
                         "table needs a column file, or a directory with columns.txt: --data "
                         "table:PATH");
    struct table_description description;
    if (table_describe(request->path, request->stop, &description, err) < 0)
        return -1;
    return table_open(request, &description, out, err);
}

const struct dataset_kind dataset_table = {
    .name = "table",
    .summary = "table:PATH: any CSV, explained by a column file (columns.txt or *.columns)",
    .open = open_table,
    .count = table_count,
    .fields = table_fields,
    .read = table_read,
    .read_rows = table_read_rows,
    .statistics = table_statistics,
    .locate = table_locate,
    .close = table_close,
    .caches = true,
};
