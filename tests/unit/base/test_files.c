#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory.h"

TEST(files, read_gives_back_what_write_wrote)
{
    struct error err = {0};
    const char *path = test_path("round");
    char bytes[10000], *back;
    size_t count;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    for (size_t size = 0; size <= sizeof bytes; size += 2500) {
        ASSERT_OK(file_write_atomic(path, bytes, size, &err), err);
        ASSERT_OK(file_read(path, sizeof bytes, &back, &count, &err), err);
        ASSERT_INT(count, ==, size);
        ASSERT_BYTES(back, bytes, size);
        ASSERT_INT(back[size], ==, 0);
        memory_free(back);
    }
}

TEST(files, read_refuses_more_than_the_limit)
{
    struct error err;
    char *back = NULL;
    size_t count;
    const char *path = test_file("long", "123456", 6);
    ASSERT_FAILS(file_read(path, 5, &back, &count, &err), err, ERROR_FORMAT,
                 "holds 6 bytes, 5 are allowed");
    ASSERT_TRUE(back == NULL);
    /* The size of a device is not known ahead. */
    ASSERT_FAILS(file_read("/dev/zero", 5000, &back, &count, &err), err, ERROR_FORMAT,
                 "more than the 5000 bytes");
}

TEST(files, read_of_a_missing_file_names_it)
{
    struct error err;
    char *back;
    size_t count;
    ASSERT_FAILS(file_read("/nowhere/x", 5, &back, &count, &err), err, ERROR_IO,
                 "/nowhere/x: No such file");
    ASSERT_FAILS(file_read(test_directory(), 5000, &back, &count, &err), err, ERROR_IO,
                 "directory");
}

TEST(files, write_replaces_what_a_link_points_at)
{
    struct error err = {0};
    const char *target = test_file("target", "old", 3), *link = test_path("link");
    ASSERT_INT(symlink(target, link), ==, 0);
    ASSERT_OK(file_write_atomic(link, "new", 3, &err), err);
    struct stat info;
    ASSERT_INT(lstat(link, &info), ==, 0);
    ASSERT_TRUE(S_ISLNK(info.st_mode));
    char *back;
    size_t count;
    ASSERT_OK(file_read(target, 100, &back, &count, &err), err);
    ASSERT_TEXT(back, "new");
    memory_free(back);
}

TEST(files, write_leaves_a_device_a_device)
{
    struct error err = {0};
    ASSERT_OK(file_write_atomic("/dev/null", "x", 1, &err), err);
    struct stat info;
    ASSERT_INT(stat("/dev/null", &info), ==, 0);
    ASSERT_TRUE(S_ISCHR(info.st_mode));
}

TEST(files, a_failed_write_leaves_nothing_behind)
{
    struct error err;
    ASSERT_FAILS(file_write_atomic(test_path("no/such/place"), "x", 1, &err), err, ERROR_IO,
                 "no/such/place");
    ASSERT_FAILS(file_write_atomic(test_directory(), "x", 1, &err), err, ERROR_IO,
                 "is a directory");
}

TEST(files, directories_are_made_with_all_above_them)
{
    struct error err = {0};
    const char *path = test_path("a/b//c/");
    ASSERT_OK(directory_make(path, &err), err);
    ASSERT_OK(directory_make(path, &err), err);
    ASSERT_INT(access(path, W_OK), ==, 0);
    const char *file = test_file("plain", "", 0);
    ASSERT_FAILS(directory_make(file, &err), err, ERROR_IO, "is not a directory");
    ASSERT_FAILS(directory_make("", &err), err, ERROR_IO, "No such file");
}

TEST(files, a_sweep_takes_abandoned_drafts_and_nothing_else)
{
    static const char *const stay[] = {"sweep/data.part", "sweep/x.0123456789abcde.part",
                                       "sweep/x.0123456789abcdeg.part",
                                       "sweep/x.0123456789abcdef.part.old"};
    struct error err = {0};
    struct file_draft draft;
    ASSERT_OK(directory_make(test_path("sweep"), &err), err);
    for (int i = 0; i < 4; i++)
        test_file(stay[i], "x", 1);
    const char *abandoned = test_file("sweep/x.unpacked.0123456789abcdef.part", "x", 1);
    ASSERT_OK(file_draft_begin(test_path("sweep/x.unpacked"), &draft, &err), err);
    ASSERT_OK(file_draft_write(&draft, "whole", 5, &err), err);
    file_drafts_sweep(test_path("sweep"));
    ASSERT_TRUE(access(abandoned, F_OK) < 0);
    for (int i = 0; i < 4; i++)
        ASSERT_TRUE(access(test_path("%s", stay[i]), F_OK) == 0);
    ASSERT_OK(file_draft_finish(&draft, &err), err); /* it was still there */
    ASSERT_TRUE(access(test_path("sweep/x.unpacked"), F_OK) == 0);
    file_drafts_sweep(test_path("nowhere"));
}
