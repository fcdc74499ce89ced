#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "data/cache.h"
#include "data/storage.h"
#include "net/s3.h"
#include "support/s3_server.h"
#include "support/test.h"

enum { BYTES = 20 << 20 };

static uint8_t bytes_of_content[BYTES];

static void make_content(void)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes_of_content[i] = (uint8_t)(i * 2654435761u >> 24);
}

static const uint8_t *content(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_content);
    return bytes_of_content;
}

static void put_into(const char *bucket, const char *key, const void *data, size_t bytes)
{
    struct s3_settings settings;
    struct s3 *s3;
    struct error err = {0};
    ASSERT_OK(s3_settings_read(&settings, &err), err);
    ASSERT_OK(s3_open(bucket, &settings, &s3, &err), err);
    ASSERT_OK(s3_write(s3, key, data, bytes, &err), err);
    s3_close(s3);
}

static void put(const char *key, const void *data, size_t bytes)
{
    put_into("plain", key, data, bytes);
}

static struct storage *open_storage(const char *url)
{
    struct storage *storage;
    struct error err = {0};
    ASSERT_OK(storage_open(url, NULL, &storage, &err), err);
    return storage;
}

TEST(storage_s3, lists_like_a_directory)
{
    s3_server();
    put("tree/b/two", "22", 2);
    put("tree/b-one", "1", 1);
    put("tree/b/", "", 0);
    put("tree/.dot", "x", 1);
    put("tree/empty", "", 0);
    put("treetop", "x", 1);
    struct storage *storage = open_storage("s3://plain/tree/");
    const struct storage_file *files;
    char text[200];
    ASSERT_INT(storage_files(storage, &files), ==, 3);
    ASSERT_TEXT(files[0].name, "b-one");
    ASSERT_TEXT(files[1].name, "b/two");
    ASSERT_TEXT(files[2].name, "empty");
    ASSERT_INT(files[1].bytes, ==, 2);
    ASSERT_FALSE(storage_is_local(storage));
    ASSERT_TEXT(storage_describe(storage, 1, text, sizeof text), "s3://plain/tree/b/two");
    const uint8_t *map;
    struct error err = {0};
    ASSERT_OK(storage_map(storage, 2, &map, &err), err);
    storage_close(storage);
    ASSERT_FAILS(storage_open("s3://plain/no-such", NULL, &storage, &err), err, ERROR_IO,
                 "nothing with this prefix");
    ASSERT_FAILS(storage_open("s3://missing/x", NULL, &storage, &err), err, ERROR_IO, "no bucket");
}

/* The bucket "denied" refuses every list. */
TEST(storage_s3, opens_files_of_known_names_without_a_list)
{
    static const char *const names[] = {"two", "none", "one"};
    struct storage *storage;
    const struct storage_file *files;
    struct error err = {0};
    char text[2];
    s3_server();
    put_into("denied", "known/one", "1", 1);
    put_into("denied", "known/two", "22", 2);
    ASSERT_FAILS(storage_open("s3://denied/known", NULL, &storage, &err), err, ERROR_IO, "denied");
    ASSERT_OK(storage_open_files("s3://denied/known", names, 3, NULL, &storage, &err), err);
    ASSERT_INT(storage_files(storage, &files), ==, 2);
    ASSERT_INT(storage_find(storage, "one"), ==, 0);
    ASSERT_INT(files[1].bytes, ==, 2);
    ASSERT_OK(storage_read(storage, 1, 0, 2, text, &err), err);
    ASSERT_BYTES(text, "22", 2);
    storage_close(storage);
    /* Where none is there, it is worth a question why. */
    ASSERT_FAILS(storage_open_files("s3://denied/other", names, 3, NULL, &storage, &err), err,
                 ERROR_IO, "access denied");
    ASSERT_FAILS(storage_open_files("s3://plain/other", names, 3, NULL, &storage, &err), err,
                 ERROR_IO, "nothing with this prefix");
    ASSERT_FAILS(storage_open_files("s3://missing/x", names, 3, NULL, &storage, &err), err,
                 ERROR_IO, "no bucket");
    setenv("AWS_SECRET_ACCESS_KEY", "mistaken", 1);
    ASSERT_FAILS(storage_open_files("s3://plain/ranges", names, 3, NULL, &storage, &err), err,
                 ERROR_IO, "the secret key is wrong");
}

static void check_range(struct storage *storage, size_t offset, size_t bytes)
{
    struct error err = {0};
    uint8_t *part = malloc(bytes);
    ASSERT_OK(storage_read(storage, 0, offset, bytes, part, &err), err);
    ASSERT_BYTES(part, content() + offset, bytes);
    free(part);
}

static void *read_many(void *context)
{
    for (size_t i = 0; i < 40; i++)
        check_range(context, i * 400009 % (BYTES - 70000), 70000);
    return NULL;
}

TEST(storage_s3, reads_ranges_announced_or_not_from_many_threads)
{
    s3_server();
    put("ranges/file", content(), BYTES);
    struct storage *storage = open_storage("s3://plain/ranges");
    check_range(storage, 12345, 1000);
    storage_expect(storage, 0, 0, 1000);
    storage_expect(storage, 0, 1000, 70000); /* joins the first, if it has not begun */
    storage_expect(storage, 0, 5 << 20, 15 << 20);
    check_range(storage, 0, 71000);
    check_range(storage, 500, 200000); /* beyond what was announced */
    check_range(storage, (5 << 20) - 10, (15 << 20) + 10);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, read_many, storage);
    for (size_t i = 0; i < 40; i++)
        storage_expect(storage, 0, i * 400009 % (BYTES - 70000), 70000);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    storage_close(storage);
}

static void *map_it(void *context)
{
    const uint8_t *map = NULL;
    struct error err = {0};
    ASSERT_OK(storage_map(context, 0, &map, &err), err);
    return (void *)(uintptr_t)map;
}

static int cache_entries(void)
{
    int count = 0;
    DIR *directory = opendir(test_path("cache/s3"));
    for (const struct dirent *at; directory && (at = readdir(directory));)
        count += at->d_name[0] != '.' || strlen(at->d_name) > 10; /* entries, parts, their locks */
    if (directory)
        closedir(directory);
    return count;
}

TEST(storage_s3, maps_through_the_cache_and_reads_from_it_afterwards)
{
    s3_server();
    put("mapped/file", content(), BYTES);
    struct storage *storage = open_storage("s3://plain/mapped");
    pthread_t threads[3];
    void *maps[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, map_it, storage);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], &maps[i]);
    ASSERT_TRUE(maps[0] && maps[0] == maps[1] && maps[1] == maps[2]);
    ASSERT_BYTES(maps[0], content(), BYTES);
    ASSERT_INT(cache_entries(), ==, 1);
    storage_close(storage);
    /* The object is gone from the server's point of view, but not its bytes here. */
    storage = open_storage("s3://plain/mapped");
    uint8_t changed = 1;
    put("mapped/file", &changed, 1);
    check_range(storage, 1 << 20, 1 << 20);
    storage_close(storage);
}

TEST(storage_s3, notices_an_object_that_changes)
{
    s3_server();
    put("changing/file", "before", 6);
    struct storage *storage = open_storage("s3://plain/changing");
    put("changing/file", "behind", 6);
    char text[6];
    struct error err = {0};
    const uint8_t *map;
    ASSERT_FAILS(storage_read(storage, 0, 0, 6, text, &err), err, ERROR_IO,
                 "changed while it was being read");
    ASSERT_FAILS(storage_map(storage, 0, &map, &err), err, ERROR_IO,
                 "changed while it was being read");
    storage_close(storage);
}

static int fill(void *context, uint8_t *into, struct error *err)
{
    if (*(size_t *)context == 0)
        return error_set(err, ERROR_IO, "it does not come");
    memset(into, 7, *(size_t *)context);
    return 0;
}

TEST(cache, keeps_its_size_and_what_is_in_use)
{
    s3_server();
    setenv("LOCKSTEP_CACHE_DIR", test_path("small"), 1);
    setenv("LOCKSTEP_CACHE_BYTES", "3K", 1);
    struct cached first, second, third, gone;
    size_t bytes = 1024, none = 0;
    struct error err = {0};
    ASSERT_OK(cache_bring("first", bytes, fill, &bytes, NULL, &first, &err), err);
    ASSERT_OK(cache_bring("second", bytes, fill, &bytes, NULL, &second, &err), err);
    ASSERT_OK(cache_bring("third", bytes, fill, &bytes, NULL, &third, &err), err);
    ASSERT_FAILS(cache_bring("fourth", bytes, fill, &bytes, NULL, &gone, &err), err, ERROR_IO,
                 "LOCKSTEP_CACHE_BYTES");
    cached_release(&second);
    ASSERT_FAILS(cache_bring("fourth", bytes, fill, &none, NULL, &gone, &err), err, ERROR_IO,
                 "does not come");
    ASSERT_FALSE(cache_find("second", bytes, &gone)); /* it had made room */
    ASSERT_FALSE(cache_find("fourth", bytes, &gone));
    ASSERT_TRUE(cache_find("first", bytes, &second));
    ASSERT_INT(second.data[1023], ==, 7);
    cached_release(&second);
    cached_release(&first);
    cached_release(&third);
    setenv("LOCKSTEP_CACHE_BYTES", "lots", 1);
    ASSERT_FAILS(cache_bring("fifth", bytes, fill, &bytes, NULL, &gone, &err), err, ERROR_USAGE,
                 "LOCKSTEP_CACHE_BYTES=lots");
}
