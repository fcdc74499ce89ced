/* Tables: column files, Criteo, and texts as odd as people's files are. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "data/table.h"
#include "support/test.h"

enum { NUMBERS = 13, CATEGORIES = 26, FIELDS = 40 };

struct example {
    float numeric[NUMBERS];
    int64_t category[CATEGORIES];
    float label;
};

static const struct dataset_kind *kind_of(const char *name)
{
    const struct dataset_kind *kind;
    const char *path;
    struct error err = {0};
    ASSERT_OK(dataset_find(name, &kind, &path, &err), err);
    return kind;
}

static struct dataset *open_split(const char *kind, const char *path, enum dataset_split split,
                                  bool cache)
{
    struct dataset_request request = {.path = path, .split = split, .cache = cache};
    struct dataset *dataset;
    struct error err = {0};
    ASSERT_OK(kind_of(kind)->open(&request, &dataset, &err), err);
    return dataset;
}

static void read_criteo(struct dataset *dataset, int64_t index, struct example *out)
{
    struct tensor batch[3] = {
        {.data = out->numeric}, {.data = out->category}, {.data = &out->label}};
    struct error err = {0};
    ASSERT_OK(table_read(dataset, index, 0, batch, 0, &err), err);
}

/* The straightforward way: one field after the other. Returns the line behind. */
static const char *read_simply(const char *line, char separator, struct example *out)
{
    char field[64];
    for (int i = 0; i < FIELDS; i++) {
        size_t length = strcspn(line, (char[]){separator, '\r', '\n', '\0'});
        snprintf(field, sizeof field, "%.*s", (int)length, line);
        line += length + 1;
        const char *category = length ? field : " ";
        if (i == 0)
            out->label = strtof(field, NULL);
        else if (i <= NUMBERS)
            out->numeric[i - 1] = strtof(field, NULL);
        else
            out->category[i - 1 - NUMBERS] = (int64_t)fingerprint64(category, strlen(category));
    }
    return line;
}

static void assert_same(const struct example *actual, const struct example *expected, int64_t row)
{
    if (memcmp(actual->numeric, expected->numeric, sizeof actual->numeric) != 0 ||
        memcmp(actual->category, expected->category, sizeof actual->category) != 0 ||
        actual->label != expected->label)
        FAIL("row %lld differs", (long long)row);
}

static char *contents(const char *path)
{
    char *text;
    size_t bytes;
    struct error err = {0};
    ASSERT_OK(file_read(path, 1 << 24, &text, &bytes, &err), err);
    return text;
}

/* Every row of a file, in a scattered order. */
static void compare_rows(struct dataset *dataset, const char *text, char separator, int64_t rows)
{
    struct example *expected = memory_allocate(sizeof *expected * (size_t)rows), actual;
    for (int64_t i = 0; i < rows; i++)
        text = read_simply(text, separator, &expected[i]);
    ASSERT_INT(*text, ==, 0);
    ASSERT_INT(table_count(dataset), ==, rows);
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = i * 7919 % rows;
        read_criteo(dataset, row, &actual);
        assert_same(&actual, &expected[row], row);
    }
    memory_free(expected);
}

TEST(criteo, equals_a_straightforward_reading)
{
    const char *path = test_data("criteo");
    struct dataset *train = open_split("criteo", path, SPLIT_TRAIN, false);
    char *text = contents(test_data("criteo/train.csv"));
    compare_rows(train, text, ',', 7200);
    memory_free(text);
    table_close(train);
    struct dataset *eval = open_split("criteo", path, SPLIT_EVALUATE, false);
    text = contents(test_data("criteo/eval.csv"));
    compare_rows(eval, text, ',', 409);
    memory_free(text);
    table_close(eval);
}

/* A directory of its own for each test. */
static const char *directory_with(const char *name, const char *train, const char *eval)
{
    const char *directory = test_path("%s", name);
    struct error err = {0};
    mkdir(directory, 0777);
    if (train)
        ASSERT_OK(file_write_atomic(test_path("%s/train.csv", name), train, strlen(train), &err),
                  err);
    if (eval)
        ASSERT_OK(file_write_atomic(test_path("%s/eval.csv", name), eval, strlen(eval), &err), err);
    return directory;
}

TEST(criteo, takes_the_tabs_of_the_contest_and_a_header)
{
    char *text = contents(test_data("criteo/kaggle_500.tsv"));
    struct dataset *tabs =
        open_split("criteo", directory_with("tabs", text, NULL), SPLIT_TRAIN, false);
    compare_rows(tabs, text, '\t', 500);
    memory_free(text);
    table_close(tabs);
    text = contents(test_data("criteo/criteo_sample_header.csv"));
    struct dataset *header =
        open_split("criteo", directory_with("header", text, NULL), SPLIT_TRAIN, false);
    compare_rows(header, strchr(text, '\n') + 1, ',', 200);
    memory_free(text);
    table_close(header);
}

TEST(criteo, has_the_range_of_both_files_and_the_mean_of_one)
{
    const char *path = test_data("criteo");
    float minimum[NUMBERS], maximum[NUMBERS];
    double sum[NUMBERS] = {0}, square_sum[NUMBERS] = {0}, rows = 0;
    for (int i = 0; i < NUMBERS; i++)
        minimum[i] = INFINITY, maximum[i] = -INFINITY;
    static const char *const files[] = {"criteo/train.csv", "criteo/eval.csv"};
    for (int file = 0; file < 2; file++) {
        char *text = contents(test_data(files[file]));
        struct example example;
        for (const char *at = text; *at;) {
            at = read_simply(at, ',', &example);
            for (int i = 0; i < NUMBERS; i++) {
                minimum[i] = fminf(minimum[i], example.numeric[i]);
                maximum[i] = fmaxf(maximum[i], example.numeric[i]);
                sum[i] += file == 0 ? example.numeric[i] : 0;
                square_sum[i] += file == 0 ? (double)example.numeric[i] * example.numeric[i] : 0;
            }
            rows += file == 0;
        }
        memory_free(text);
    }
    for (int split = 0; split < 2; split++) {
        struct dataset *dataset = open_split("criteo", path, (enum dataset_split)split, false);
        struct column_statistics found;
        struct error err = {0};
        ASSERT_OK(table_statistics(dataset, 0, &found, &err), err);
        ASSERT_BYTES(found.minimum, minimum, sizeof minimum);
        ASSERT_BYTES(found.maximum, maximum, sizeof maximum);
        for (int i = 0; i < NUMBERS; i++) {
            double middle = sum[i] / rows;
            ASSERT_NEAR(found.mean[i], middle, 1e-6, 1e-3);
            ASSERT_NEAR(found.deviation[i], sqrt(square_sum[i] / rows - middle * middle), 1e-5,
                        1e-3);
        }
        ASSERT_FAILS(table_statistics(dataset, 1, &found, &err), err, ERROR_USAGE, "field 1");
        table_close(dataset);
    }
}

static uint64_t hash_of_epoch(struct dataset *dataset, int threads)
{
    struct loader_options options = {
        .batch = 48, .shards = 1, .threads = threads, .seed = 3, .shuffle = true};
    struct loader *loader;
    struct error err = {0};
    ASSERT_OK(loader_create(dataset, kind_of("criteo"), &options, &loader, &err), err);
    uint64_t hash = 0;
    for (int64_t i = 0; i < loader_steps_per_epoch(loader); i++) {
        const struct batch *batch;
        ASSERT_OK(loader_next(loader, &batch, &err), err);
        for (int field = 0; field < batch->field_count; field++)
            hash = hash * 31 +
                   fingerprint64(batch->fields[field].data, tensor_bytes(&batch->fields[field]));
    }
    loader_destroy(loader);
    return hash;
}

TEST(criteo, gives_the_same_batches_for_any_number_of_threads_and_from_the_cache)
{
    char *text = contents(test_data("criteo/train.csv"));
    const char *path = directory_with("cached", text, NULL);
    memory_free(text);
    struct dataset *plain = open_split("criteo", path, SPLIT_TRAIN, false);
    uint64_t expected = hash_of_epoch(plain, 0);
    ASSERT_TRUE(hash_of_epoch(plain, 1) == expected);
    ASSERT_TRUE(hash_of_epoch(plain, 3) == expected);
    struct column_statistics read, cached_ones;
    struct error err = {0};
    ASSERT_OK(table_statistics(plain, 0, &read, &err), err);
    for (int run = 0; run < 2; run++) { /* written, then found */
        struct dataset *cached = open_split("criteo", path, SPLIT_TRAIN, true);
        ASSERT_INT(access(test_path("cached/.train.csv.rows"), F_OK), ==, 0);
        ASSERT_TRUE(hash_of_epoch(cached, 2) == expected);
        ASSERT_OK(table_statistics(cached, 0, &cached_ones, &err), err);
        ASSERT_BYTES(cached_ones.minimum, read.minimum, sizeof(float) * NUMBERS);
        ASSERT_BYTES(cached_ones.maximum, read.maximum, sizeof(float) * NUMBERS);
        ASSERT_BYTES(cached_ones.mean, read.mean, sizeof(float) * NUMBERS);
        ASSERT_BYTES(cached_ones.deviation, read.deviation, sizeof(float) * NUMBERS);
        table_close(cached);
    }
    table_close(plain);
}

static const char LINE[] = "1,1,2,3,4,5,6,7,8,9,10,11,12,13,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,"
                           "t,u,v,w,x,y,z\n";
static const char OTHER[] = "0,-1,2.5,,4,5,6,7,8,9,10,11,12,16777219,,b,c,d,e,f,g,h,i,j,k,l,m,n,o,"
                            "p,q,r,s,t,u,v,w,x,y,12345678\n";

TEST(criteo, forgets_a_cache_when_the_text_changed_and_one_that_was_cut)
{
    char text[1000];
    struct example example;
    struct error err = {0};
    snprintf(text, sizeof text, "%s%s", LINE, OTHER);
    const char *path = directory_with("changed", text, NULL);
    table_close(open_split("criteo", path, SPLIT_TRAIN, true));
    snprintf(text, sizeof text, "%s%s%s", OTHER, LINE, LINE);
    directory_with("changed", text, NULL);
    struct dataset *dataset = open_split("criteo", path, SPLIT_TRAIN, true);
    ASSERT_INT(table_count(dataset), ==, 3);
    read_criteo(dataset, 0, &example);
    ASSERT_NUMBER(example.numeric[1], ==, 2.5);
    table_close(dataset);
    const char *cache = test_path("changed/.train.csv.rows");
    ASSERT_INT(truncate(cache, 300), ==, 0);
    dataset = open_split("criteo", path, SPLIT_TRAIN, true);
    ASSERT_INT(table_count(dataset), ==, 3);
    table_close(dataset);
    ASSERT_OK(file_write_atomic(cache, "no rows", 7, &err), err);
    dataset = open_split("criteo", path, SPLIT_TRAIN, true);
    read_criteo(dataset, 1, &example);
    ASSERT_NUMBER(example.numeric[1], ==, 2);
    table_close(dataset);
}

TEST(criteo, reads_empty_fields_as_the_defaults_of_the_original)
{
    struct example example;
    struct dataset *dataset =
        open_split("criteo", directory_with("defaults", OTHER, NULL), SPLIT_TRAIN, false);
    read_criteo(dataset, 0, &example);
    ASSERT_NUMBER(example.numeric[0], ==, -1);
    ASSERT_NUMBER(example.numeric[2], ==, 0);
    ASSERT_NUMBER(example.numeric[12], ==, 16777220);
    ASSERT_TRUE((uint64_t)example.category[0] == fingerprint64(" ", 1));
    ASSERT_TRUE((uint64_t)example.category[25] == fingerprint64("12345678", 8));
    table_close(dataset);
}

static struct error refusal(const char *kind, const char *path, enum dataset_split split)
{
    struct dataset_request request = {.path = path, .split = split};
    struct dataset *dataset;
    struct error err = {0};
    if (kind_of(kind)->open(&request, &dataset, &err) == 0)
        FAIL("%s should have been refused", path);
    return err;
}

TEST(criteo, says_where_a_bad_row_is)
{
    char text[2000];
    struct error err;
    snprintf(text, sizeof text, "%s\n\n%s1,2,3\n%s", LINE, LINE, LINE);
    err = refusal("criteo", directory_with("ragged", text, NULL), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "train.csv: line 5: 3 fields separated by commas; 40 were");
    snprintf(text, sizeof text, "%s%.*s,extra\n", LINE, (int)strlen(LINE) - 1, LINE);
    err = refusal("criteo", directory_with("ragged", text, NULL), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "line 2: 41 fields");
    snprintf(text, sizeof text, "%s0,1,x%s", LINE, LINE + 5);
    err = refusal("criteo", directory_with("ragged", text, NULL), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "line 2: column I2: 'x' is not a decimal number");
    static const char *const bad[][2] = {{"nan", "not a decimal"},
                                         {"0x1F", "not a decimal"},
                                         {"1e400", "larger than a 32-bit number"},
                                         {"\"1", "no closing quote"}};
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%s0,1,%s%s", LINE, bad[i][0], LINE + 5);
        err = refusal("criteo", directory_with("ragged", text, NULL), SPLIT_TRAIN);
        ASSERT_CONTAINS(err.message, "line 2: ");
        ASSERT_CONTAINS(err.message, bad[i][1]);
    }
    snprintf(text, sizeof text, "%s2%s", LINE, LINE + 1);
    err = refusal("criteo", directory_with("ragged", text, NULL), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "line 2: column clicked: 2 is neither 0 nor 1");
}

TEST(criteo, refuses_files_without_rows)
{
    static const char header[] = "label,I1,I2,I3,I4,I5,I6,I7,I8,I9,I10,I11,I12,I13,C,C,C,C,C,C,C,C,"
                                 "C,C,C,C,C,C,C,C,C,C,C,C,C,C,C,C,C,C\n";
    ASSERT_CONTAINS(refusal("criteo", directory_with("none", "", NULL), SPLIT_TRAIN).message,
                    "train.csv: is empty");
    ASSERT_CONTAINS(refusal("criteo", directory_with("none", "\n\r\n", NULL), SPLIT_TRAIN).message,
                    "has no rows");
    ASSERT_CONTAINS(refusal("criteo", directory_with("none", header, NULL), SPLIT_TRAIN).message,
                    "a header but no rows");
    ASSERT_CONTAINS(refusal("criteo", directory_with("none", LINE, NULL), SPLIT_EVALUATE).message,
                    "holds no eval.csv");
    ASSERT_CONTAINS(refusal("criteo", test_path("nowhere"), SPLIT_TRAIN).message, "nowhere");
}

/* A file of several pieces, so that rows lie across their borders, with lengths from one to
 * thousands of characters and empty lines between: every way to note a row's place. */
TEST(table, finds_every_row_of_a_long_file)
{
    enum { ROWS = 60000 };
    const char *directory = directory_with("long", NULL, NULL);
    static const char columns[] = "file train rows.csv\nlabel l\ncolumn n numeric\ncolumn c "
                                  "categorical\n";
    struct error err = {0};
    ASSERT_OK(file_write_atomic(test_path("long/columns.txt"), columns, strlen(columns), &err),
              err);
    FILE *file = fopen(test_path("long/rows.csv"), "w");
    ASSERT_TRUE(file != NULL);
    size_t bytes = 0;
    for (int i = 0; i < ROWS; i++) {
        int width = i % 1000 < 500 ? i % 7 : i % 1000 < 990 ? i % 300 : i % 9000;
        int written = fprintf(file, "%d,%d,%0*d%s", i % 2, i, width, i % 10,
                              i % 11 == 0   ? "\r\n"
                              : i % 13 == 0 ? "\n\n\r\n"
                                            : "\n");
        ASSERT_INT(written, >, 0);
        bytes += (size_t)written;
    }
    ASSERT_INT(fclose(file), ==, 0);
    ASSERT_INT(bytes, >, 5 << 20);
    struct dataset *dataset = open_split("table", directory, SPLIT_TRAIN, false);
    ASSERT_INT(table_count(dataset), ==, ROWS);
    for (int i = 0; i < ROWS; i++) {
        float number, label;
        int64_t category;
        struct tensor batch[3] = {{.data = &number}, {.data = &category}, {.data = &label}};
        int64_t row = (int64_t)i * 7919 % ROWS;
        ASSERT_OK(table_read(dataset, row, 0, batch, 0, &err), err);
        ASSERT_NUMBER(number, ==, (double)row);
        ASSERT_NUMBER(label, ==, (double)(row % 2));
    }
    table_close(dataset);
}

static int describe(const char *text, struct table_description *out, struct error *err)
{
    return table_describe_text("t.columns", "/data", text, strlen(text), out, err);
}

TEST(columns, are_described_by_a_file)
{
    struct table_description out;
    struct error err = {0};
    ASSERT_OK(describe("# census\n\nfile train a.csv.gz\r\nfile eval /b/c.csv skip 1 # remark\n"
                       "column age numeric\ncolumn \"capital gain\" numeric log\n"
                       "column job categorical\ncolumn town categorical 500\ncolumn x ignore\n"
                       "label income >50K >50K.",
                       &out, &err),
              err);
    ASSERT_TEXT(out.files[0], "/data/a.csv.gz");
    ASSERT_TEXT(out.files[1], "/b/c.csv");
    ASSERT_INT(out.skip_lines[0], ==, 0);
    ASSERT_INT(out.skip_lines[1], ==, 1);
    ASSERT_INT(out.column_count, ==, 6);
    ASSERT_INT(out.numeric_count, ==, 2);
    ASSERT_INT(out.categorical_count, ==, 2);
    ASSERT_TEXT(out.columns[1].name, "capital gain");
    ASSERT_TRUE(out.columns[1].logarithm && !out.columns[0].logarithm);
    ASSERT_INT(out.columns[2].buckets, ==, TABLE_DEFAULT_BUCKETS);
    ASSERT_INT(out.columns[3].buckets, ==, 500);
    ASSERT_INT(out.columns[5].kind, ==, TABLE_LABEL);
    ASSERT_INT(out.label_value_count, ==, 2);
    ASSERT_TEXT(out.label_values[1], ">50K.");
    table_description_release(&out);
}

TEST(columns, that_are_wrong_are_refused_with_their_line)
{
    static const char *const cases[][2] = {
        {"colum a numeric", "t.columns: line 1: 'colum' where file, column or label was expected; "
                            "did you mean 'column'?"},
        {"\ncolumn a numerc", "line 2: 'numerc' where numeric, categorical or ignore was expected; "
                              "did you mean 'numeric'?"},
        {"column a", "expected: column NAME"},
        {"column a numeric lgo", "'lgo' where log"},
        {"column a categorical 0", "'0' buckets; a whole number from 1"},
        {"column a categorical many", "'many' buckets"},
        {"column a ignore now", "'now' is one word too many"},
        {"column a numeric log x", "'x' is one word too many"},
        {"column a numeric\ncolumn a ignore", "line 2: a second column called 'a'"},
        {"file test a", "'test' where train or eval"},
        {"file train", "expected: file"},
        {"file train a\nfile train b", "line 2: a second 'train' file"},
        {"file train a skip -1", "'-1' lines to skip"},
        {"label", "expected: label"},
        {"label a\nlabel b", "a second label; the first is 'a'"},
        {"column \"a numeric", "a quoted word"},
        {"column \"\" numeric", "no name"},
        {"", "names no file"},
        {"file train a\ncolumn a numeric", "names no label"},
        {"file train a\nlabel b", "no numeric or categorical column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table_description out;
        struct error err = {0};
        ASSERT_FAILS(describe(cases[i][0], &out, &err), err, ERROR_FORMAT, cases[i][1]);
    }
}

static const char *table_with(const char *name, const char *columns, const char *rows)
{
    directory_with(name, rows, NULL);
    struct error err = {0};
    const char *path = test_path("%s/my.columns", name);
    ASSERT_OK(file_write_atomic(path, columns, strlen(columns), &err), err);
    return path;
}

static const char COLUMNS[] = "file train train.csv\ncolumn age numeric\ncolumn gain numeric log\n"
                              "column job categorical 10\nlabel rich yes\n";

static void read_table(struct dataset *dataset, int64_t row, float numeric[2], int64_t *category,
                       float *label)
{
    struct tensor batch[3] = {{.data = numeric}, {.data = category}, {.data = label}};
    struct error err = {0};
    ASSERT_OK(table_read(dataset, row, 0, batch, 0, &err), err);
}

TEST(table, reads_any_text_as_its_columns_say)
{
    struct dataset *dataset =
        open_split("table",
                   table_with("any", COLUMNS,
                              "age, gain, job, rich\r\n 39, 0, Sales , yes\r\n , -7, , no\r\n"
                              "1e1, 3, \"a, \"\"b\"\"\", yes"),
                   SPLIT_TRAIN, false);
    float numeric[2], label;
    int64_t category;
    ASSERT_INT(table_count(dataset), ==, 3);
    read_table(dataset, 0, numeric, &category, &label);
    ASSERT_NUMBER(numeric[0], ==, 39);
    ASSERT_NUMBER(numeric[1], ==, 0);
    ASSERT_TRUE((uint64_t)category == fingerprint64("Sales", 5));
    ASSERT_NUMBER(label, ==, 1);
    read_table(dataset, 1, numeric, &category, &label);
    ASSERT_NUMBER(numeric[0], ==, 0);
    ASSERT_NEAR(numeric[1], -log(8), 1e-6, 1);
    ASSERT_TRUE((uint64_t)category == FINGERPRINT_MISSING);
    ASSERT_NUMBER(label, ==, 0);
    read_table(dataset, 2, numeric, &category, &label);
    ASSERT_NUMBER(numeric[0], ==, 10);
    ASSERT_TRUE((uint64_t)category == fingerprint64("a, \"b\"", 6));
    struct column_statistics columns;
    struct error err = {0};
    ASSERT_OK(table_statistics(dataset, 0, &columns, &err), err);
    const float *low = columns.minimum, *high = columns.maximum;
    ASSERT_NUMBER(high[0], ==, 39);
    ASSERT_NEAR(low[1], -log(8), 1e-6, 1);
    table_close(dataset);
}

TEST(table, refuses_what_the_columns_do_not_explain)
{
    struct error err;
    err = refusal("table", table_with("odd", COLUMNS, "age,profit,job,rich\n1,2,a,yes\n"),
                  SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "the header calls column 2 'profit', the column file 'gain'");
    err = refusal("table", table_with("odd", COLUMNS, "1,2,a,Yes\n1,2,a,no\n"), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "none of its 2 rows has the label 'yes'");
    err = refusal("table", table_with("odd", COLUMNS, "1,2,a,yes\n1,2,a,\n"), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "line 2: column rich: the label is missing");
    static const char numbered[] = "file train train.csv\ncolumn age numeric\nlabel rich\n";
    err = refusal("table", table_with("odd", numbered, "1,0\n2,1\n3, \n"), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "line 3: column rich: the label is missing");
    err = refusal("table", table_with("odd", COLUMNS, "1,2,a,yes\n"), SPLIT_EVALUATE);
    ASSERT_CONTAINS(err.message, "names no 'eval' file");
    err = refusal("table", test_path("odd"), SPLIT_TRAIN);
    ASSERT_CONTAINS(err.message, "holds no columns.txt");
}

TEST(table, takes_nul_bytes_and_very_long_fields_as_text)
{
    enum { LONG = 1 << 20 };
    char *text = memory_allocate(LONG + 100);
    int start = snprintf(text, 100, "1,2,");
    memset(text + start, 'x', LONG);
    text[start + 5] = '\0';
    int end = snprintf(text + start + LONG, 50, ",yes\n3,4,b,no\n");
    const char *path = table_with("nul", COLUMNS, "");
    struct error err = {0};
    ASSERT_OK(
        file_write_atomic(test_path("nul/train.csv"), text, (size_t)(start + LONG + end), &err),
        err);
    struct dataset *dataset = open_split("table", path, SPLIT_TRAIN, false);
    float numeric[2], label;
    int64_t category;
    read_table(dataset, 0, numeric, &category, &label);
    ASSERT_TRUE((uint64_t)category == fingerprint64(text + start, LONG));
    read_table(dataset, 1, numeric, &category, &label);
    ASSERT_NUMBER(numeric[0], ==, 3);
    table_close(dataset);
    memory_free(text);
}

TEST(table, reads_the_adult_census_as_it_comes)
{
    char columns[2000];
    snprintf(
        columns, sizeof columns,
        "file train %s\nfile eval %s skip 1\ncolumn age numeric\ncolumn workclass categorical\n"
        "column fnlwgt ignore\ncolumn education categorical\ncolumn education_num numeric\n"
        "column marital categorical\ncolumn occupation categorical\n"
        "column relationship categorical\ncolumn race categorical\ncolumn sex categorical\n"
        "column gain numeric log\ncolumn loss numeric log\ncolumn hours numeric\n"
        "column country categorical\nlabel income >50K >50K.\n",
        test_data("adult/adult.data.gz"), test_data("adult/adult.test.gz"));
    /* Relative names are the column file's directory's. */
    if (strstr(columns, "file train /") == NULL) {
        char *train = realpath(test_data("adult/adult.data.gz"), NULL);
        char *eval = realpath(test_data("adult/adult.test.gz"), NULL);
        char rest[2000];
        snprintf(rest, sizeof rest, "%s", strstr(columns, "column age"));
        snprintf(columns, sizeof columns, "file train %s\nfile eval %s skip 1\n%s", train, eval,
                 rest);
        free(train);
        free(eval);
    }
    const char *path = table_with("adult", columns, "");
    static const int64_t rows[2] = {32561, 16281}, rich[2] = {7841, 3846};
    for (int split = 0; split < 2; split++) {
        struct dataset *dataset = open_split("table", path, (enum dataset_split)split, false);
        ASSERT_INT(table_count(dataset), ==, rows[split]);
        int64_t positive = 0;
        float numeric[5], label;
        int64_t category[8];
        for (int64_t i = 0; i < rows[split]; i++) {
            read_table(dataset, i, numeric, category, &label);
            positive += label == 1;
        }
        ASSERT_INT(positive, ==, rich[split]);
        table_close(dataset);
    }
    struct dataset *dataset = open_split("table", path, SPLIT_TRAIN, false);
    float numeric[5], label;
    int64_t category[8];
    read_table(dataset, 0, numeric, category, &label);
    ASSERT_NUMBER(numeric[0], ==, 39);
    ASSERT_NEAR(numeric[2], log1p(2174), 1e-6, 1);
    ASSERT_TRUE((uint64_t)category[0] == fingerprint64("State-gov", 9));
    struct column_statistics found;
    struct error err = {0};
    ASSERT_OK(table_statistics(dataset, 0, &found, &err), err);
    const float *low = found.minimum, *high = found.maximum;
    ASSERT_NUMBER(low[0], ==, 17);
    ASSERT_NUMBER(high[0], ==, 90);
    table_close(dataset);
}
