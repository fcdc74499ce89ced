/* `data verify` and `data inspect` on damaged data: what is named, with how much memory, and how
 * fast it ends when it is told to. */
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/survey.h"
#include "data/work.h"
#include "support/test.h"
#include "tensor/random.h"
#include "wire/crc32c.h"
#include "wire/gzip.h"
#include "wire/proto.h"
#include "wire/tfrecord.h"

enum { FRAME_BYTES = TFRECORD_HEADER_BYTES + TFRECORD_FOOTER_BYTES };

static void add_header(struct strbuf *out, uint64_t length)
{
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i));
    strbuf_add_bytes(out, bytes, 8);
    proto_put_fixed32(out, crc32c_mask(crc32c(0, bytes, 8)));
}

static void add_record(struct strbuf *out, const void *data, size_t count)
{
    add_header(out, count);
    strbuf_add_bytes(out, data, count);
    proto_put_fixed32(out, crc32c_mask(crc32c(0, data, count)));
}

/* None of them is a picture: each that is whole becomes a problem, too. */
static void add_records(struct strbuf *out, int count, int most_bytes, struct random *random)
{
    char *data = memory_allocate((size_t)most_bytes);
    for (int i = 0; i < most_bytes; i++)
        data[i] = (char)random_below(random, 3);
    for (int i = 0; i < count; i++)
        add_record(out, data, random_below(random, (uint32_t)most_bytes));
    memory_free(data);
}

/* "DIRECTORY/NAME/FILE" into `text`, which it returns. */
static const char *place(const char *name, const char *file, char text[600])
{
    snprintf(text, 600, "%s/%s%s", test_directory(), name, file);
    return text;
}

static void write_shard(const char *name, const void *bytes, size_t count)
{
    struct error err = {0};
    char path[600];
    ASSERT_OK(directory_make(place(name, "", path), &err), err);
    ASSERT_OK(file_write_atomic(place(name, "/train-00000-of-00001", path), bytes, count, &err),
              err);
}

static struct survey *look(const char *name)
{
    struct survey *survey = NULL;
    struct error err = {0};
    char spec[700], path[600];
    snprintf(spec, sizeof spec, "imagenet:%s", place(name, "", path));
    struct survey_options options = {.spec = spec, .decode = true};
    ASSERT_OK(survey_run(&options, &(struct work){.threads = 2}, &survey, &err), err);
    return survey;
}

/* The next header behind a damaged record, with the whole file at hand. */
static uint64_t find_next(const uint8_t *bytes, uint64_t count, uint64_t damaged)
{
    for (uint64_t at = damaged; at + FRAME_BYTES <= count; at++) {
        uint64_t length;
        if (tfrecord_length("", at, bytes + at, &length, NULL) == 0 &&
            length <= count - at - FRAME_BYTES)
            return at > damaged ? at : at + length + FRAME_BYTES;
    }
    return count;
}

/* What is found piece by piece is what is found with all of it in memory. */
static void check_against_whole(const struct strbuf *file, const char *kind)
{
    struct survey *survey = look(kind);
    char path[600];
    place(kind, "/train-00000-of-00001", path);
    const uint8_t *bytes = (const uint8_t *)file->text;
    int64_t found = 0;
    for (uint64_t at = 0; at < file->length; found++) {
        struct tfrecord record;
        struct error err = {0};
        uint64_t start = at;
        int more = tfrecord_next(path, bytes, file->length, &at, &record, &err);
        if (found >= survey->problem_count)
            FAIL("%s: the record at %" PRIu64 " is not named", kind, start);
        ASSERT_INT(survey->problems[found].offset, ==, start);
        if (more < 0) {
            ASSERT_TEXT(survey->problems[found].message, err.message);
            at = find_next(bytes, file->length, start);
        }
    }
    ASSERT_INT(survey->problem_count, ==, found);
    survey_destroy(survey);
}

static void damage(struct strbuf *file, struct random *random)
{
    int flips = (int)random_below(random, 12);
    for (int i = 0; i < flips; i++)
        file->text[random_below(random, (uint32_t)file->length)] ^= 1;
    uint64_t offset = 0; /* and lengths, which few bytes are */
    while (offset + FRAME_BYTES <= file->length) {
        uint64_t length;
        memcpy(&length, file->text + offset, sizeof length);
        if (random_below(random, 9) == 0)
            file->text[offset + random_below(random, TFRECORD_HEADER_BYTES)] ^= 4;
        if (length > file->length)
            break;
        offset += length + FRAME_BYTES;
    }
    if (random_below(random, 2))
        file->length -= random_below(random, (uint32_t)file->length / 2);
}

static void check_damage(uint64_t seed, int records, int most_bytes, uint64_t claimed)
{
    struct random random = {.key = random_key_text(seed, "survey")};
    struct strbuf file;
    struct error err = {0};
    char *packed;
    size_t packed_bytes;
    strbuf_init(&file);
    add_records(&file, records, most_bytes, &random);
    if (claimed) /* a header whose sum fits and whose record cannot be there */
        add_header(&file, claimed);
    add_records(&file, records, most_bytes, &random);
    damage(&file, &random);
    write_shard("plain", file.text, file.length);
    check_against_whole(&file, "plain");
    ASSERT_OK(gzip_pack(file.text, file.length, &packed, &packed_bytes, &err), err);
    write_shard("packed", packed, packed_bytes);
    check_against_whole(&file, "packed");
    memory_free(packed);
    strbuf_release(&file);
}

TEST(survey, names_the_same_records_piece_by_piece_as_in_memory)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        check_damage(seed, 6, 500000,
                     seed % 3 == 1   ? UINT64_C(1) << 40
                     : seed % 3 == 2 ? 90000000
                                     : 0);
    for (uint64_t seed = 20; seed < 32; seed++)
        check_damage(seed, 20, 60, seed % 2 ? UINT64_C(1) << 50 : 0);
}

TEST(survey, names_what_is_in_front_of_damaged_packing)
{
    struct random random = {.key = 5};
    struct strbuf file;
    struct error err = {0};
    char *packed;
    size_t packed_bytes;
    strbuf_init(&file);
    add_records(&file, 8, 1000000, &random);
    ASSERT_OK(gzip_pack(file.text, file.length, &packed, &packed_bytes, &err), err);
    write_shard("torn", packed, packed_bytes * 2 / 3);
    struct survey *survey = look("torn");
    ASSERT_INT(survey->problem_count, >=, 3);
    int packing = 0, records = 0;
    for (int64_t i = 0; i < survey->problem_count; i++) {
        packing += strstr(survey->problems[i].message, "the packed data ends too early") != NULL;
        records += strstr(survey->problems[i].message, "the packed data") == NULL;
    }
    ASSERT_INT(packing, ==, 1);
    ASSERT_INT(records, >=, 2);
    survey_destroy(survey);
    memory_free(packed);
    strbuf_release(&file);
}

/* A gzip file may have any number of members: a small file that unpacks to very much. */
static void write_large(const char *name, int members)
{
    static char zeros[1 << 20];
    struct strbuf member, file;
    struct error err = {0};
    char *packed;
    size_t packed_bytes;
    strbuf_init(&member);
    strbuf_init(&file);
    for (int i = 0; i < 16; i++)
        add_record(&member, zeros, sizeof zeros);
    ASSERT_OK(gzip_pack(member.text, member.length, &packed, &packed_bytes, &err), err);
    for (int i = 0; i < members; i++)
        strbuf_add_bytes(&file, packed, packed_bytes);
    write_shard(name, file.text, file.length);
    memory_free(packed);
    strbuf_release(&member);
    strbuf_release(&file);
}

TEST(survey, needs_little_memory_for_a_shard_that_unpacks_to_much)
{
    write_large("large", 24);
    size_t before = memory_peak_rss_bytes();
    struct survey *survey = look("large");
    ASSERT_INT(survey->problem_count, ==, 24 * 16);
    ASSERT_INT(survey->problems[24 * 16 - 1].offset, ==, (24 * 16 - 1) * ((1 << 20) + FRAME_BYTES));
    survey_destroy(survey);
    ASSERT_INT(memory_peak_rss_bytes() - before, <, 48 << 20); /* of 403 MB */
}

static void *set_soon(void *context)
{
    usleep(150000);
    atomic_store((atomic_int *)context, 2);
    return NULL;
}

TEST(survey, ends_in_the_middle_of_a_shard_when_told_to)
{
    write_large("endless", 2000); /* 34 GB */
    static atomic_int stop;
    struct survey *survey;
    struct error err = {0};
    char spec[600];
    pthread_t thread;
    snprintf(spec, sizeof spec, "imagenet:%s", test_path("endless"));
    pthread_create(&thread, NULL, set_soon, &stop);
    double start = clock_seconds();
    ASSERT_FAILS(survey_run(&(struct survey_options){.spec = spec}, &(struct work){.stop = &stop},
                            &survey, &err),
                 err, ERROR_CANCELLED, "stopped");
    ASSERT_NUMBER(clock_seconds() - start, <, 10);
    pthread_join(thread, NULL);
}

/* --- rows of text --------------------------------------------------------------------------- */

static struct survey *look_at_table(int rows, bool (*bad)(int line))
{
    struct strbuf text;
    struct survey *survey = NULL;
    struct error err = {0};
    strbuf_init(&text);
    strbuf_add(&text, "file train t.csv\ncolumn a numeric\nlabel y\n");
    test_file("t.columns", text.text, text.length);
    strbuf_clear(&text);
    for (int line = 1; line <= rows; line++)
        strbuf_add(&text, !bad(line) ? "123456.789,1\n"
                          : line % 3 ? "many,0\n"
                          : line & 1 ? "1,2,3\n"
                                     : "\"1,0\n");
    test_file("t.csv", text.text, text.length);
    strbuf_release(&text);
    char spec[700], path[600];
    snprintf(spec, sizeof spec, "table:%s", place("t.columns", "", path));
    struct survey_options options = {.spec = spec, .decode = true};
    ASSERT_OK(survey_run(&options, &(struct work){.threads = 3}, &survey, &err), err);
    return survey;
}

static bool some_are_bad(int line)
{
    return line == 1 || line == 2 || line == 500 || line == 501 || line == 504 || line == 2000;
}

TEST(survey, names_every_bad_row_with_file_and_line)
{
    static const int lines[] = {1, 2, 500, 501, 504, 2000};
    struct survey *survey = look_at_table(2000, some_are_bad);
    ASSERT_INT(survey->damaged, ==, 6);
    ASSERT_INT(survey->problem_count, ==, 6);
    ASSERT_INT(survey->splits[0].examples, ==, 1994);
    for (int i = 0; i < 6; i++) {
        char where[64];
        snprintf(where, sizeof where, "/t.csv: line %d: ", lines[i]);
        ASSERT_INT(survey->problems[i].line, ==, lines[i]);
        ASSERT_CONTAINS(survey->problems[i].file, "/t.csv");
        ASSERT_CONTAINS(survey->problems[i].message, where);
    }
    ASSERT_CONTAINS(survey->problems[2].message, "column a: 'many' is not a decimal number");
    ASSERT_CONTAINS(survey->problems[3].message, "3 fields separated by commas; 2 were expected");
    survey_destroy(survey);
}

static bool many_are_bad(int line)
{
    return line % 50 == 7;
}

TEST(survey, names_the_first_of_very_many_bad_rows_and_counts_the_others)
{
    struct survey *survey = look_at_table(700000, many_are_bad); /* more than one piece */
    ASSERT_INT(survey->damaged, ==, 14000);
    ASSERT_INT(survey->problem_count, ==, SURVEY_MAX_PROBLEMS);
    ASSERT_INT(survey->splits[0].examples, ==, 686000);
    for (int i = 0; i < SURVEY_MAX_PROBLEMS; i++)
        ASSERT_INT(survey->problems[i].line, ==, 50 * i + 7);
    survey_destroy(survey);
}
