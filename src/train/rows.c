#include "train/rows.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

int rows_create(struct rows *rows, int table_count, struct error *err)
{
    *rows = (struct rows){.table_count = table_count};
    if (!table_count)
        return 0;
    rows->tables = memory_allocate((size_t)table_count * sizeof *rows->tables);
    return rows->tables ? 0 : error_set(err, ERROR_MEMORY, "no memory for rows of tables");
}

void rows_release(struct rows *rows)
{
    for (int t = 0; rows->tables && t < rows->table_count; t++) {
        memory_free(rows->tables[t].rows);
        memory_free(rows->tables[t].values);
    }
    memory_free(rows->tables);
    *rows = (struct rows){0};
}

static int make_room(struct sparse_rows *list, int param, int64_t count, int64_t dim,
                     struct error *err)
{
    list->param = param;
    list->count = 0;
    if (list->limit >= count && list->dim == dim)
        return 0;
    int64_t limit = list->limit * 2 > count ? list->limit * 2 : count;
    int64_t *rows = memory_resize(list->rows, (size_t)limit * sizeof *rows);
    if (rows)
        list->rows = rows;
    float *values = memory_resize(list->values, (size_t)(limit * dim) * sizeof *values);
    if (values)
        list->values = values;
    if (!rows || !values)
        return error_set(err, ERROR_MEMORY, "no memory for %lld rows of a table", (long long)limit);
    list->limit = limit;
    list->dim = dim;
    return 0;
}

int rows_describe(struct rows *rows, int table, int param, int64_t dim, struct error *err)
{
    return make_room(&rows->tables[table], param, 1, dim, err);
}

static void append(struct sparse_rows *to, const struct sparse_rows *from, int64_t at)
{
    to->rows[to->count] = from->rows[at];
    memcpy(to->values + to->count * to->dim, from->values + at * from->dim,
           (size_t)from->dim * sizeof(float));
    to->count++;
}

int rows_copy(struct rows *to, const struct sparse_rows *from, struct error *err)
{
    for (int t = 0; t < to->table_count; t++) {
        struct sparse_rows *list = &to->tables[t];
        if (make_room(list, from[t].param, from[t].count, from[t].dim, err) < 0)
            return -1;
        memcpy(list->rows, from[t].rows, (size_t)from[t].count * sizeof *list->rows);
        memcpy(list->values, from[t].values,
               (size_t)(from[t].count * from[t].dim) * sizeof *list->values);
        list->count = from[t].count;
    }
    return 0;
}

static void merge(struct sparse_rows *to, const struct sparse_rows *lower,
                  const struct sparse_rows *upper)
{
    int64_t l = 0, u = 0;
    while (l < lower->count || u < upper->count) {
        bool from_lower =
            u == upper->count || (l < lower->count && lower->rows[l] <= upper->rows[u]);
        bool both = l < lower->count && u < upper->count && lower->rows[l] == upper->rows[u];
        append(to, from_lower ? lower : upper, from_lower ? l : u);
        if (both) {
            float *sum = to->values + (to->count - 1) * to->dim;
            const float *added = upper->values + u * upper->dim;
            for (int64_t i = 0; i < to->dim; i++)
                sum[i] += added[i];
        }
        l += from_lower;
        u += !from_lower || both;
    }
}

int rows_add(struct rows *to, const struct rows *from, struct rows *spare, struct error *err)
{
    for (int t = 0; t < to->table_count; t++) {
        const struct sparse_rows *lower = &to->tables[t], *upper = &from->tables[t];
        if (make_room(&spare->tables[t], lower->param, lower->count + upper->count, lower->dim,
                      err) < 0)
            return -1;
        merge(&spare->tables[t], lower, upper);
    }
    struct rows sum = *spare;
    *spare = *to;
    *to = sum;
    return 0;
}

/* --- between ranks ---------------------------------------------------------------------------- */

/* Before each list; the rows and the values follow. */
struct packed {
    int64_t param, count, dim;
};

size_t rows_packed_bytes(const struct rows *rows)
{
    size_t bytes = 0;
    for (int t = 0; t < rows->table_count; t++) {
        const struct sparse_rows *list = &rows->tables[t];
        bytes += sizeof(struct packed) + (size_t)list->count * sizeof *list->rows +
                 (size_t)(list->count * list->dim) * sizeof *list->values;
    }
    return bytes;
}

void rows_pack(const struct rows *rows, void *out)
{
    char *at = out;
    for (int t = 0; t < rows->table_count; t++) {
        const struct sparse_rows *list = &rows->tables[t];
        struct packed head = {list->param, list->count, list->dim};
        size_t ids = (size_t)list->count * sizeof *list->rows;
        size_t values = (size_t)(list->count * list->dim) * sizeof *list->values;
        memcpy(at, &head, sizeof head);
        memcpy(at + sizeof head, list->rows, ids);
        memcpy(at + sizeof head + ids, list->values, values);
        at += sizeof head + ids + values;
    }
}

size_t rows_unpack(struct rows *to, const void *packed, size_t bytes, struct error *err)
{
    const char *at = packed, *end = at + bytes;
    for (int t = 0; t < to->table_count; t++) {
        struct packed head;
        struct sparse_rows *list = &to->tables[t];
        if ((size_t)(end - at) < sizeof head)
            return 0;
        memcpy(&head, at, sizeof head);
        at += sizeof head;
        size_t ids = (size_t)head.count * sizeof *list->rows;
        size_t values = (size_t)(head.count * head.dim) * sizeof *list->values;
        if ((size_t)(end - at) < ids + values ||
            make_room(list, (int)head.param, head.count, head.dim, err) < 0)
            return 0;
        memcpy(list->rows, at, ids);
        memcpy(list->values, at + ids, values);
        list->count = head.count;
        at += ids + values;
    }
    return (size_t)(at - (const char *)packed);
}
