/* FarmHash's Fingerprint64 against what TensorFlow gave. tests/interop/check_fingerprint.py compares
 * 100,000 random strings. */
#include "base/files.h"
#include "base/memory.h"
#include "data/fingerprint.h"
#include "support/test.h"

static uint64_t of_text(const char *text)
{
    return fingerprint64(text, strlen(text));
}

TEST(fingerprint, of_nothing_is_named)
{
    ASSERT_TRUE(of_text("") == FINGERPRINT_MISSING);
    ASSERT_TRUE(of_text(" ") != FINGERPRINT_MISSING);
}

TEST(fingerprint, of_eight_bytes_is_the_same_as_a_word)
{
    char text[8];
    for (int i = 0; i < 1000; i++) {
        uint64_t word = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(text, &word, 8);
        ASSERT_TRUE(fingerprint64(text, 8) == fingerprint64_of_word(word));
    }
}

/* On both sides of the algorithm's borders; the numbers are TensorFlow's. */
TEST(fingerprint, equals_tensorflows_at_every_border_of_length)
{
    static const struct {
        size_t length;
        uint64_t bucket;
    } cases[] = {
        {0, 1936946117179621569},   {1, 3152378937766532445},   {3, 1502982227347875767},
        {4, 1798552924835907018},   {7, 3373097716403973549},   {8, 4605104588124634527},
        {16, 1222213231333545735},  {17, 3619397897733017075},  {32, 913620380634127036},
        {33, 3233698670931835711},  {64, 209459948350566677},   {65, 3971950027119551245},
        {127, 3703048721324470064}, {128, 3251389559212585058}, {129, 3237214005689642997},
        {256, 528665750892608022},  {300, 2484150066634973689},
    };
    uint8_t bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (uint8_t)(i * 7 + 33);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ASSERT_INT(fingerprint64(bytes, cases[i].length) % ((UINT64_C(1) << 62) - 57), ==,
                   cases[i].bucket);
}

TEST(fingerprint, equals_tensorflows_buckets)
{
    char *text;
    size_t bytes;
    struct error err = {0};
    ASSERT_OK(file_read(test_data("tf-made/hash_bucket_fast.tsv"), 1 << 20, &text, &bytes, &err),
              err);
    int lines = 0;
    for (char *line = strchr(text, '\n') + 1; *line; lines++) {
        char *tab = strchr(line, '\t'), *end;
        uint64_t fingerprint = fingerprint64(line, (size_t)(tab - line));
        ASSERT_INT(fingerprint % 1000, ==, strtoll(tab + 1, &end, 10));
        ASSERT_INT(fingerprint % 10000, ==, strtoll(end + 1, &end, 10));
        line = end + strspn(end, "\r\n");
    }
    memory_free(text);
    ASSERT_INT(lines, ==, 9);
}
