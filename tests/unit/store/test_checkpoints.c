#include "store/checkpoints.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/bundle.h"
#include "store/checkpoint.h"
#include "support/checkpoint_files.h"
#include "support/test.h"

static char warnings[8192];

static void note(void *context, enum log_level level, const char *line)
{
    (void)context;
    size_t used = strlen(warnings);
    if (level >= LOG_WARNING)
        snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

static void listen(void)
{
    warnings[0] = '\0';
    log_set_sink(note, NULL);
}

/* The step that would be resumed; -1: there is none. */
static int64_t newest(const char *directory)
{
    char path[PATH_MAX];
    struct manifest manifest;
    bool found;
    struct error err = {0};
    struct arena *arena = arena_create();
    listen();
    ASSERT_OK(checkpoints_find_newest(directory, arena, &manifest, path, &found, &err), err);
    int64_t step = found ? manifest.step : -1;
    arena_destroy(arena);
    return step;
}

static struct checkpoints_lock take(const char *directory)
{
    struct checkpoints_lock lock;
    struct error err = {0};
    ASSERT_OK(checkpoints_take(directory, &lock, &err), err);
    return lock;
}

static const char *target_of(const char *directory, const char *name)
{
    static char target[256];
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes < 0 ? 0 : bytes] = '\0';
    return target;
}

static void make(const char *path)
{
    struct error err = {0};
    ASSERT_OK(directory_make(path, &err), err);
}

static int exists(const char *directory, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return lstat(path, &info) == 0;
}

/* --- finding -------------------------------------------------------------------------------- */

TEST(checkpoints, of_a_directory_that_is_empty_or_absent_are_none)
{
    ASSERT_INT(newest(checkpoint_files_directory("empty")), ==, -1);
    ASSERT_INT(newest(test_path("absent")), ==, -1);
}

TEST(checkpoints, are_found_by_step_whatever_else_is_there)
{
    const char *directory = checkpoint_files_directory("others");
    checkpoint_files_write(directory, 9, NAN);
    checkpoint_files_write(directory, 10, NAN);
    static const char *const foreign[] = {
        "step-11",           "step-0000000000012", "step-000000000013.bak",
        "step-+00000000014", "step--00000000015",  "step-",
        "old-2020",          ".draft-step-16"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        make(test_path("others/%s", foreign[i]));
    ASSERT_INT(newest(directory), ==, 10);
    ASSERT_TEXT(warnings, "");
}

TEST(checkpoints, with_steps_of_thirteen_digits_are_newer_than_those_of_twelve)
{
    const char *directory = checkpoint_files_directory("wide");
    checkpoint_files_write(directory, 999999999999, NAN);
    checkpoint_files_write(directory, 1000000000000, NAN);
    ASSERT_INT(newest(directory), ==, 1000000000000);
}

TEST(checkpoints, that_are_damaged_are_passed_over_and_named)
{
    const char *directory = checkpoint_files_directory("damaged");
    checkpoint_files_write(directory, 1, NAN);
    checkpoint_files_flip(checkpoint_files_write(directory, 2, NAN), "manifest.json", 200);
    checkpoint_files_flip(checkpoint_files_write(directory, 3, NAN), "model.index", -60);
    checkpoint_files_flip(checkpoint_files_write(directory, 4, NAN), "model.data-00000-of-00001",
                          -1);
    checkpoint_files_write(directory, 5, NAN);
    ASSERT_INT(unlink(test_path("damaged/step-000000000005/manifest.json")), ==, 0);
    checkpoint_files_write(directory, 6, NAN);
    ASSERT_INT(truncate(test_path("damaged/step-000000000006/model.data-00000-of-00001"), 9), ==,
               0);
    ASSERT_INT(
        rename(checkpoint_files_write(directory, 7, NAN), test_path("damaged/step-000000000008")),
        ==, 0);
    make(test_path("damaged/step-000000000009"));
    ASSERT_INT(newest(directory), ==, 1);
    for (int step = 2; step <= 9; step++)
        if (step != 7) {
            char name[32];
            snprintf(name, sizeof name, "step-%012d", step);
            ASSERT_CONTAINS(warnings, name);
        }
    ASSERT_CONTAINS(warnings, "it is a checkpoint of step 7; was it renamed?");
}

TEST(checkpoints, that_are_all_damaged_are_an_error_and_stay)
{
    const char *directory = checkpoint_files_directory("hopeless");
    char path[PATH_MAX];
    struct manifest manifest;
    bool found;
    struct error err;
    struct arena *arena = arena_create();
    checkpoint_files_flip(checkpoint_files_write(directory, 1, NAN), "manifest.json", 0);
    checkpoint_files_flip(checkpoint_files_write(directory, 2, NAN), "manifest.json", 99);
    listen();
    ASSERT_FAILS(checkpoints_find_newest(directory, arena, &manifest, path, &found, &err), err,
                 ERROR_FORMAT, "none of its 2 checkpoints is whole");
    ASSERT_CONTAINS(err.message, "--fresh");
    ASSERT_FALSE(found);
    ASSERT_TEXT(checkpoint_files_names(directory, ""), "step-000000000001 step-000000000002");
    arena_destroy(arena);
}

TEST(checkpoints, are_whole_or_refused_whatever_byte_is_damaged)
{
    const char *directory = checkpoint_files_directory("every");
    const char *path = checkpoint_files_write(directory, 1, 0.5);
    static const char *const files[] = {"manifest.json", "model.index",
                                        "model.data-00000-of-00001"};
    struct error err = {0};
    for (int i = 0; i < 3; i++) {
        struct stat info;
        ASSERT_INT(stat(test_path("every/step-000000000001/%s", files[i]), &info), ==, 0);
        for (long at = 0; at < info.st_size; at++) {
            checkpoint_files_flip(path, files[i], at);
            ASSERT_FAILS(checkpoint_verify(path, &err), err, ERROR_FORMAT, files[i]);
            checkpoint_files_flip(path, files[i], at);
        }
    }
    ASSERT_OK(checkpoint_verify(path, &err), err);
}

TEST(checkpoints, are_what_a_user_may_write_for_them)
{
    const char *directory = checkpoint_files_directory("resolve");
    char path[PATH_MAX];
    struct error err = {0};
    ASSERT_FAILS(checkpoints_resolve(directory, path, &err), err, ERROR_IO, "no checkpoint");
    const char *first = checkpoint_files_write(directory, 1, NAN);
    const char *second = checkpoint_files_write(directory, 2, NAN);
    ASSERT_OK(checkpoints_resolve(directory, path, &err), err);
    ASSERT_TEXT(path, second);
    ASSERT_OK(checkpoints_resolve(first, path, &err), err);
    ASSERT_TEXT(path, first);
}

/* --- writing -------------------------------------------------------------------------------- */

TEST(checkpoints, take_the_place_of_a_damaged_one_of_their_step)
{
    const char *directory = checkpoint_files_directory("replaced");
    const char *path = checkpoint_files_write(directory, 3, NAN);
    struct error err = {0};
    checkpoint_files_flip(path, "model.data-00000-of-00001", 0);
    ASSERT_FAILS(checkpoint_verify(path, &err), err, ERROR_FORMAT, "model.data");
    checkpoint_files_write(directory, 3, NAN);
    ASSERT_OK(checkpoint_verify(path, &err), err);
    ASSERT_TEXT(checkpoint_files_names(directory, ""), "step-000000000003");
}

static int fail_get(void *context, int index, const char **name, struct tensor *out,
                    struct error *err)
{
    (void)context;
    (void)index;
    (void)name;
    (void)out;
    return error_set(err, ERROR_NUMERIC, "no numbers today");
}

TEST(checkpoints, that_cannot_be_written_leave_nothing_behind)
{
    const char *directory = checkpoint_files_directory("unwritten");
    char path[PATH_MAX];
    struct error err;
    struct manifest manifest = checkpoint_files_manifest(2, NAN);
    struct checkpoint_tensors tensors = {1, fail_get, NULL};
    checkpoint_files_write(directory, 1, NAN);
    ASSERT_FAILS(checkpoint_write(directory, &manifest, &tensors, path, &err), err, ERROR_NUMERIC,
                 "no numbers");
    ASSERT_TEXT(checkpoint_files_names(directory, ""), "step-000000000001");
    ASSERT_FAILS(checkpoint_write(test_path("nowhere"), &manifest, &tensors, path, &err), err,
                 ERROR_IO, "nowhere");
}

/* --- tidying -------------------------------------------------------------------------------- */

static void tidy(const char *directory, int64_t step, int keep)
{
    struct error err = {0};
    ASSERT_OK(checkpoints_tidy(directory, step, keep, &err), err);
}

TEST(checkpoints, that_stay_are_the_newest_and_the_best)
{
    const char *directory = checkpoint_files_directory("tidy");
    static const double accuracies[] = {0.1, 0.8, NAN, 0.8, 0.3, NAN, NAN};
    for (int64_t step = 1; step <= 7; step++) {
        checkpoint_files_write(directory, step, accuracies[step - 1]);
        tidy(directory, step, 2);
    }
    ASSERT_TEXT(checkpoint_files_names(directory, "step"),
                "step-000000000002 step-000000000006 step-000000000007");
    ASSERT_TEXT(checkpoint_files_names(directory, "."), "");
    ASSERT_TEXT(target_of(directory, "best"), "step-000000000002"); /* of equals the older */
    ASSERT_NUMBER(checkpoints_best_score(directory), ==, 0.8);
    char *text;
    size_t bytes;
    struct error err = {0};
    ASSERT_OK(file_read(test_path("tidy/checkpoint"), 4096, &text, &bytes, &err), err);
    ASSERT_TEXT(text, "model_checkpoint_path: \"step-000000000007/model\"\n"
                      "all_model_checkpoint_paths: \"step-000000000007/model\"\n");
    memory_free(text);
}

TEST(checkpoints, of_which_one_is_kept_are_the_new_one_alone)
{
    const char *directory = checkpoint_files_directory("one");
    for (int64_t step = 1; step <= 3; step++) {
        checkpoint_files_write(directory, step, NAN);
        tidy(directory, step, 1);
    }
    ASSERT_TEXT(checkpoint_files_names(directory, "step"), "step-000000000003");
    ASSERT_TEXT(target_of(directory, "best"), "");
}

TEST(checkpoints, are_not_removed_by_the_one_that_was_just_written_before_them)
{
    const char *directory = checkpoint_files_directory("before");
    checkpoint_files_write(directory, 9, NAN);
    checkpoint_files_write(directory, 4, NAN);
    tidy(directory, 4, 1);
    ASSERT_TEXT(checkpoint_files_names(directory, "step"), "step-000000000004 step-000000000009");
}

TEST(checkpoints, are_tidied_also_where_the_best_cannot_be_linked)
{
    const char *directory = checkpoint_files_directory("nolink");
    struct error err;
    for (int64_t step = 1; step <= 3; step++)
        checkpoint_files_write(directory, step, step == 1 ? NAN : 0.5);
    make(test_path("nolink/best/full"));
    ASSERT_FAILS(checkpoints_tidy(directory, 3, 1, &err), err, ERROR_IO, "best");
    ASSERT_TEXT(checkpoint_files_names(directory, "step"), "step-000000000002 step-000000000003");
    ASSERT_TEXT(checkpoint_files_names(directory, "."), "");
}

/* --- the lock ------------------------------------------------------------------------------- */

TEST(checkpoints, are_written_by_one_run_at_a_time)
{
    const char *directory = test_path("locked/deep/below");
    struct checkpoints_lock lock = take(directory), second;
    struct error err;
    ASSERT_FAILS(checkpoints_take(directory, &second, &err), err, ERROR_USAGE,
                 "another run writes its checkpoints there: process ");
    ASSERT_INT(second.descriptor, ==, -1);
    checkpoints_let_go(&lock);
    lock = take(directory);
    checkpoints_let_go(&lock);
    checkpoints_let_go(&lock); /* twice is nothing */
}

TEST(checkpoints, are_refused_to_another_process_until_the_first_is_gone)
{
    const char *directory = test_path("processes");
    int ready[2];
    ASSERT_INT(pipe(ready), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        struct checkpoints_lock held;
        struct error ignored;
        char byte = checkpoints_take(directory, &held, &ignored) == 0 ? 'y' : 'n';
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    char byte = 'n';
    struct checkpoints_lock lock;
    struct error err;
    ASSERT_INT(read(ready[0], &byte, 1), ==, 1);
    ASSERT_INT(byte, ==, 'y');
    char name[64];
    snprintf(name, sizeof name, "process %ld on ", (long)child);
    ASSERT_FAILS(checkpoints_take(directory, &lock, &err), err, ERROR_USAGE, name);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    lock = take(directory);
    checkpoints_let_go(&lock);
    close(ready[0]);
    close(ready[1]);
}

TEST(checkpoints, are_not_written_where_the_directory_was_replaced)
{
    const char *directory = checkpoint_files_directory("swapped");
    struct checkpoints_lock lock = take(directory);
    struct error err = {0};
    ASSERT_OK(checkpoints_check_held(directory, &lock, &err), err);
    ASSERT_INT(rename(directory, test_path("swapped-away")), ==, 0);
    ASSERT_FAILS(checkpoints_check_held(directory, &lock, &err), err, ERROR_IO,
                 "removed or replaced");
    struct checkpoints_lock other = take(directory);
    ASSERT_FAILS(checkpoints_check_held(directory, &lock, &err), err, ERROR_IO,
                 "removed or replaced");
    ASSERT_OK(checkpoints_check_held(directory, &other, &err), err);
    checkpoints_let_go(&lock);
    checkpoints_let_go(&other);
}

TEST(checkpoints, need_a_directory_that_can_hold_them)
{
    struct checkpoints_lock lock;
    struct error err;
    const char *file = test_file("file", "x", 1);
    ASSERT_FAILS(checkpoints_take(file, &lock, &err), err, ERROR_IO, "is not a directory");
    ASSERT_FAILS(checkpoints_take(test_path("file/below"), &lock, &err), err, ERROR_IO, "file");
    char *path = memory_allocate(PATH_MAX);
    memset(path, 'x', PATH_MAX - 100);
    ASSERT_FAILS(checkpoints_take(path, &lock, &err), err, ERROR_IO, "leaves no room");
    memory_free(path);
    ASSERT_INT(lock.descriptor, ==, -1);
}

TEST(checkpoints, may_be_reached_by_a_link)
{
    const char *directory = checkpoint_files_directory("real");
    const char *link = test_path("link");
    ASSERT_INT(symlink("real", link), ==, 0);
    struct checkpoints_lock lock = take(link), second;
    struct error err;
    checkpoint_files_write(link, 5, NAN);
    tidy(link, 5, 1);
    ASSERT_INT(newest(directory), ==, 5);
    ASSERT_FAILS(checkpoints_take(directory, &second, &err), err, ERROR_USAGE, "another run");
    checkpoints_let_go(&lock);
}

/* --- what a killed run left ----------------------------------------------------------------- */

TEST(checkpoints, that_were_left_unfinished_are_swept_away)
{
    const char *directory = checkpoint_files_directory("swept");
    checkpoint_files_write(directory, 1, NAN);
    make(test_path("swept/.draft-step-000000000002-0123456789abcdef/deep"));
    test_file("swept/.draft-step-000000000002-0123456789abcdef/model.index", "x", 1);
    make(test_path("swept/.gone-step-000000000000-0123456789abcdef"));
    test_file("swept/checkpoint.0123456789abcdef.part", "x", 1);
    ASSERT_INT(symlink("step-000000000001", test_path("swept/.draft-step-000000000001-00")), ==, 0);
    test_file("swept/.mine", "x", 1);
    test_file("swept/notes.part", "x", 1);
    struct checkpoints_lock lock = take(directory);
    ASSERT_TEXT(checkpoint_files_names(directory, ""), ".mine lock notes.part step-000000000001");
    checkpoints_let_go(&lock);
    ASSERT_INT(newest(directory), ==, 1);
}

TEST(checkpoints, that_were_to_be_replaced_come_back_when_they_were_not)
{
    const char *directory = checkpoint_files_directory("put-back");
    checkpoint_files_write(directory, 1, NAN);
    ASSERT_INT(rename(checkpoint_files_write(directory, 2, NAN),
                      test_path("put-back/.was-step-000000000002-0123456789abcdef")),
               ==, 0);
    make(test_path("put-back/.was-step-000000000001-0123456789abcdef"));
    struct checkpoints_lock lock = take(directory);
    ASSERT_TEXT(checkpoint_files_names(directory, ""), "lock step-000000000001 step-000000000002");
    checkpoints_let_go(&lock);
    ASSERT_INT(newest(directory), ==, 2);
}

/* --- moving aside --------------------------------------------------------------------------- */

TEST(checkpoints, are_moved_aside_all_at_once)
{
    const char *directory = checkpoint_files_directory("aside");
    char path[PATH_MAX], second[PATH_MAX];
    bool moved;
    struct error err = {0};
    struct checkpoints_lock lock = take(directory);
    ASSERT_OK(checkpoints_move_aside(directory, -1, path, &moved, &err), err);
    ASSERT_FALSE(moved);
    for (int64_t step = 1; step <= 3; step++)
        checkpoint_files_write(directory, step, 0.5);
    tidy(directory, 3, 9);
    test_file("aside/notes", "x", 1);
    ASSERT_OK(checkpoints_move_aside(directory, -1, path, &moved, &err), err);
    ASSERT_TRUE(moved);
    ASSERT_INT(newest(directory), ==, -1);
    ASSERT_INT(newest(path), ==, 3);
    ASSERT_TRUE(exists(directory, "notes") && exists(directory, "lock"));
    ASSERT_FALSE(exists(directory, "best") || exists(directory, "checkpoint"));
    ASSERT_TEXT(target_of(path, "best"), "step-000000000001");
    /* Again within the second: a directory of its own. */
    checkpoint_files_write(directory, 1, NAN);
    ASSERT_OK(checkpoints_move_aside(directory, -1, second, &moved, &err), err);
    ASSERT_TRUE(moved && strcmp(path, second) != 0);
    ASSERT_INT(newest(second), ==, 1);
    checkpoints_let_go(&lock);
}

TEST(checkpoints, after_the_one_that_is_resumed_are_moved_aside)
{
    const char *directory = checkpoint_files_directory("newer");
    char path[PATH_MAX];
    bool moved;
    struct error err = {0};
    for (int64_t step = 1; step <= 4; step++)
        checkpoint_files_write(directory, step, NAN);
    checkpoint_files_flip(test_path("newer/step-000000000003"), "manifest.json", 50);
    checkpoint_files_flip(test_path("newer/step-000000000004"), "manifest.json", 50);
    ASSERT_OK(checkpoints_move_aside(directory, newest(directory), path, &moved, &err), err);
    ASSERT_TRUE(moved);
    ASSERT_TEXT(checkpoint_files_names(directory, "step"), "step-000000000001 step-000000000002");
    ASSERT_TEXT(checkpoint_files_names(path, ""), "step-000000000003 step-000000000004");
    ASSERT_OK(checkpoints_move_aside(directory, 2, path, &moved, &err), err);
    ASSERT_FALSE(moved);
}
