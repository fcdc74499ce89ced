#include "train/rows.h"

#include "base/error.h"
#include "support/test.h"

static struct rows make(int64_t count, const int64_t *ids, const float *values)
{
    struct rows rows;
    struct error err = {0};
    struct sparse_rows list = {.param = 3,
                               .dim = 2,
                               .limit = count,
                               .count = count,
                               .rows = (int64_t *)ids,
                               .values = (float *)values};
    ASSERT_OK(rows_create(&rows, 1, &err), err);
    ASSERT_OK(rows_copy(&rows, &list, &err), err);
    return rows;
}

TEST(rows, are_merged_in_ascending_order_and_added_where_both_have_them)
{
    struct error err = {0};
    struct rows lower = make(3, (int64_t[]){1, 4, 9}, (float[]){1, 2, 3, 4, 5, 6});
    struct rows upper = make(3, (int64_t[]){0, 4, 10}, (float[]){10, 20, 30, 40, 50, 60});
    struct rows spare;
    ASSERT_OK(rows_create(&spare, 1, &err), err);
    ASSERT_OK(rows_add(&lower, &upper, &spare, &err), err);
    const struct sparse_rows *sum = &lower.tables[0];
    ASSERT_INT(sum->count, ==, 5);
    ASSERT_BYTES(sum->rows, ((int64_t[]){0, 1, 4, 9, 10}), 5 * sizeof(int64_t));
    ASSERT_BYTES(sum->values, ((float[]){10, 20, 1, 2, 33, 44, 5, 6, 50, 60}), 10 * sizeof(float));
    ASSERT_INT(sum->param, ==, 3);
    rows_release(&lower);
    rows_release(&upper);
    rows_release(&spare);
}

TEST(rows, come_back_from_their_bytes_and_cut_ones_are_refused)
{
    struct error err = {0};
    struct rows rows = make(2, (int64_t[]){7, 8}, (float[]){1, 2, 3, 4}), again;
    char bytes[256];
    size_t size = rows_packed_bytes(&rows);
    ASSERT_INT(size, <=, sizeof bytes);
    rows_pack(&rows, bytes);
    ASSERT_OK(rows_create(&again, 1, &err), err);
    ASSERT_INT(rows_unpack(&again, bytes, size, &err), ==, size);
    ASSERT_BYTES(again.tables[0].rows, rows.tables[0].rows, 2 * sizeof(int64_t));
    ASSERT_BYTES(again.tables[0].values, rows.tables[0].values, 4 * sizeof(float));
    for (size_t cut = 0; cut < size; cut++)
        ASSERT_INT(rows_unpack(&again, bytes, cut, &err), ==, 0);
    rows_release(&rows);
    rows_release(&again);
}

TEST(rows, of_a_rank_that_never_got_any_add_nothing)
{
    struct error err = {0};
    struct rows upper = make(1, (int64_t[]){4}, (float[]){1, 2}), lower, own, spare;
    char bytes[64];
    ASSERT_OK(rows_create(&own, 1, &err), err);
    ASSERT_OK(rows_describe(&own, 0, 3, 2, &err), err);
    size_t size = rows_packed_bytes(&own);
    ASSERT_INT(size, <=, sizeof bytes);
    rows_pack(&own, bytes);
    ASSERT_OK(rows_create(&lower, 1, &err), err);
    ASSERT_INT(rows_unpack(&lower, bytes, size, &err), ==, size);
    ASSERT_OK(rows_create(&spare, 1, &err), err);
    ASSERT_OK(rows_add(&lower, &upper, &spare, &err), err);
    ASSERT_INT(lower.tables[0].count, ==, 1);
    ASSERT_INT(lower.tables[0].dim, ==, 2);
    ASSERT_BYTES(lower.tables[0].values, ((float[]){1, 2}), 2 * sizeof(float));
    rows_release(&own);
    rows_release(&lower);
    rows_release(&upper);
    rows_release(&spare);
}
