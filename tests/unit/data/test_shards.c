#include "data/shards.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "data/shard_index.h"
#include "data/storage_kind.h"
#include "support/test.h"
#include "wire/tfrecord.h"

enum { FILE_LIMIT = 1 << 24, PER_SHARD = 5, TEXT_BYTES = 17, FRAME_BYTES = 16 };

static struct shards *open_shards(const char *directory)
{
    struct shards *shards;
    struct error err = {0};
    ASSERT_OK(shards_open(test_path("%s", directory), "train", 3, NULL, &shards, &err), err);
    return shards;
}

static void make_directory(const char *name)
{
    struct error err = {0};
    ASSERT_OK(directory_make(test_path("%s", name), &err), err);
}

/* PER_SHARD records "shard S record R", of TEXT_BYTES and more: each longer by one. */
static const char *write_shard(const char *directory, const char *name, int shard,
                               enum tfrecord_packing packing)
{
    struct tfrecord_writer *writer;
    struct error err = {0};
    const char *path = test_path("%s/%s", directory, name);
    ASSERT_OK(tfrecord_writer_create(path, packing, &writer, &err), err);
    for (int i = 0; i < PER_SHARD; i++) {
        char text[64] = {0};
        int length = snprintf(text, sizeof text, "shard %d record %d", shard, i) + 1 + i;
        ASSERT_OK(tfrecord_writer_add(writer, text, (size_t)length, &err), err);
    }
    ASSERT_OK(tfrecord_writer_finish(writer, &err), err);
    tfrecord_writer_destroy(writer);
    return path;
}

static void write_set(const char *directory, int first, int count)
{
    make_directory(directory);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "train-%05d-of-%05d", first + i, count);
        write_shard(directory, name, i, (enum tfrecord_packing)(i % 3));
    }
}

static void expect_all(struct shards *shards, int count)
{
    struct error err = {0};
    ASSERT_INT(shards_file_count(shards), ==, count);
    ASSERT_INT(shards_count(shards), ==, count * PER_SHARD);
    for (int i = count * PER_SHARD - 1; i >= 0; i--) {
        struct shard_record record;
        char text[64];
        snprintf(text, sizeof text, "shard %d record %d", i / PER_SHARD, i % PER_SHARD);
        shards_expect(shards, i);
        ASSERT_OK(shards_take(shards, i, &record, &err), err);
        ASSERT_TEXT((const char *)record.data, text);
        ASSERT_INT(record.number, ==, i % PER_SHARD);
        shards_give(shards, &record);
    }
}

static void open_and_expect(const char *directory, int count)
{
    struct shards *shards = open_shards(directory);
    expect_all(shards, count);
    shards_close(shards);
}

static void expect_failure(const char *directory, enum error_code code, const char *part)
{
    struct shards *shards;
    struct error err;
    ASSERT_FAILS(shards_open(test_path("%s", directory), "train", 2, NULL, &shards, &err), err,
                 code, part);
}

TEST(shards, numbers_from_0_or_1_packed_or_not_in_the_directory_or_its_folder)
{
    write_set("zero", 0, 4);
    open_and_expect("zero", 4);
    open_and_expect("zero", 4); /* now from the index */
    write_set("one", 1, 4);
    open_and_expect("one", 4);
    make_directory("folder");
    write_set("folder/train", 0, 3);
    open_and_expect("folder", 3);
    ASSERT_TRUE(access(test_path("folder/.lockstep/train.index"), F_OK) == 0);
}

static int cannot_map(struct storage *storage, int file, const uint8_t **out, struct error *err)
{
    (void)storage;
    (void)file;
    (void)out;
    return error_set(err, ERROR_IO, "far away");
}

/* Local files as a storage gives them that is not local: only read, never mapped. */
TEST(shards, what_lies_far_away_is_read_piece_by_piece_and_not_mapped)
{
    struct storage_kind far = storage_kind_local;
    far.local = false;
    far.map = cannot_map;
    write_set("far", 0, 4);
    setenv("XDG_CACHE_HOME", test_path("far cache"), 1);
    for (int time = 0; time < 2; time++) {
        struct storage *storage;
        struct shards *shards;
        struct shard_record one, two;
        struct error err = {0};
        ASSERT_OK(storage_open(test_path("far"), NULL, &storage, &err), err);
        storage->kind = &far;
        ASSERT_OK(shards_open_storage(storage, "train", 2, &shards, &err), err);
        expect_all(shards, 4);
        uint64_t before = memory_allocation_count();
        ASSERT_OK(shards_take(shards, 0, &one, &err), err);
        ASSERT_INT(memory_allocation_count(), ==, before); /* a buffer is taken again */
        ASSERT_OK(shards_take(shards, 1, &two, &err), err);
        ASSERT_TEXT((const char *)one.data, "shard 0 record 0");
        ASSERT_TEXT((const char *)two.data, "shard 0 record 1");
        shards_give(shards, &two);
        shards_give(shards, &one);
        shards_close(shards);
    }
    ASSERT_TRUE(access(test_path("far/.lockstep"), F_OK) != 0);
    unsetenv("XDG_CACHE_HOME");
}

static int far_open(const char *directory, struct shards **out, struct error *err)
{
    static struct storage_kind far;
    struct storage *storage;
    far = storage_kind_local;
    far.local = false;
    far.map = cannot_map;
    if (storage_open(test_path("%s", directory), NULL, &storage, err) < 0)
        return -1;
    storage->kind = &far;
    return shards_open_storage(storage, "train", 2, out, err);
}

static int files_in(const char *name, bool remove)
{
    int count = 0;
    DIR *directory = opendir(test_path("%s", name));
    for (const struct dirent *at; directory && (at = readdir(directory));) {
        count += at->d_name[0] != '.';
        if (remove && at->d_name[0] != '.')
            unlinkat(dirfd(directory), at->d_name, 0);
    }
    if (directory)
        closedir(directory);
    return count;
}

TEST(shards, packed_ones_from_far_away_are_unpacked_into_the_bounded_cache)
{
    struct shards *shards;
    struct error err = {0};
    write_set("far packed", 0, 6); /* four of them are */
    setenv("XDG_CACHE_HOME", test_path("far home"), 1);
    setenv("LOCKSTEP_CACHE_DIR", test_path("far entries"), 1);
    setenv("LOCKSTEP_CACHE_BYTES", "400", 1);
    ASSERT_FAILS(far_open("far packed", &shards, &err), err, ERROR_IO, "LOCKSTEP_CACHE_BYTES");
    ASSERT_INT(files_in("far entries/s3", true), <=, 2);
    setenv("LOCKSTEP_CACHE_BYTES", "1M", 1);
    for (int time = 0; time < 3; time++) {
        ASSERT_OK(far_open("far packed", &shards, &err), err);
        expect_all(shards, 6);
        ASSERT_INT(files_in("far entries/s3", false), ==, 4);
        shards_close(shards);
        if (time == 1)
            files_in("far entries/s3", true); /* others needed the room */
    }
    unsetenv("XDG_CACHE_HOME");
    unsetenv("LOCKSTEP_CACHE_DIR");
    unsetenv("LOCKSTEP_CACHE_BYTES");
}

TEST(shards, a_missing_shard_is_named)
{
    write_set("gap", 0, 5);
    ASSERT_TRUE(unlink(test_path("gap/train-00003-of-00005")) == 0);
    expect_failure("gap", ERROR_IO, "1 of 5 shards of 'train' missing: train-00003-of-00005");
    ASSERT_TRUE(unlink(test_path("gap/train-00000-of-00005")) == 0);
    expect_failure("gap", ERROR_IO, "missing: train-00000-of-00005 and others");
    write_set("last", 1, 3);
    ASSERT_TRUE(unlink(test_path("last/train-00002-of-00003")) == 0);
    expect_failure("last", ERROR_IO, "missing: train-00002-of-00003");
    make_directory("none");
    expect_failure("none", ERROR_IO, "holds no TFRecord files train-*-of-*");
}

TEST(shards, two_sets_in_one_place_are_refused)
{
    write_set("mixed", 0, 2);
    write_shard("mixed", "train-00000-of-00003", 0, TFRECORD_PLAIN);
    expect_failure("mixed", ERROR_USAGE, "shards of two sets");
    write_set("twice", 0, 2);
    write_shard("twice", "train-00001-of-00002.gz", 0, TFRECORD_GZIP);
    expect_failure("twice", ERROR_USAGE, "number 1 is there twice");
    write_set("both", 0, 2);
    write_shard("both", "train-00002-of-00002", 0, TFRECORD_PLAIN);
    expect_failure("both", ERROR_USAGE, "numbered from 0 to 2");
}

TEST(shards, names_that_only_look_alike_are_left_out)
{
    write_set("alike", 0, 2);
    static const char *const others[] = {"train-00000-of-00002.77.part", "train-x-of-00002",
                                         "train-00000-of-", "training-00000-of-00002", "train-1"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        test_file(test_path("alike/%s", others[i]) + strlen(test_directory()) + 1, "x", 1);
    open_and_expect("alike", 2);
}

TEST(shards, a_changed_set_is_indexed_anew)
{
    write_set("changed", 0, 2);
    open_and_expect("changed", 2);
    write_shard("changed", "train-00001-of-00002", 7, TFRECORD_PLAIN);
    struct shards *shards = open_shards("changed");
    struct error err = {0};
    struct shard_record record;
    ASSERT_OK(shards_take(shards, PER_SHARD, &record, &err), err);
    ASSERT_TEXT((const char *)record.data, "shard 7 record 0");
    shards_close(shards);
}

/* Whatever stands where the index should be, the records are the right ones. */
TEST(shards, a_damaged_index_is_never_trusted)
{
    write_set("index", 0, 4);
    open_and_expect("index", 4);
    const char *path = test_path("index/.lockstep/train.index");
    struct error err = {0};
    char *good, *again;
    size_t count, again_count;
    ASSERT_OK(file_read(path, FILE_LIMIT, &good, &count, &err), err);
    for (size_t byte = 0; byte < count; byte += 3) {
        good[byte] ^= 0x24;
        ASSERT_OK(file_write_atomic(path, good, count, &err), err);
        good[byte] ^= 0x24;
        open_and_expect("index", 4);
    }
    for (size_t cut = 0; cut < count; cut += 11) {
        ASSERT_OK(file_write_atomic(path, good, cut, &err), err);
        open_and_expect("index", 4);
    }
    ASSERT_OK(file_read(path, FILE_LIMIT, &again, &again_count, &err), err);
    ASSERT_INT(again_count, ==, count);
    ASSERT_BYTES(again, good, count);
    memory_free(good);
    memory_free(again);
}

/* An index with a good checksum and plausible lengths, but others than in the file. */
static void write_lie(const char *directory, const char *name, uint64_t *offsets, int64_t count)
{
    struct stat info;
    struct strbuf out;
    struct error err = {0};
    ASSERT_TRUE(stat(test_path("%s/%s", directory, name), &info) == 0);
    struct shard_entry entry = {.name = name,
                                .bytes = (uint64_t)info.st_size,
                                .modified = (int64_t)info.st_mtim.tv_sec * 1000000000 +
                                            info.st_mtim.tv_nsec,
                                .plain_bytes = (uint64_t)info.st_size,
                                .count = count,
                                .offsets = offsets};
    strbuf_init(&out);
    shard_index_encode(&entry, 1, &out);
    ASSERT_OK(file_write_atomic(test_path("%s/.lockstep/train.index", directory), out.text,
                                out.length, &err),
              err);
    strbuf_release(&out);
}

TEST(shards, a_lying_index_gives_no_wrong_record)
{
    static const char name[] = "train-00000-of-00001";
    write_set("lie", 0, 1);
    open_and_expect("lie", 1);
    uint64_t offsets[PER_SHARD + 1] = {0};
    for (int i = 0; i < PER_SHARD; i++)
        offsets[i + 1] = offsets[i] + FRAME_BYTES + TEXT_BYTES + (uint64_t)i;
    write_lie("lie", name, offsets, PER_SHARD); /* the truth: it is taken */
    open_and_expect("lie", 1);
    uint64_t merged[] = {offsets[0], offsets[2], offsets[3], offsets[4], offsets[5]};
    write_lie("lie", name, merged, 4); /* seen at the first record */
    open_and_expect("lie", 1);
    offsets[2] += 1;
    write_lie("lie", name, offsets, PER_SHARD); /* only seen when it is read */
    struct shards *shards = open_shards("lie");
    struct shard_record record;
    struct error err = {0};
    ASSERT_OK(shards_take(shards, 0, &record, &err), err);
    ASSERT_FAILS(shards_take(shards, 1, &record, &err), err, ERROR_FORMAT,
                 "record 1 is not where the index says; start again");
    ASSERT_FAILS(shards_take(shards, 2, &record, &err), err, ERROR_FORMAT, "train-00000-of-00001");
    shards_close(shards);
    open_and_expect("lie", 1);
}

static void count_line(void *context, enum log_level level, const char *line)
{
    ASSERT_INT(level, ==, LOG_WARNING);
    ASSERT_CONTAINS(line, "damaged");
    ++*(int *)context;
}

TEST(shards, a_record_with_damaged_data_is_reported_and_fails_alone)
{
    struct error err = {0};
    char *bytes;
    size_t count;
    make_directory("damaged");
    const char *path = write_shard("damaged", "train-00000-of-00001", 0, TFRECORD_PLAIN);
    ASSERT_OK(file_read(path, FILE_LIMIT, &bytes, &count, &err), err);
    bytes[FRAME_BYTES + TEXT_BYTES + 12] ^= 1; /* in the data of record 1 */
    ASSERT_OK(file_write_atomic(path, bytes, count, &err), err);
    for (int time = 0; time < 2; time++) {
        int lines = 0;
        log_set_sink(count_line, &lines);
        struct shards *shards = open_shards("damaged");
        log_set_sink(NULL, NULL);
        ASSERT_INT(lines, ==, time == 0 ? 2 : 1);
        ASSERT_INT(shards_damaged(shards), ==, 1);
        struct shard_record record;
        ASSERT_FAILS(shards_take(shards, 1, &record, &err), err, ERROR_FORMAT, "record 1: ");
        ASSERT_CONTAINS(err.message, "train-00000-of-00001: the record of 18 bytes at offset 33");
        ASSERT_OK(shards_take(shards, 2, &record, &err), err);
        shards_close(shards);
    }
    memory_free(bytes);
}

TEST(shards, a_damaged_length_or_a_cut_file_is_named)
{
    struct error err = {0};
    char *bytes;
    size_t count;
    make_directory("length");
    const char *path = write_shard("length", "train-00000-of-00001", 0, TFRECORD_PLAIN);
    ASSERT_OK(file_read(path, FILE_LIMIT, &bytes, &count, &err), err);
    size_t last = count - (FRAME_BYTES + TEXT_BYTES + PER_SHARD - 1);
    for (size_t cut = last + 1; cut < count; cut++) {
        ASSERT_OK(file_write_atomic(path, bytes, cut, &err), err);
        expect_failure("length", ERROR_FORMAT, "record 4: ");
    }
    bytes[FRAME_BYTES + TEXT_BYTES + 9] ^= 1; /* in the length's sum of record 1 */
    ASSERT_OK(file_write_atomic(path, bytes, count, &err), err);
    expect_failure("length", ERROR_FORMAT, "record 1: ");
    memory_free(bytes);
}

TEST(shards, a_damaged_packed_shard_is_refused_and_leaves_nothing)
{
    struct error err = {0};
    char *bytes;
    size_t count;
    make_directory("packed");
    const char *path = write_shard("packed", "train-00000-of-00001", 0, TFRECORD_GZIP);
    ASSERT_OK(file_read(path, FILE_LIMIT, &bytes, &count, &err), err);
    for (size_t cut = 3; cut < count; cut += 5) {
        ASSERT_OK(file_write_atomic(path, bytes, cut, &err), err);
        expect_failure("packed", ERROR_FORMAT, "ends too early");
    }
    ASSERT_TRUE(access(test_path("packed/.lockstep/train-00000-of-00001.unpacked"), F_OK) != 0);
    /* Two members one after the other are one file. */
    char *twice = memory_allocate(2 * count);
    memcpy(twice, bytes, count);
    memcpy(twice + count, bytes, count);
    ASSERT_OK(file_write_atomic(path, twice, 2 * count, &err), err);
    struct shards *shards = open_shards("packed");
    ASSERT_INT(shards_count(shards), ==, 2 * PER_SHARD);
    shards_close(shards);
    memory_free(twice);
    memory_free(bytes);
}

TEST(shards, an_unpacked_file_that_is_gone_or_cut_is_made_again)
{
    write_set("again", 0, 3);
    open_and_expect("again", 3);
    const char *unpacked = test_path("again/.lockstep/train-00001-of-00003.unpacked");
    ASSERT_TRUE(truncate(unpacked, 5) == 0);
    open_and_expect("again", 3);
    ASSERT_TRUE(unlink(unpacked) == 0);
    open_and_expect("again", 3);
}

/* Root may write everywhere, so the directory is taken away in another manner: a file stands where
 * .lockstep should be. */
TEST(shards, the_index_goes_to_the_cache_when_it_cannot_lie_beside_the_data)
{
    write_set("elsewhere", 0, 3);
    test_file("elsewhere/.lockstep", "", 0);
    setenv("XDG_CACHE_HOME", test_path("cache"), 1);
    open_and_expect("elsewhere", 3);
    open_and_expect("elsewhere", 3);
    ASSERT_TRUE(access(test_path("cache/lockstep/index"), F_OK) == 0);
    test_file("no-cache", "", 0);
    setenv("XDG_CACHE_HOME", test_path("no-cache"), 1);
    expect_failure("elsewhere", ERROR_IO, "nowhere to unpack");
    write_set("plain only", 0, 1);
    test_file("plain only/.lockstep", "", 0);
    open_and_expect("plain only", 1);
    unsetenv("XDG_CACHE_HOME");
}

/* A full disk, as a limit on the size of files. */
TEST(shards, no_room_for_unpacking_is_said_and_leaves_nothing)
{
    struct rlimit before, small;
    struct storage *storage;
    struct error err = {0};
    const struct storage_file *files;
    write_set("full", 0, 2);
    signal(SIGXFSZ, SIG_IGN);
    ASSERT_TRUE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 100;
    ASSERT_TRUE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    struct shards *shards;
    int status = shards_open(test_path("full"), "train", 2, NULL, &shards, &err);
    ASSERT_TRUE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    ASSERT_INT(status, ==, -1);
    ASSERT_INT(err.code, ==, ERROR_IO);
    ASSERT_CONTAINS(err.message, "unpacking ");
    ASSERT_CONTAINS(err.message, "full/train-00001-of-00002: ");
    ASSERT_OK(storage_open(test_path("full/.lockstep"), NULL, &storage, &err), err);
    ASSERT_INT(storage_files(storage, &files), ==, 0);
    storage_close(storage);
}

TEST(shards, empty_shards_are_fine_but_not_alone)
{
    write_set("empty", 0, 2);
    test_file("empty/train-00000-of-00002", "", 0);
    struct shards *shards = open_shards("empty");
    struct shard_record record;
    struct error err = {0};
    ASSERT_INT(shards_count(shards), ==, PER_SHARD);
    ASSERT_OK(shards_take(shards, 0, &record, &err), err);
    ASSERT_TEXT((const char *)record.data, "shard 1 record 0");
    shards_close(shards);
    test_file("empty/train-00001-of-00002", "", 0);
    expect_failure("empty", ERROR_FORMAT, "its 2 shards hold no records");
}
