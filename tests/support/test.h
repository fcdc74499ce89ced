/* Small helpers on cmocka. A test is
 *
 *     TEST(loader, gives_the_same_batches_after_a_resume)
 *     {
 *         ASSERT_INT(loader_count(loader), ==, 50);
 *     }
 *
 * and registers itself: a file needs no list of its tests and no main. An assertion that fails
 * prints the expressions and both values. `test_NAME PATTERN` runs the tests whose
 * "module: sentence" matches the pattern (* and ?). */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

void test_register(const char *module, const char *sentence, void (*run)(void));

#define TEST(module, sentence)                                                                     \
    static void module##_##sentence(void);                                                         \
    __attribute__((constructor)) static void register_##module##_##sentence(void)                  \
    {                                                                                              \
        test_register(#module, #sentence, module##_##sentence);                                    \
    }                                                                                              \
    static void module##_##sentence(void)

/* Ends the running test as failed, with a message that says where. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT_TRUE(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("%s is false", #condition);                                                       \
    } while (0)
#define ASSERT_FALSE(condition)                                                                    \
    do {                                                                                           \
        if (condition)                                                                             \
            FAIL("%s is true", #condition);                                                        \
    } while (0)

/* ASSERT_INT(count, ==, 3), ASSERT_INT(bytes, <=, limit); values as int64_t. */
#define ASSERT_INT(actual, relation, expected)                                                     \
    do {                                                                                           \
        int64_t actual_ = (int64_t)(actual), expected_ = (int64_t)(expected);                      \
        if (!(actual_ relation expected_))                                                         \
            FAIL("%s %s %s: %lld against %lld", #actual, #relation, #expected, (long long)actual_, \
                 (long long)expected_);                                                            \
    } while (0)
#define ASSERT_NUMBER(actual, relation, expected)                                                  \
    do {                                                                                           \
        double actual_ = (actual), expected_ = (expected);                                         \
        if (!(actual_ relation expected_))                                                         \
            FAIL("%s %s %s: %.9g against %.9g", #actual, #relation, #expected, actual_,            \
                 expected_);                                                                       \
    } while (0)
/* |actual - expected| <= relative * max(|expected|, floor). */
#define ASSERT_NEAR(actual, expected, relative, floor)                                             \
    test_near(__FILE__, __LINE__, #actual, actual, expected, relative, floor)
void test_near(const char *file, int line, const char *what, double actual, double expected,
               double relative, double floor);
#define ASSERT_TEXT(actual, expected) test_text(__FILE__, __LINE__, #actual, actual, expected)
void test_text(const char *file, int line, const char *what, const char *actual,
               const char *expected);
#define ASSERT_CONTAINS(text, part) test_contains(__FILE__, __LINE__, #text, text, part)
void test_contains(const char *file, int line, const char *what, const char *text,
                   const char *part);
/* Equal bytes; the first difference is printed with its offset. */
#define ASSERT_BYTES(actual, expected, bytes)                                                      \
    test_bytes(__FILE__, __LINE__, #actual, actual, expected, bytes)
void test_bytes(const char *file, int line, const char *what, const void *actual,
                const void *expected, size_t bytes);

/* The call must return 0; prints err's message otherwise: ASSERT_OK(file_read(..., &err), err). */
#define ASSERT_OK(call, err)                                                                       \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            FAIL("%s: %s", #call, (err).message);                                                  \
    } while (0)
/* The call must return -1 with this code and a message that has `part` in it. */
#define ASSERT_FAILS(call, err, expected_code, part)                                               \
    do {                                                                                           \
        (err) = (struct error){0};                                                                 \
        if ((call) != -1)                                                                          \
            FAIL("%s should have failed", #call);                                                  \
        if ((err).code != (expected_code))                                                         \
            FAIL("%s: code %d, not %s; it says: %s", #call, (int)(err).code, #expected_code,       \
                 (err).message);                                                                   \
        test_contains(__FILE__, __LINE__, "the message", (err).message, part);                     \
    } while (0)

/* Ends the running test as skipped, with the reason. */
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A directory for this test program, made at the first call and removed with all in it at the
 * end. Valid for the whole program. */
const char *test_directory(void);
/* "DIRECTORY/NAME" in a buffer that lives as long as the program; NAME is a printf format. */
const char *test_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes a file below test_directory() and returns its path. */
const char *test_file(const char *name, const void *bytes, size_t count);

/* The path of real data, e.g. test_data("mnist/t10k-images-idx3-ubyte.gz"), below $LOCKSTEP_DATA
 * or ../shared/data. Where it is absent the test is skipped, or fails if
 * LOCKSTEP_REQUIRE_DATA=1. */
const char *test_data(const char *name);

#endif
