#include "base/arena.h"
#include "base/strbuf.h"
#include "store/safetensors.h"
#include "support/test.h"

/* A file of this header and so many zero bytes of data. */
static int parse(const char *header, size_t data_bytes, struct arena *arena,
                 struct safetensors *out, struct error *err)
{
    static char file[4096];
    size_t length = strlen(header);
    ASSERT_INT(8 + length + data_bytes, <=, sizeof file);
    memset(file, 0, sizeof file);
    for (int i = 0; i < 8; i++)
        file[i] = (char)(length >> 8 * i);
    memcpy(file + 8, header, length);
    return safetensors_parse("w", file, 8 + length + data_bytes, arena, out, err);
}

#define TENSOR(name, dtype, shape, place)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" place "}"

TEST(safetensors, names_shapes_and_places_are_read)
{
    struct arena *arena = arena_create();
    struct safetensors file;
    struct error err = {0};
    ASSERT_OK(
        parse("{\"__metadata__\":{\"a\":\"b\"}," TENSOR("b", "F32", "[2,3]", "[2,26]") "," TENSOR(
                  "empty", "F32", "[0]", "[26,26]") "," TENSOR("a", "F16", "[]", "[0,2]") "}   ",
              26, arena, &file, &err),
        err);
    ASSERT_INT(file.count, ==, 3);
    const struct safetensors_entry *b = safetensors_find(&file, "b");
    ASSERT_TEXT(b->dtype, "F32");
    ASSERT_INT(b->first, ==, 2);
    ASSERT_INT(b->bytes, ==, 24);
    struct shape expected = SHAPE(2, 3);
    ASSERT_TRUE(shape_equal(&b->shape, &expected));
    ASSERT_TRUE(safetensors_find(&file, "c") == NULL);
    ASSERT_OK(parse("{}", 0, arena, &file, &err), err);
    ASSERT_INT(file.count, ==, 0);
    arena_destroy(arena);
}

TEST(safetensors, what_is_written_is_read_again)
{
    struct safetensors_entry entries[] = {
        {.name = "conv \"1\"/weights", .dtype = "F32", .shape = SHAPE(4, 1, 2), .bytes = 32},
        {.name = "b", .dtype = "F32", .shape = {.ndim = 0}, .first = 32, .bytes = 4}};
    struct arena *arena = arena_create();
    struct strbuf text;
    struct safetensors file;
    struct error err = {0};
    strbuf_init(&text);
    ASSERT_OK(safetensors_header(entries, 2, "resnet50", &text, &err), err);
    ASSERT_INT(text.length % 8, ==, 0);
    for (int i = 0; i < 36; i++)
        strbuf_add_char(&text, (char)i);
    ASSERT_OK(safetensors_parse("w", text.text, text.length, arena, &file, &err), err);
    ASSERT_INT(file.count, ==, 2);
    for (int i = 0; i < 2; i++) {
        ASSERT_TEXT(file.entries[i].name, entries[i].name);
        ASSERT_INT(file.entries[i].first, ==, entries[i].first);
        ASSERT_TRUE(shape_equal(&file.entries[i].shape, &entries[i].shape));
    }
    ASSERT_INT(file.data[35], ==, 35);
    strbuf_release(&text);
    arena_destroy(arena);
}

TEST(safetensors, lies_are_refused)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *complaint;
    } cases[] = {
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 7, "'a' ends at byte 8 of the numbers, but only 7 are there"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "}", 9, "end at byte 8 of the data, the file at 9"},
        {"{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4, "shape [2] has 4 bytes"},
        {"{" TENSOR("a", "F32", "[2]", "[8,0]") "}", 8, "lies at"},
        {"{" TENSOR("a", "F32", "[2]", "[-8,0]") "}", 8, "lies at"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8,8]") "}", 8, "lies at"},
        {"{" TENSOR("a", "F32", "[2]", "\"x\"") "}", 8, "lies at"},
        {"{" TENSOR("a", "F32", "[-2]", "[0,8]") "}", 8, "dimension 0 of 'a'"},
        {"{" TENSOR("a", "F32", "[2.5]", "[0,8]") "}", 8, "dimension 0 of 'a'"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,2]", "[0,8]") "}", 8, "too many dimensions"},
        {"{" TENSOR("a", "F32", "[4611686018427387904,4]", "[0,0]") "}", 0, "do not fit"},
        {"{" TENSOR("a", "F33", "[2]", "[0,8]") "}", 8, "unknown dtype 'F33'"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no shape"},
        {"{\"a\":7}", 8, "unknown dtype"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[4,12]") "}", 12,
         "'b' starts at byte 4 of the data, inside"},
        {"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[0,8]") "}", 8,
         "starts at byte 0 of the data, inside"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("b", "F32", "[1]", "[8,12]") "}", 12,
         "behind a gap"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8,
         "header: line 1"},
        {"{\"a\":", 8, "header: line 1"},
        {"[]", 8, "the tensors end at byte 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena *arena = arena_create();
        struct safetensors file = {.count = -7};
        struct error err;
        ASSERT_FAILS(parse(cases[i].header, cases[i].data_bytes, arena, &file, &err), err,
                     ERROR_FORMAT, cases[i].complaint);
        ASSERT_INT(file.count, ==, -7);
        arena_destroy(arena);
    }
}

TEST(safetensors, a_file_cut_anywhere_is_refused)
{
    static const char whole[] =
        "\x3c\0\0\0\0\0\0\0{" TENSOR("a", "F32", "[2]", "[0,8]") "      }12345678";
    struct arena *arena = arena_create();
    struct safetensors file;
    struct error err = {0};
    ASSERT_OK(safetensors_parse("w", whole, sizeof whole - 1, arena, &file, &err), err);
    for (size_t length = 0; length < sizeof whole - 1; length++)
        ASSERT_FAILS(safetensors_parse("w", whole, length, arena, &file, &err), err, ERROR_FORMAT,
                     "w: ");
    ASSERT_FAILS(
        safetensors_parse("w", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, arena, &file, &err), err,
        ERROR_FORMAT, "promises a header of 18446744073709551615 bytes, but 2 follow");
    arena_destroy(arena);
}
