#include "store/manifest.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/memory.h"
#include "support/checkpoint_files.h"
#include "support/test.h"
#include "wire/crc32c.h"

static char *compose(const struct manifest *manifest)
{
    char *text;
    struct error err = {0};
    ASSERT_OK(manifest_compose(manifest, &text, &err), err);
    return text;
}

static struct manifest example(void)
{
    struct manifest manifest = checkpoint_files_manifest(40, 0.75);
    manifest.index_bytes = 1234;
    manifest.data_bytes = UINT64_C(5000000000);
    manifest.index_crc = 0xdeadbeef;
    return manifest;
}

TEST(manifest, comes_back_as_it_was_written)
{
    struct manifest written = example(), read;
    struct arena *arena = arena_create();
    struct error err = {0};
    char *text = compose(&written);
    ASSERT_OK(manifest_parse("m", text, strlen(text), arena, &read, &err), err);
    memory_free(text);
    ASSERT_TEXT(read.version, "1.2.3");
    ASSERT_TEXT(read.model, "test");
    ASSERT_INT(read.step, ==, 40);
    ASSERT_INT(read.goal, ==, 100);
    ASSERT_INT(read.steps_per_epoch, ==, 7);
    ASSERT_INT(read.epoch, ==, 5);
    ASSERT_INT(read.epoch_step, ==, 5);
    ASSERT_TRUE(read.fingerprint == written.fingerprint);
    ASSERT_NUMBER(read.saved_at, ==, 1.5e9);
    ASSERT_TRUE(read.evaluated);
    ASSERT_NUMBER(read.loss, ==, 0.25);
    ASSERT_NUMBER(read.accuracy, ==, 0.75);
    ASSERT_INT(read.index_bytes, ==, 1234);
    ASSERT_INT(read.data_bytes, ==, 5000000000);
    ASSERT_INT(read.index_crc, ==, 0xdeadbeef);
    ASSERT_INT(read.setting_count, ==, 3);
    ASSERT_TEXT(manifest_setting(&read, "data"), "mnist:/a \"b\"/\\");
    ASSERT_TRUE(manifest_setting(&read, "nothing") == NULL);
    arena_destroy(arena);
}

TEST(manifest, without_an_evaluation_has_no_score)
{
    struct manifest written = checkpoint_files_manifest(3, NAN), read;
    struct arena *arena = arena_create();
    struct error err = {0};
    char *text = compose(&written);
    ASSERT_OK(manifest_parse("m", text, strlen(text), arena, &read, &err), err);
    memory_free(text);
    ASSERT_FALSE(read.evaluated);
    ASSERT_TRUE(isnan(manifest_score(&read)));
    arena_destroy(arena);
}

TEST(manifest, is_scored_by_accuracy_and_where_there_is_none_by_loss)
{
    struct manifest manifest = {.evaluated = true, .loss = 0.5, .accuracy = 0.9};
    ASSERT_NUMBER(manifest_score(&manifest), ==, 0.9);
    manifest.accuracy = NAN;
    ASSERT_NUMBER(manifest_score(&manifest), ==, -0.5);
}

TEST(manifest, is_refused_with_any_bit_flipped)
{
    struct manifest written = example(), read = {.step = -7};
    char *text = compose(&written);
    size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct arena *arena = arena_create();
            struct error err;
            text[i] ^= (char)(1 << bit);
            ASSERT_FAILS(manifest_parse("file", text, bytes, arena, &read, &err), err, ERROR_FORMAT,
                         "file: ");
            text[i] ^= (char)(1 << bit);
            arena_destroy(arena);
        }
    ASSERT_INT(read.step, ==, -7); /* untouched */
    memory_free(text);
}

TEST(manifest, is_refused_when_cut_or_zero_filled_anywhere)
{
    struct manifest written = example(), read;
    char *text = compose(&written);
    size_t bytes = strlen(text);
    char *torn = memory_allocate(bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        struct arena *arena = arena_create();
        struct error err;
        ASSERT_FAILS(manifest_parse("file", text, i, arena, &read, &err), err, ERROR_FORMAT,
                     "file: ");
        memset(torn, 0, bytes);
        memcpy(torn, text, i);
        ASSERT_FAILS(manifest_parse("file", torn, bytes, arena, &read, &err), err, ERROR_FORMAT,
                     "file: ");
        arena_destroy(arena);
    }
    memory_free(torn);
    memory_free(text);
}

TEST(manifest, with_bytes_behind_it_is_refused)
{
    struct manifest written = example(), read;
    struct arena *arena = arena_create();
    struct error err;
    char *text = compose(&written);
    size_t bytes = strlen(text);
    char *longer = memory_allocate(bytes + 2);
    memcpy(longer, text, bytes);
    longer[bytes] = ' ';
    ASSERT_FAILS(manifest_parse("file", longer, bytes + 1, arena, &read, &err), err, ERROR_FORMAT,
                 "damaged");
    memory_free(longer);
    memory_free(text);
    arena_destroy(arena);
}

/* With a right checksum, so that what is behind it is looked at. */
static void assert_refused(const char *body, const char *part)
{
    char text[2048];
    struct manifest read;
    struct arena *arena = arena_create();
    struct error err;
    int length = snprintf(text, sizeof text, "{\"crc32c\": \"%08x\", %s}", 0U, body);
    snprintf(text, sizeof text, "{\"crc32c\": \"%08x\", %s}",
             (unsigned)crc32c(0, text, (size_t)length), body);
    ASSERT_FAILS(manifest_parse("file", text, (size_t)length, arena, &read, &err), err,
                 ERROR_FORMAT, part);
    arena_destroy(arena);
}

TEST(manifest, of_another_format_or_without_its_numbers_is_refused)
{
    assert_refused("\"lockstep_checkpoint\": 2", "made by a newer lockstep (format 2)");
    assert_refused("\"x\": 1", "is no manifest of a checkpoint");
    assert_refused("\"lockstep_checkpoint\": 1", "has no fingerprint");
    assert_refused("\"lockstep_checkpoint\": 1, \"fingerprint\": \"ff\"", "does not tell its step");
    assert_refused("\"lockstep_checkpoint\": 1, \"fingerprint\": \"ff\", \"step\": "
                   "9223372036854775807, \"goal\": 1, \"steps_per_epoch\": 1, \"epoch\": 1, "
                   "\"epoch_step\": 0",
                   "does not tell its step");
    assert_refused("\"lockstep_checkpoint\": 1, \"fingerprint\": \"ff\", \"step\": 1, \"goal\": 1, "
                   "\"steps_per_epoch\": 1, \"epoch\": 1, \"epoch_step\": 0",
                   "does not tell its files' sizes");
    assert_refused("\"a\": ", "line 1");
}
