#include "serve/tensor_message.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "support/test.h"

static struct strbuf message;
static struct arena *arena;
static struct error err;

static void begin(int type, const struct shape *shape)
{
    if (!arena) {
        arena = arena_create();
        strbuf_init(&message);
    }
    strbuf_clear(&message);
    proto_add_varint(&message, 1, (uint64_t)type);
    tensor_message_write_shape(2, shape, &message);
}

static int read_limited(size_t limit, struct tensor *out)
{
    struct proto_reader reader;
    proto_open(&reader, message.text, message.length);
    return tensor_message_read(&reader, limit, arena, out, &err);
}

static int read_back(struct tensor *out)
{
    return read_limited(1 << 20, out);
}

TEST(tensor_message, takes_floats_packed_and_one_by_one)
{
    struct tensor tensor;
    begin(1, &SHAPE(2, 2));
    float packed[] = {1.5f, -2};
    proto_add_bytes(&message, 5, packed, sizeof packed);
    proto_add_float(&message, 5, 3);
    proto_add_float(&message, 5, 4);
    ASSERT_OK(read_back(&tensor), err);
    ASSERT_INT(tensor.dtype, ==, DTYPE_F32);
    ASSERT_INT(tensor.shape.ndim, ==, 2);
    ASSERT_BYTES(tensor.data, ((float[]){1.5f, -2, 3, 4}), 16);
}

TEST(tensor_message, goes_on_with_the_last_value_of_a_short_list)
{
    struct tensor tensor;
    begin(3, &SHAPE(5));
    proto_add_varint(&message, 7, 4);
    proto_add_varint(&message, 7, (uint64_t)-9);
    ASSERT_OK(read_back(&tensor), err);
    ASSERT_BYTES(tensor.data, ((int32_t[]){4, -9, -9, -9, -9}), 20);
}

TEST(tensor_message, takes_an_empty_list_as_zeros_and_empty_texts)
{
    struct tensor tensor;
    begin(9, &SHAPE(3));
    ASSERT_OK(read_back(&tensor), err);
    ASSERT_BYTES(tensor.data, ((int64_t[]){0, 0, 0}), 24);
    begin(7, &SHAPE(2));
    ASSERT_OK(read_back(&tensor), err);
    ASSERT_INT(((struct text_view *)tensor.data)[1].count, ==, 0);
    ASSERT_TRUE(((struct text_view *)tensor.data)[1].bytes != NULL);
}

TEST(tensor_message, passes_over_values_that_the_shape_has_no_room_for)
{
    struct tensor tensor;
    begin(4, &SHAPE(2));
    for (uint64_t i = 250; i < 260; i++)
        proto_add_varint(&message, 7, i);
    ASSERT_OK(read_back(&tensor), err);
    ASSERT_BYTES(tensor.data, ((uint8_t[]){250, 251}), 2);
}

TEST(tensor_message, takes_numbers_from_tensor_content_wherever_it_lies)
{
    float values[] = {1, 2, 3};
    for (size_t pad = 1; pad <= 4; pad++) {
        struct tensor tensor;
        begin(1, &SHAPE(3));
        proto_add_bytes(&message, 99, "pads", pad);
        proto_add_bytes(&message, 4, values, sizeof values);
        ASSERT_OK(read_back(&tensor), err);
        ASSERT_INT((uintptr_t)tensor.data % sizeof(float), ==, 0);
        ASSERT_BYTES(tensor.data, values, sizeof values);
    }
}

TEST(tensor_message, takes_texts_from_tensor_content)
{
    struct tensor tensor;
    begin(7, &SHAPE(3));
    proto_add_bytes(&message, 4, "\3\0\2abcde", 8);
    ASSERT_OK(read_back(&tensor), err);
    const struct text_view *texts = tensor.data;
    ASSERT_INT(texts[0].count, ==, 3);
    ASSERT_BYTES(texts[0].bytes, "abc", 3);
    ASSERT_INT(texts[1].count, ==, 0);
    ASSERT_BYTES(texts[2].bytes, "de", 2);
}

TEST(tensor_message, refuses_a_content_of_another_size_than_the_shape)
{
    struct tensor tensor;
    begin(1, &SHAPE(3));
    proto_add_bytes(&message, 4, "12345678", 8);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT,
                 "has 8 bytes, but its shape and dtype need 12");
    begin(7, &SHAPE(2));
    proto_add_bytes(&message, 4, "\1\377\1xyz", 6);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "shorter than its texts");
    begin(7, &SHAPE(2));
    proto_add_bytes(&message, 4, "\1\1xyz", 5);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "longer than its texts");
}

TEST(tensor_message, refuses_a_shape_before_taking_memory_for_it)
{
    struct tensor tensor;
    begin(1, &SHAPE(1 << 20, 1 << 20, 1 << 20, 1 << 20));
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "more than the 262144 values");
    begin(1, &SHAPE(5));
    ASSERT_FAILS(read_limited(16, &tensor), err, ERROR_FORMAT, "more than the 4 values");
    begin(1, &SHAPE(-2));
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "dimension 0 is -2");
}

TEST(tensor_message, names_a_type_that_it_does_not_take)
{
    struct tensor tensor;
    begin(2, &SHAPE(1));
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "DT_DOUBLE");
    begin(77, &SHAPE(1));
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "77");
}

TEST(tensor_message, refuses_more_dimensions_than_there_are)
{
    struct tensor tensor;
    begin(1, &SHAPE(1));
    size_t shape = proto_begin(&message, 2);
    for (int i = 0; i < TENSOR_MAX_DIMS; i++)
        proto_add_bytes(&message, 2, "", 0);
    proto_end(&message, shape);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "more than");
    begin(1, &SHAPE(1));
    shape = proto_begin(&message, 2);
    proto_add_varint(&message, 3, 1);
    proto_end(&message, shape);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "left open");
}

static void check_round(struct tensor written, bool as_content)
{
    struct tensor read;
    strbuf_clear(&message);
    tensor_message_write(&written, as_content, &message);
    ASSERT_OK(read_back(&read), err);
    ASSERT_INT(read.dtype, ==, written.dtype);
    ASSERT_TRUE(shape_equal(&read.shape, &written.shape));
    if (written.dtype != DTYPE_STRING)
        ASSERT_BYTES(read.data, written.data, tensor_bytes(&written));
}

TEST(tensor_message, reads_what_it_wrote)
{
    begin(1, &SHAPE(1)); /* makes arena and buffer */
    for (int content = 0; content < 2; content++) {
        check_round((struct tensor){DTYPE_F32, SHAPE(2, 1), (float[]){1, -0.5f}}, content);
        check_round((struct tensor){DTYPE_I32, SHAPE(2), (int32_t[]){-1, 7}}, content);
        check_round((struct tensor){DTYPE_I64, SHAPE(2), (int64_t[]){INT64_MIN, 7}}, content);
        check_round((struct tensor){DTYPE_U8, SHAPE(3), (uint8_t[]){0, 255, 7}}, content);
        check_round((struct tensor){DTYPE_STRING, SHAPE(1), (struct text_view[]){{"a\0b", 3}}},
                    content);
        check_round((struct tensor){DTYPE_F32, SHAPE(0, 3), NULL}, content);
    }
}

TEST(tensor_message, refuses_a_list_that_is_cut_off)
{
    struct tensor tensor;
    begin(1, &SHAPE(2));
    proto_add_bytes(&message, 5, "12345", 5);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "no list of DT_FLOAT values");
    begin(9, &SHAPE(2));
    proto_add_bytes(&message, 10, "\200\200", 2);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "no list of DT_INT64 values");
    begin(7, &SHAPE(2));
    proto_add_varint(&message, 8, 2);
    ASSERT_FAILS(read_back(&tensor), err, ERROR_FORMAT, "no list of DT_STRING values");
}
