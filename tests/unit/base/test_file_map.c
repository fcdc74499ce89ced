#include "base/file_map.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/threads.h"
#include "support/test.h"

enum { PAGE = 4096, PAGES = 8, BYTES = PAGES * PAGE };

static const char *make_file(const char *name)
{
    static char bytes[BYTES];
    memset(bytes, 'x', sizeof bytes);
    return test_file(name, bytes, sizeof bytes);
}

static int sum_of(const char *bytes, size_t count)
{
    int sum = 0;
    for (size_t i = 0; i < count; i += PAGE)
        sum += *(const volatile char *)(bytes + i);
    return sum;
}

/* What the child does must not come back. The first test: the handler that is there when a process
 * makes its first map is kept, and cmocka's would go on with the tests in the child. */
static void assert_kills(void (*work)(void))
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        work();
        _exit(0);
    }
    int status;
    ASSERT_INT(waitpid(child, &status, 0), ==, child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_INT(WTERMSIG(status), ==, SIGBUS);
}

static char *map_new(const char *path)
{
    char *bytes = NULL;
    size_t count;
    struct error err = {0};
    ASSERT_OK(file_map(path, &bytes, &count, &err), err);
    ASSERT_INT(count, ==, BYTES);
    return bytes;
}

static void fault_outside(void)
{
    struct error err;
    char *ours, *others;
    size_t count;
    const char *path = test_path("others");
    FILE *file = fopen(path, "r");
    if (file_map(test_path("ours"), &ours, &count, &err) < 0 || !file)
        return;
    others = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (truncate(path, 0) == 0)
        sum_of(others, BYTES);
}

static void send_one(void)
{
    struct error err;
    char *ours;
    size_t count;
    if (file_map(test_path("ours"), &ours, &count, &err) == 0)
        kill(getpid(), SIGBUS);
}

TEST(file_map, a_fault_elsewhere_still_kills)
{
    make_file("ours");
    make_file("others");
    assert_kills(fault_outside);
    assert_kills(send_one);
}

TEST(file_map, what_a_file_loses_reads_as_zeros_and_is_told)
{
    struct error err = {0};
    const char *path = make_file("cut");
    char *bytes = map_new(path), *other = map_new(make_file("whole"));
    ASSERT_INT(sum_of(bytes, BYTES), ==, PAGES * 'x');
    ASSERT_OK(file_map_check(path, bytes, &err), err);
    ASSERT_INT(truncate(path, 3 * PAGE), ==, 0);
    ASSERT_INT(sum_of(bytes, BYTES), ==, 3 * 'x');
    ASSERT_FAILS(file_map_check(path, bytes, &err), err, ERROR_IO, "cut shrank while it was read");
    ASSERT_TRUE(file_map_is_torn(bytes + BYTES - 1));
    ASSERT_FALSE(file_map_is_torn(other));
    ASSERT_FALSE(file_map_is_torn(&err));
    file_unmap(bytes, BYTES);
    file_unmap(other, BYTES);
    /* Its place in the list is used again, by a file that is whole. */
    bytes = map_new(make_file("next"));
    ASSERT_FALSE(file_map_is_torn(bytes));
    file_unmap(bytes, BYTES);
}

static void *read_often(void *context)
{
    for (int i = 0; i < 200; i++) {
        struct error err;
        char *bytes;
        size_t count;
        if (file_map(context, &bytes, &count, &err) < 0)
            continue; /* it is empty just now */
        sum_of(bytes, count);
        file_map_is_torn(bytes);
        file_unmap(bytes, count);
    }
    return NULL;
}

TEST(file_map, threads_read_while_their_files_come_and_go)
{
    enum { THREADS = 4, FILES = 2 };
    pthread_t threads[THREADS];
    const char *paths[FILES] = {make_file("first"), make_file("second")};
    for (int i = 0; i < THREADS; i++)
        ASSERT_INT(thread_start(&threads[i], read_often, (void *)(uintptr_t)paths[i % FILES]), ==,
                   0);
    for (int i = 0; i < 2000; i++)
        ASSERT_INT(truncate(paths[i % FILES], i % 4 < 2 ? 0 : BYTES), ==, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST(file_map, more_maps_than_can_be_watched_are_copies)
{
    enum { MANY = 300 };
    struct error err = {0};
    char *maps[MANY];
    const char *path = make_file("many");
    for (int i = 0; i < MANY; i++)
        maps[i] = map_new(path);
    file_map_rest(maps[0], BYTES);
    file_map_rest(maps[MANY - 1], BYTES);
    ASSERT_INT(sum_of(maps[0], BYTES), ==, PAGES * 'x');
    ASSERT_INT(truncate(path, 0), ==, 0);
    ASSERT_INT(sum_of(maps[0], BYTES), ==, 0);
    ASSERT_INT(sum_of(maps[MANY - 1], BYTES), ==, PAGES * 'x');
    ASSERT_TRUE(file_map_is_torn(maps[0]));
    ASSERT_OK(file_map_check(path, maps[MANY - 1], &err), err);
    for (int i = 0; i < MANY; i++)
        file_unmap(maps[i], BYTES);
}

TEST(file_map, refuses_what_has_no_bytes)
{
    struct error err;
    char *bytes;
    size_t count;
    ASSERT_FAILS(file_map(test_file("empty", "", 0), &bytes, &count, &err), err, ERROR_FORMAT,
                 "is empty");
    ASSERT_FAILS(file_map("/dev/zero", &bytes, &count, &err), err, ERROR_FORMAT,
                 "is not a regular file");
}
