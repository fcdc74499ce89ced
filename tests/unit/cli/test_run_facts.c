/* Settings as text: what the page of a run shows of its options. */
#include "cli/run_facts.h"

#include "base/arena.h"
#include "cli/options.h"
#include "support/test.h"

struct settings {
    bool flag;
    int count;
    int64_t many;
    double number, seconds;
    size_t bytes;
    const char *text;
};

static const struct option table[] = {
    OPTION_FLAG(settings, flag, "flag"),          OPTION_INT(settings, count, "count"),
    OPTION_LONG(settings, many, "many"),          OPTION_NUMBER(settings, number, "number"),
    OPTION_SECONDS(settings, seconds, "seconds"), OPTION_BYTES(settings, bytes, "bytes"),
    OPTION_TEXT(settings, text, "text"),          OPTION_END,
};

static const char *text_of(struct arena *arena, const struct settings *settings, const char *name)
{
    return run_setting_text(option_find(table, name, strlen(name)), settings, arena);
}

TEST(run_facts, writes_values_as_a_user_would)
{
    struct arena *arena = arena_create();
    struct settings settings = {.flag = true,
                                .count = -3,
                                .many = 5000000000,
                                .number = 1e-3,
                                .seconds = 1.5,
                                .bytes = 4 << 20,
                                .text = "a b"};
    ASSERT_TEXT(text_of(arena, &settings, "flag"), "true");
    ASSERT_TEXT(text_of(arena, &settings, "count"), "-3");
    ASSERT_TEXT(text_of(arena, &settings, "many"), "5000000000");
    ASSERT_TEXT(text_of(arena, &settings, "number"), "0.001");
    ASSERT_TEXT(text_of(arena, &settings, "seconds"), "1.5s");
    ASSERT_TEXT(text_of(arena, &settings, "bytes"), "4M");
    ASSERT_TEXT(text_of(arena, &settings, "text"), "a b");
    settings.bytes = 1025;
    ASSERT_TEXT(text_of(arena, &settings, "bytes"), "1025");
    settings.bytes = 0;
    ASSERT_TEXT(text_of(arena, &settings, "bytes"), "0");
    arena_destroy(arena);
}

TEST(run_facts, reads_back_what_it_wrote)
{
    struct arena *arena = arena_create();
    struct settings before = {.flag = true,
                              .count = 7,
                              .many = 8,
                              .number = 0.25,
                              .seconds = 90,
                              .bytes = (size_t)3 << 30,
                              .text = "x"},
                    after = {0};
    for (const struct option *row = table; row->type != OPTION_IS_END; row++) {
        struct error err = {0};
        ASSERT_OK(option_set(row, row->name, run_setting_text(row, &before, arena), &after, &err),
                  err);
    }
    ASSERT_TRUE(after.flag && after.count == 7 && after.many == 8 && after.bytes == before.bytes);
    ASSERT_NUMBER(after.number, ==, 0.25);
    ASSERT_NUMBER(after.seconds, ==, 90);
    ASSERT_TEXT(after.text, "x");
    arena_destroy(arena);
}
