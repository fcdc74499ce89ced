#include "data/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

static struct storage *open_storage(const char *path)
{
    struct storage *storage;
    struct error err = {0};
    ASSERT_OK(storage_open(path, NULL, &storage, &err), err);
    return storage;
}

static void make_directory(const char *name)
{
    ASSERT_TRUE(mkdir(test_path("%s", name), 0777) == 0);
}

TEST(storage, lists_all_levels_sorted_without_hidden_names)
{
    make_directory("tree");
    make_directory("tree/b");
    make_directory("tree/.hidden");
    test_file("tree/b/two", "22", 2);
    test_file("tree/b-one", "1", 1);
    test_file("tree/c", "", 0);
    test_file("tree/.dot", "x", 1);
    test_file("tree/.hidden/x", "x", 1);
    ASSERT_TRUE(symlink("..", test_path("tree/b/up")) == 0);
    ASSERT_TRUE(symlink("nowhere", test_path("tree/gone")) == 0);
    ASSERT_TRUE(symlink("b/two", test_path("tree/link")) == 0);
    struct storage *storage = open_storage(test_path("tree"));
    const struct storage_file *files;
    ASSERT_INT(storage_files(storage, &files), ==, 4);
    ASSERT_TEXT(files[0].name, "b-one");
    ASSERT_TEXT(files[1].name, "b/two");
    ASSERT_TEXT(files[2].name, "c");
    ASSERT_TEXT(files[3].name, "link");
    ASSERT_INT(files[3].bytes, ==, 2);
    ASSERT_TRUE(files[0].modified > 0);
    ASSERT_INT(storage_find(storage, "c"), ==, 2);
    ASSERT_INT(storage_find(storage, "d"), ==, -1);
    ASSERT_TRUE(storage_is_local(storage));
    char text[512];
    ASSERT_TEXT(storage_describe(storage, 1, text, sizeof text), test_path("tree/b/two"));
    storage_close(storage);
}

TEST(storage, reads_and_maps_the_same_bytes)
{
    make_directory("bytes");
    char content[10000];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (char)(i * 7);
    test_file("bytes/file", content, sizeof content);
    test_file("bytes/nothing", "", 0);
    struct storage *storage = open_storage(test_path("bytes"));
    struct error err = {0};
    char part[100];
    storage_expect(storage, 0, 5000, 1 << 30);
    ASSERT_OK(storage_read(storage, 0, 9900, 100, part, &err), err);
    ASSERT_BYTES(part, content + 9900, 100);
    const uint8_t *map, *again;
    ASSERT_OK(storage_map(storage, 0, &map, &err), err);
    ASSERT_BYTES(map, content, sizeof content);
    ASSERT_OK(storage_map(storage, 0, &again, &err), err);
    ASSERT_TRUE(map == again);
    storage_expect(storage, 0, 5000, 100);
    ASSERT_OK(storage_map(storage, 1, &map, &err), err);
    ASSERT_FAILS(storage_read(storage, 0, 9901, 100, part, &err), err, ERROR_FORMAT,
                 "ends at 10000");
    ASSERT_FAILS(storage_read(storage, 0, UINT64_MAX, 2, part, &err), err, ERROR_FORMAT, "ends at");
    storage_close(storage);
}

TEST(storage, says_when_a_file_became_shorter)
{
    make_directory("short");
    test_file("short/file", "0123456789", 10);
    struct storage *storage = open_storage(test_path("short"));
    ASSERT_TRUE(truncate(test_path("short/file"), 4) == 0);
    struct error err = {0};
    char part[10];
    const uint8_t *map;
    ASSERT_FAILS(storage_read(storage, 0, 0, 10, part, &err), err, ERROR_IO, "did it change");
    ASSERT_FAILS(storage_map(storage, 0, &map, &err), err, ERROR_IO, "has 4 bytes");
    ASSERT_TRUE(unlink(test_path("short/file")) == 0);
    ASSERT_FAILS(storage_read(storage, 0, 0, 10, part, &err), err, ERROR_IO, "No such file");
    storage_close(storage);
}

TEST(storage, refuses_what_is_no_directory)
{
    struct storage *storage;
    struct error err;
    ASSERT_FAILS(storage_open(test_path("absent"), NULL, &storage, &err), err, ERROR_IO,
                 "No such file");
    test_file("plain", "x", 1);
    ASSERT_FAILS(storage_open(test_path("plain"), NULL, &storage, &err), err, ERROR_IO,
                 "Not a directory");
}

/* A tree that cannot be listed, for its names are too long for any path. */
enum { LEVELS = 20 };
static char long_name[251];

static void make_unlistable(const char *name, int levels[LEVELS + 1])
{
    memset(long_name, 'x', sizeof long_name - 1);
    levels[0] = open(test_path("%s", name), O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < LEVELS; i++) {
        ASSERT_TRUE(mkdirat(levels[i], long_name, 0777) == 0);
        levels[i + 1] = openat(levels[i], long_name, O_RDONLY | O_DIRECTORY);
    }
}

/* What removes the test's directory could not do it. */
static void remove_unlistable(const int levels[LEVELS + 1])
{
    for (int i = LEVELS; i >= 0; i--) {
        close(levels[i]);
        if (i > 0)
            unlinkat(levels[i - 1], long_name, AT_REMOVEDIR);
    }
}

TEST(storage, opens_files_of_known_names_without_listing_what_is_around)
{
    static const char *const names[] = {"two", "none", "one", "two/below", "folder"};
    struct storage *storage;
    const struct storage_file *files;
    struct error err = {0};
    make_directory("around");
    make_directory("around/folder");
    test_file("around/one", "1", 1);
    test_file("around/two", "22", 2);
    int levels[LEVELS + 1];
    make_unlistable("around", levels);
    ASSERT_FAILS(storage_open(test_path("around"), NULL, &storage, &err), err, ERROR_IO,
                 "longer than");
    ASSERT_OK(storage_open_files(test_path("around"), names, 5, NULL, &storage, &err), err);
    ASSERT_INT(storage_files(storage, &files), ==, 2);
    ASSERT_INT(storage_find(storage, "one"), ==, 0);
    ASSERT_INT(storage_find(storage, "two"), ==, 1);
    ASSERT_INT(files[1].bytes, ==, 2);
    const uint8_t *map;
    ASSERT_OK(storage_map(storage, 1, &map, &err), err);
    ASSERT_BYTES(map, "22", 2);
    storage_close(storage);
    remove_unlistable(levels);
    ASSERT_FAILS(storage_open_files(test_path("nowhere"), names, 3, NULL, &storage, &err), err,
                 ERROR_IO, "No such file");
}

TEST(storage, takes_paths_apart)
{
    char directory[PATH_MAX];
    struct error err = {0};
    ASSERT_TEXT(storage_split("a/b/c.txt", directory, &err), "c.txt");
    ASSERT_TEXT(directory, "a/b");
    ASSERT_TEXT(storage_split("c.txt", directory, &err), "c.txt");
    ASSERT_TEXT(directory, ".");
    ASSERT_TEXT(storage_split("/c.txt", directory, &err), "c.txt");
    ASSERT_TEXT(directory, "/");
    ASSERT_TEXT(storage_split("s3://bucket/c.txt", directory, &err), "c.txt");
    ASSERT_TEXT(directory, "s3://bucket");
}

TEST(storage, reads_nothing_any_more_when_told_to_stop)
{
    static atomic_int stop;
    struct storage *storage;
    struct error err = {0};
    const uint8_t *map;
    char text[2];
    make_directory("stopped");
    test_file("stopped/file", "22", 2);
    ASSERT_OK(storage_open(test_path("stopped"), &stop, &storage, &err), err);
    ASSERT_OK(storage_read(storage, 0, 0, 2, text, &err), err);
    atomic_store(&stop, 2);
    ASSERT_FAILS(storage_read(storage, 0, 0, 2, text, &err), err, ERROR_CANCELLED, "stopped");
    ASSERT_FAILS(storage_map(storage, 0, &map, &err), err, ERROR_CANCELLED, "stopped");
    storage_close(storage);
}
