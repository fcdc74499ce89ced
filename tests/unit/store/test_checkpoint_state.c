#include "base/files.h"
#include "base/memory.h"
#include "store/checkpoint_state.h"
#include "support/test.h"

static void expect_state(const char *const *names, int count, const char *expected)
{
    struct error err = {0};
    char *text;
    size_t bytes;
    ASSERT_OK(checkpoint_state_write(test_directory(), names, count, &err), err);
    ASSERT_OK(file_read(test_path("checkpoint"), 4096, &text, &bytes, &err), err);
    ASSERT_TEXT(text, expected);
    memory_free(text);
}

TEST(checkpoint_state, the_last_name_is_the_newest_and_all_are_listed)
{
    static const char *const names[] = {"model.ckpt-1", "model.ckpt-20"};
    expect_state(names, 2,
                 "model_checkpoint_path: \"model.ckpt-20\"\n"
                 "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
                 "all_model_checkpoint_paths: \"model.ckpt-20\"\n");
    expect_state(names, 1,
                 "model_checkpoint_path: \"model.ckpt-1\"\n"
                 "all_model_checkpoint_paths: \"model.ckpt-1\"\n");
}

TEST(checkpoint_state, names_are_quoted_as_text_messages_need_it)
{
    static const char *const names[] = {"a\"b\\c\nd\303\2747 'x'"};
    expect_state(names, 1,
                 "model_checkpoint_path: \"a\\\"b\\\\c\\012d\\303\\2747 'x'\"\n"
                 "all_model_checkpoint_paths: \"a\\\"b\\\\c\\012d\\303\\2747 'x'\"\n");
}

TEST(checkpoint_state, a_directory_that_is_not_there_is_named)
{
    static const char *const names[] = {"m"};
    struct error err = {0};
    ASSERT_FAILS(checkpoint_state_write(test_path("nowhere"), names, 1, &err), err, ERROR_IO,
                 "nowhere/checkpoint");
}
