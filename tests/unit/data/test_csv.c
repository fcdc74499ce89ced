/* Splitting rows and reading numbers. */
#include <math.h>
#include <sys/mman.h>

#include "data/csv.h"
#include "support/test.h"

static struct csv_row row;
static struct csv_scratch scratch;

static void split(const char *text, char separator)
{
    csv_split(text, text + strlen(text), separator, CSV_MAX_FIELDS, &row);
}

static const char *field(int number, bool trim)
{
    static char copy[200];
    const char *text;
    size_t length;
    struct error err = {0};
    ASSERT_OK(csv_field(&row, number, trim, &scratch, &text, &length, &err), err);
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    return copy;
}

TEST(csv, splits_a_row)
{
    split("a,,c\nd", ',');
    ASSERT_INT(row.count, ==, 3);
    ASSERT_TEXT(field(0, false), "a");
    ASSERT_TEXT(field(1, false), "");
    ASSERT_TEXT(field(2, false), "c");
    ASSERT_INT(*row.next, ==, 'd');
}

TEST(csv, takes_windows_line_ends_and_no_line_end)
{
    split("a\tb\r\nc", '\t');
    ASSERT_INT(row.count, ==, 2);
    ASSERT_TEXT(field(1, false), "b");
    ASSERT_INT(*row.next, ==, 'c');
    split("a,b", ',');
    ASSERT_TEXT(field(1, false), "b");
    ASSERT_INT(*row.next, ==, '\0');
    split(",", ',');
    ASSERT_INT(row.count, ==, 2);
    ASSERT_TEXT(field(1, false), "");
}

TEST(csv, takes_quoted_fields)
{
    split("\"a,b\",\"say \"\"yes\"\"\", \"c\" ,d\"e,\"\"\n", ',');
    ASSERT_INT(row.count, ==, 5);
    ASSERT_TEXT(field(0, false), "a,b");
    ASSERT_TEXT(field(1, false), "say \"yes\"");
    ASSERT_TEXT(field(2, false), "c");
    ASSERT_TEXT(field(3, false), "d\"e");
    ASSERT_TEXT(field(4, false), "");
}

TEST(csv, refuses_broken_quotes)
{
    const char *text;
    size_t length;
    struct error err;
    split("a,\"b\nc", ',');
    ASSERT_TRUE(row.open_quote);
    split("\"a\"b,c", ',');
    ASSERT_FAILS(csv_field(&row, 0, false, &scratch, &text, &length, &err), err, ERROR_FORMAT,
                 "follows the closing quote");
    char wide[CSV_MAX_UNQUOTED_BYTES + 100];
    memset(wide, 'x', sizeof wide);
    wide[0] = wide[10] = wide[11] = wide[sizeof wide - 2] = '"';
    wide[sizeof wide - 1] = '\0';
    split(wide, ',');
    ASSERT_INT(row.count, ==, 1);
    ASSERT_FAILS(csv_field(&row, 0, false, &scratch, &text, &length, &err), err, ERROR_FORMAT,
                 "longer than 4096");
}

TEST(csv, trims_blanks_only_where_asked)
{
    split(" a b , c", ',');
    ASSERT_TEXT(field(0, true), "a b");
    ASSERT_TEXT(field(0, false), " a b ");
    ASSERT_TEXT(field(1, true), "c");
}

TEST(csv, counts_fields_beyond_the_capacity)
{
    const char *text = "a,b,c,d\n";
    csv_split(text, text + 8, ',', 2, &row);
    ASSERT_INT(row.count, ==, 4);
    text = "\"a\",b,c,d\n";
    csv_split(text, text + 10, ',', 2, &row);
    ASSERT_INT(row.count, ==, 4);
}

/* Byte by byte, as one would write it first. */
static int split_simply(const char *text, size_t bytes, char separator, uint32_t *bounds)
{
    int count = 0;
    size_t i = 0;
    bounds[0] = 0;
    for (; i < bytes && text[i] != '\n'; i++)
        if (text[i] == separator)
            bounds[++count] = (uint32_t)i + 1;
    if (i > 0 && text[i - 1] == '\r')
        i--;
    bounds[++count] = (uint32_t)i + 1;
    return count;
}

/* The text ends where a page ends and the next page must not be touched. */
TEST(csv, equals_a_simple_reader_and_stays_inside_the_text)
{
    enum { PAGE = 4096 };
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(pages != MAP_FAILED && mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
    static uint32_t bounds[PAGE + 2];
    uint32_t state = 1;
    for (int round = 0; round < 3000; round++) {
        int bytes = 1 + round % 300;
        char *text = pages + PAGE - bytes;
        for (int i = 0; i < bytes; i++) {
            state = state * 1664525 + 1013904223;
            text[i] = ",,,abc\r\0"[state >> 29];
            if (state >> 20 == 7)
                text[i] = '\n';
        }
        int expected = split_simply(text, (size_t)bytes, ',', bounds);
        csv_split(text, text + bytes, ',', CSV_MAX_FIELDS, &row);
        ASSERT_INT(row.count, ==, expected);
        ASSERT_BYTES(row.bounds, bounds, sizeof *bounds * (size_t)(expected + 1));
        csv_split_portable(text, text + bytes, ',', CSV_MAX_FIELDS, &row);
        ASSERT_INT(row.count, ==, expected);
        ASSERT_BYTES(row.bounds, bounds, sizeof *bounds * (size_t)(expected + 1));
    }
    munmap(pages, 2 * PAGE);
}

TEST(csv, passes_over_empty_lines)
{
    const char *text = "\n\r\na\n\n\r\nb\nc", *end = text + strlen(text);
    const char *at = csv_row_start(text, end);
    ASSERT_INT(*at, ==, 'a');
    ASSERT_INT(*csv_skip_rows(at, end, 1), ==, 'b');
    ASSERT_INT(*csv_skip_rows(at, end, 2), ==, 'c');
    ASSERT_TRUE(csv_skip_rows(at, end, 3) == end);
    ASSERT_INT(csv_count_lines(text, at), ==, 2);
}

TEST(csv, finds_the_separator)
{
    const char *tabs = "a\tb\tc,d\n,,,", *commas = "a,b\n\t\t";
    ASSERT_INT(csv_find_separator(tabs, tabs + strlen(tabs)), ==, '\t');
    ASSERT_INT(csv_find_separator(commas, commas + strlen(commas)), ==, ',');
}

static enum csv_number parse(const char *text, float *out)
{
    return csv_parse_float(text, strlen(text), out);
}

TEST(csv, reads_numbers_as_the_c_library_does)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "+7",
                                        "1.5",
                                        "-3.25e2",
                                        ".5",
                                        "5.",
                                        "16777217",
                                        "16777219",
                                        "0.1",
                                        "3.4028235e38",
                                        "1e-45",
                                        "1e-400",
                                        "123456789",
                                        "0.000000001",
                                        "33554435.0",
                                        "8388608.5",
                                        "1.17549435e-38",
                                        "9007199254740993",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "  12  ",
                                        "100000000000000000000000000000",
                                        "0.30000001192092896",
                                        "1e10",
                                        "1e11",
                                        "16777216e10",
                                        "7.0385307e-26",
                                        "1.00000017881393432617187499",
                                        "1.000000178813934326171875001"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float value, expected = strtof(texts[i], NULL);
        ASSERT_INT(parse(texts[i], &value), ==, CSV_NUMBER);
        if (memcmp(&value, &expected, sizeof value) != 0)
            FAIL("%s: %.9g against %.9g", texts[i], (double)value, (double)expected);
    }
}

TEST(csv, reads_random_numbers_as_the_c_library_does)
{
    uint64_t state = 7;
    for (int i = 0; i < 200000; i++) {
        char text[64];
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        int digits = (int)(state >> 60) + 1;
        uint64_t number = state >> 8 & ((UINT64_C(1) << (3 * digits)) - 1);
        int exponent = (int)(state >> 20 & 63) - 40;
        if (i % 3 == 0)
            snprintf(text, sizeof text, "%llu.%llue%d", (unsigned long long)(number >> 9),
                     (unsigned long long)number, exponent);
        else
            snprintf(text, sizeof text, "-%llue%d", (unsigned long long)number, exponent);
        float value, expected = strtof(text, NULL);
        enum csv_number what = parse(text, &value);
        ASSERT_INT(what, ==, isinf(expected) ? CSV_NUMBER_TOO_LARGE : CSV_NUMBER);
        if (what == CSV_NUMBER && memcmp(&value, &expected, sizeof value) != 0)
            FAIL("%s: %.9g against %.9g", text, (double)value, (double)expected);
    }
}

TEST(csv, refuses_what_is_no_decimal_number)
{
    static const char *const texts[] = {"",    "-",   "nan",   "inf",  "0x10", "1e",
                                        "1e+", "e5",  "1.2.3", "1 2",  "--1",  ".",
                                        "1f",  "abc", "1,5",   "1e5.5"};
    float value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (parse(texts[i], &value) != CSV_NOT_A_NUMBER)
            FAIL("'%s' was taken as a number", texts[i]);
    ASSERT_INT(parse("1e400", &value), ==, CSV_NUMBER_TOO_LARGE);
    ASSERT_INT(parse("-3.5e38", &value), ==, CSV_NUMBER_TOO_LARGE);
}
