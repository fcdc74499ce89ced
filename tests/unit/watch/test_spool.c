/* Files written by a thread of its own. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "support/test.h"
#include "watch/spool.h"

static struct {
    int count;
    char first[1024], last[1024];
} said;

static void remember(void *context, enum log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(said.count++ ? said.last : said.first, sizeof said.first, "%s", line);
}

static void listen_to_log(void)
{
    memset(&said, 0, sizeof said);
    log_set_sink(remember, NULL);
}

static struct spool *create(size_t capacity, double patience)
{
    struct spool *spool;
    struct error err = {0};
    struct spool_options options = {.capacity = capacity, .patience_seconds = patience};
    ASSERT_OK(spool_create(&options, &spool, &err), err);
    return spool;
}

static int append_to(struct spool *spool, const char *path)
{
    struct error err = {0};
    int file = spool_append(spool, open(path, O_WRONLY | O_CREAT | O_APPEND, 0666), path, &err);
    ASSERT_INT(file, >=, 0);
    return file;
}

static bool put(struct spool *spool, int file, const char *text)
{
    return spool_write(spool, file, &(struct spool_part){text, strlen(text)}, 1);
}

/* What the file holds, in static memory. */
static const char *content(const char *path)
{
    static char text[4096];
    char *bytes;
    size_t count;
    struct error err = {0};
    ASSERT_OK(file_read(path, sizeof text - 1, &bytes, &count, &err), err);
    memcpy(text, bytes, count + 1);
    memory_free(bytes);
    return text;
}

TEST(spool, appends_records_in_order_and_whole)
{
    const char *path = test_path("appended");
    struct spool *spool = create(0, 0);
    int file = append_to(spool, path);
    struct spool_part parts[] = {{"one, ", 5}, {"", 0}, {"two, ", 5}};
    ASSERT_TRUE(spool_write(spool, file, parts, 3));
    ASSERT_TRUE(put(spool, file, "three"));
    spool_destroy(spool);
    ASSERT_TEXT(content(path), "one, two, three");
}

TEST(spool, replaces_what_a_file_held)
{
    const char *path = test_path("replaced");
    struct spool *spool = create(0, 0);
    struct error err = {0};
    ASSERT_OK(file_write_atomic(path, "something longer that stood there before", 40, &err), err);
    int file = spool_replace(spool, path, &err);
    ASSERT_INT(file, >=, 0);
    put(spool, file, "9/10\n");
    put(spool, file, "10/10\n");
    spool_destroy(spool);
    ASSERT_TEXT(content(path), "10/10\n");
}

TEST(spool, leaves_records_out_when_the_disk_is_full_and_says_so_once)
{
    struct spool *spool = create(0, 0);
    listen_to_log();
    int file = append_to(spool, "/dev/full");
    for (int i = 0; i < 5; i++)
        ASSERT_TRUE(put(spool, file, "record"));
    spool_destroy(spool);
    log_set_sink(NULL, NULL);
    ASSERT_INT(said.count, ==, 2);
    ASSERT_CONTAINS(said.first, "/dev/full: No space left on device; what cannot be written is ");
    ASSERT_TEXT(said.last, "/dev/full: 5 records were left out");
}

TEST(spool, warns_once_of_a_file_that_cannot_be_made)
{
    struct spool *spool = create(0, 0);
    struct error err = {0};
    listen_to_log();
    int file = spool_replace(spool, "/nowhere/progress", &err);
    for (int i = 0; i < 3; i++)
        put(spool, file, "1/2\n");
    spool_destroy(spool);
    log_set_sink(NULL, NULL);
    ASSERT_INT(said.count, ==, 2);
    ASSERT_CONTAINS(said.first, "/nowhere/progress: No such file or directory");
}

/* A pipe that nobody reads is the slowest disk there is. */
TEST(spool, never_waits_for_a_slow_disk)
{
    static char record[1 << 12];
    const char *path = test_path("pipe");
    ASSERT_INT(mkfifo(path, 0666), ==, 0);
    int reader = open(path, O_RDWR);
    ASSERT_INT(reader, >=, 0);
    struct spool *spool = create(1 << 16, 0.2);
    int file = append_to(spool, path);
    listen_to_log();
    int left_out = 0;
    double start = clock_seconds();
    for (int i = 0; i < 200; i++)
        left_out += !spool_write(spool, file, &(struct spool_part){record, sizeof record}, 1);
    ASSERT_NUMBER(clock_seconds() - start, <, 2);
    ASSERT_INT(left_out, >, 100);
    ASSERT_INT(spool_left_out(spool, file), ==, left_out);
    ASSERT_INT(said.count, ==, 1);
    ASSERT_CONTAINS(said.first, "the disk is too slow");
    /* Somebody reads at last, and the rest is written. */
    ASSERT_INT(fcntl(reader, F_SETFL, O_NONBLOCK), ==, 0);
    size_t got = 0;
    for (double end = clock_seconds() + 5; got < (200 - (size_t)left_out) * sizeof record;) {
        char bytes[1 << 12];
        ssize_t count = read(reader, bytes, sizeof bytes);
        got += count > 0 ? (size_t)count : 0;
        ASSERT_NUMBER(clock_seconds(), <, end);
    }
    spool_destroy(spool);
    log_set_sink(NULL, NULL);
    close(reader);
    unlink(path);
}

TEST(spool, gives_up_on_a_disk_that_hangs)
{
    static char record[1 << 17];
    const char *path = test_path("hanging");
    ASSERT_INT(mkfifo(path, 0666), ==, 0);
    int reader = open(path, O_RDWR);
    struct spool *spool = create(1 << 18, 0.1);
    int file = append_to(spool, path);
    ASSERT_TRUE(spool_write(spool, file, &(struct spool_part){record, sizeof record}, 1));
    listen_to_log();
    double start = clock_seconds();
    spool_destroy(spool);
    ASSERT_NUMBER(clock_seconds() - start, <, 5);
    ASSERT_CONTAINS(said.first, "the disk did not take what was left within 0.1 s");
    log_set_sink(NULL, NULL);
    close(reader); /* now its thread ends, and frees what it used */
}

TEST(spool, allocates_nothing_for_a_record)
{
    struct spool *spool = create(0, 0);
    int file = append_to(spool, "/dev/null");
    uint64_t before = memory_allocation_count();
    for (int i = 0; i < 100; i++)
        put(spool, file, "record");
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    spool_destroy(spool);
}
