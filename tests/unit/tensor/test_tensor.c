#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "support/test.h"
#include "tensor/compare.h"
#include "tensor/tensor.h"

TEST(tensor, a_shape_reads_as_people_write_it)
{
    char text[64], small[8];
    struct shape image = SHAPE(SHAPE_BATCH, 3, 224, 224), scalar = {.ndim = 0};
    ASSERT_TEXT(shape_text(&image, text, sizeof text), "[N, 3, 224, 224]");
    ASSERT_TEXT(shape_text(&scalar, text, sizeof text), "[]");
    ASSERT_TEXT(shape_text(&image, small, sizeof small), "[N, 3, "); /* cut, whole */
}

TEST(tensor, the_batch_counts_as_one_until_it_is_filled_in)
{
    struct shape image = SHAPE(SHAPE_BATCH, 3, 4, 5), full = shape_with_batch(image, 7);
    ASSERT_INT(shape_count(&image), ==, 60);
    ASSERT_INT(shape_count(&full), ==, 420);
    ASSERT_FALSE(shape_equal(&image, &full));
    struct shape plain = SHAPE(2, 3), same = shape_with_batch(plain, 7);
    ASSERT_TRUE(shape_equal(&plain, &same));
}

TEST(tensor, large_shapes_are_counted_in_64_bits)
{
    struct tensor activation = {.dtype = DTYPE_F32, .shape = SHAPE(256, 64, 224, 224)};
    ASSERT_INT(shape_count(&activation.shape), ==, 822083584);
    ASSERT_INT(tensor_bytes(&activation), ==, 3288334336);
}

TEST(tensor, a_new_tensor_is_zeroed_and_aligned)
{
    struct arena *arena = arena_create();
    struct tensor tensor;
    struct error err = {0};
    ASSERT_OK(tensor_create(arena, DTYPE_I64, SHAPE(3, 5), &tensor, &err), err);
    ASSERT_INT(tensor_bytes(&tensor), ==, 120);
    ASSERT_INT((uintptr_t)tensor.data % 64, ==, 0);
    for (int i = 0; i < 15; i++)
        ASSERT_INT(((int64_t *)tensor.data)[i], ==, 0);
    arena_destroy(arena);
}

TEST(tensor, a_shape_whose_bytes_overflow_is_refused)
{
    struct arena *arena = arena_create();
    struct tensor tensor = {.shape = {.ndim = 42}};
    struct error err = {0};
    struct shape huge = SHAPE((int64_t)1 << 40, (int64_t)1 << 40), negative = SHAPE(2, -5);
    ASSERT_FAILS(tensor_create(arena, DTYPE_F32, huge, &tensor, &err), err, ERROR_MEMORY,
                 "[1099511627776, 1099511627776]");
    ASSERT_FAILS(tensor_create(arena, DTYPE_F32, negative, &tensor, &err), err, ERROR_MEMORY,
                 "[2, -5]");
    ASSERT_INT(tensor.shape.ndim, ==, 42); /* outputs are untouched on failure */
    arena_destroy(arena);
}

TEST(compare, comparison_finds_the_largest_difference_and_its_place)
{
    float expected[] = {1, -8, 3, 0}, got[] = {1, -8.5f, 3.25f, 0};
    struct difference d = compare_floats(got, expected, 4);
    ASSERT_TRUE(d.largest == 0.5 && d.index == 1);
    ASSERT_TRUE(d.largest_value == 8 && d.relative == 0.0625 && d.not_finite == 0);
    float zeros[4] = {0};
    ASSERT_TRUE(compare_floats(zeros, zeros, 4).relative == 0);
    ASSERT_TRUE(isinf(compare_floats(got, zeros, 4).relative));
}

TEST(compare, comparison_never_overlooks_a_number_that_is_none)
{
    float expected[] = {1, 2, NAN}, got[] = {NAN, INFINITY, 3};
    struct difference d = compare_floats(got, expected, 3);
    ASSERT_INT(d.not_finite, ==, 2);
    ASSERT_TRUE(isinf(d.largest) && d.index == 2);
    ASSERT_FALSE(d.relative <= 1e-3);
}
