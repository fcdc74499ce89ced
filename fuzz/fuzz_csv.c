/* Tables as text: whatever the bytes, rows that are found again in any order, the same ones from
 * both ways of splitting, or an error that names a line. */
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/row_index.h"
#include "data/row_parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char COLUMNS[] = "file train x\ncolumn a numeric\ncolumn b categorical\ncolumn c "
                              "numeric log\ncolumn d ignore\nlabel e\n";

struct values {
    float numeric[2];
    int64_t category;
    float label;
};

static void split_both_ways(const char *text, const char *end)
{
    static struct csv_row fast, portable;
    for (const char *at = csv_row_start(text, end); at < end;) {
        csv_split(at, end, ',', 64, &fast);
        csv_split_portable(at, end, ',', 64, &portable);
        assert(fast.count == portable.count && fast.next == portable.next);
        assert(fast.end == portable.end && fast.open_quote == portable.open_quote);
        assert(fast.next > at && fast.next <= end);
        if (fast.count <= 64)
            assert(memcmp(fast.bounds, portable.bounds, sizeof(uint32_t) * (size_t)fast.count) ==
                   0);
        at = csv_row_start(fast.next, end);
    }
}

static struct values parse_at(const struct row_parser *parser, const struct row_text *text,
                              const char **at)
{
    struct values values = {0};
    struct error err = {0};
    int status =
        row_parse(parser, text, *at, values.numeric, &values.category, &values.label, at, &err);
    assert(status == 0);
    assert(isfinite(values.numeric[0]) && isfinite(values.numeric[1]));
    assert(values.label == 0 || values.label == 1);
    return values;
}

/* Rows one after the other and by their number. */
static void read_both_ways(const struct row_parser *parser, const struct row_text *text,
                           const struct row_index *index, int64_t rows)
{
    const char *at = csv_row_start(text->rows, text->end);
    for (int64_t i = 0; i < rows; i++) {
        const char *found = row_index_find(index, row_index_locate(index, i));
        assert(found == at);
        struct values values = parse_at(parser, text, &at);
        assert(values.numeric[0] >= -INFINITY);
        at = csv_row_start(at, text->end);
    }
    assert(at == text->end);
}

/* With bad rows kept: each has its place, fails when it is read, and the next one is found. */
static void read_with_bad(const struct row_parser *parser, struct row_text *text,
                          struct row_statistics *statistics)
{
    struct row_index *index;
    struct values values;
    int64_t bad = 0;
    text->keep_bad = true;
    if (row_text_look(parser, SPLIT_TRAIN, text, NULL) < 0)
        return;
    int status = row_index_create(parser, text, statistics, &index, NULL);
    assert(status == 0);
    const char *at = csv_row_start(text->rows, text->end);
    for (int64_t i = 0; i < statistics->rows; i++) {
        const char *start = at;
        assert(row_index_find(index, row_index_locate(index, i)) == at);
        bad += row_parse(parser, text, at, values.numeric, &values.category, &values.label, &at,
                         NULL) < 0;
        assert(at > start && row_text_line(text, at) >= row_text_line(text, start));
        at = csv_row_start(at, text->end);
    }
    assert(at == text->end && bad == statistics->bad_rows);
    row_index_destroy(index);
}

static void read_table(const struct row_parser *parser, struct row_text *text)
{
    struct error err = {0};
    float minimum[3], maximum[3];
    double sum[3], square_sum[3];
    struct row_statistics statistics = {
        .minimum = minimum, .maximum = maximum, .sum = sum, .square_sum = square_sum};
    struct row_index *index;
    read_with_bad(parser, text, &statistics);
    text->keep_bad = false;
    if (row_text_look(parser, SPLIT_TRAIN, text, &err) < 0 ||
        row_index_create(parser, text, &statistics, &index, &err) < 0) {
        assert(err.code == ERROR_FORMAT && strncmp(err.message, "input: ", 7) == 0);
        return;
    }
    read_both_ways(parser, text, index, statistics.rows);
    row_index_destroy(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct table_description description;
    struct error err = {0};
    /* A copy, so that the sanitizer sees a read behind the end. */
    char *copy = memory_allocate(count + (count == 0));
    memcpy(copy, bytes, count);
    int status = table_describe_text("columns", "/", COLUMNS, strlen(COLUMNS), &description, &err);
    struct row_parser parser;
    assert(status == 0 && copy);
    description.names_matter = count % 2;
    description.trim = count % 3;
    status = row_parser_init(&description, description.arena, &parser, &err);
    assert(status == 0);
    struct row_text text = {.name = "input", .start = copy, .end = copy + count};
    split_both_ways(copy, copy + count);
    read_table(&parser, &text);
    table_description_release(&description);
    memory_free(copy);
    return 0;
}
