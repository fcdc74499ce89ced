#include "support/test.h"

#include "base/arena.h"
#include "base/log.h"

TEST(error, puts_what_the_caller_did_in_front)
{
    struct error err = {0};
    ASSERT_INT(error_set(&err, ERROR_IO, "%s: %s", "a.json", "gone"), ==, -1);
    ASSERT_INT(error_wrap(&err, "resume from step %d", 1200), ==, -1);
    ASSERT_TEXT(err.message, "resume from step 1200: a.json: gone");
    ASSERT_INT(err.code, ==, ERROR_IO);
    ASSERT_INT(error_set(NULL, ERROR_IO, "x"), ==, -1);
    ASSERT_INT(error_wrap(NULL, "x"), ==, -1);
}

TEST(error, cuts_long_messages_instead_of_overflowing)
{
    struct error err = {0};
    error_set(&err, ERROR_IO, "%0600d", 1);
    error_wrap(&err, "%0300d", 2);
    ASSERT_INT(strlen(err.message), ==, sizeof err.message - 1);
}

TEST(arena, gives_zeroed_aligned_memory_again_after_a_reset)
{
    struct arena *arena = arena_create();
    char zeros[256] = {0};
    for (int round = 0; round < 2; round++) {
        for (size_t bytes = 1; bytes < 300000; bytes = bytes * 3 + 1) {
            char *taken = arena_take(arena, bytes);
            ASSERT_INT((uintptr_t)taken % 64, ==, 0);
            ASSERT_BYTES(taken, zeros, bytes < sizeof zeros ? bytes : sizeof zeros);
            memset(taken, 0xff, bytes);
        }
        arena_reset(arena);
    }
    ASSERT_TEXT(arena_format(arena, "%s-%d", "a", 5), "a-5");
    ASSERT_TRUE(arena_take(arena, SIZE_MAX) == NULL);
    arena_destroy(arena);
    arena_destroy(NULL);
}

static void keep(void *context, enum log_level level, const char *line)
{
    snprintf(context, 64, "%d %s", (int)level, line);
}

TEST(log, goes_where_the_program_wants_from_its_level_up)
{
    char kept[64] = "";
    log_line(LOG_ERROR, "nobody listens");
    log_set_sink(keep, kept);
    log_line(LOG_DEBUG, "too low");
    ASSERT_TEXT(kept, "");
    log_line(LOG_WARNING, "rank %d is slow", 3);
    ASSERT_TEXT(kept, "2 rank 3 is slow");
    log_set_level(LOG_ERROR);
    log_line(LOG_WARNING, "too low now");
    ASSERT_TEXT(kept, "2 rank 3 is slow");
    log_set_level(LOG_INFO);
    log_set_sink(NULL, NULL);
}
