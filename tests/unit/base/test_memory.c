#include "support/test.h"

#include "base/memory.h"

TEST(memory, counts_every_allocation)
{
    uint64_t before = memory_allocation_count();
    char *block = memory_allocate(10);
    block = memory_resize(block, 20);
    char *text = memory_copy_text("x");
    memory_free(block);
    memory_free(text);
    memory_free(NULL);
    ASSERT_INT(memory_allocation_count() - before, ==, 3);
}

TEST(memory, gives_zeroed_blocks)
{
    char zeros[100] = {0};
    char *block = memory_allocate(100);
    ASSERT_BYTES(block, zeros, 100);
    memory_free(block);
}

TEST(slab, is_aligned_to_huge_pages_and_writable_to_its_end)
{
    struct error err = {0};
    struct slab slab;
    size_t bytes = 5 * 1024 * 1024 + 3;
    ASSERT_OK(slab_create(bytes, "test", &slab, &err), err);
    ASSERT_INT((uintptr_t)slab.data % (2 * 1024 * 1024), ==, 0);
    ASSERT_INT(slab.bytes, ==, bytes);
    ((char *)slab.data)[bytes - 1] = 1;
    slab_release(&slab);
    ASSERT_TRUE(slab.data == NULL);
}

TEST(slab, of_nothing_is_empty_and_can_be_released)
{
    struct slab slab;
    ASSERT_INT(slab_create(0, "test", &slab, NULL), ==, 0);
    ASSERT_TRUE(slab.data == NULL);
    slab_release(&slab);
}

TEST(slab, refuses_more_than_is_free_and_says_both_sizes)
{
    struct error err;
    struct slab slab = {0};
    size_t bytes = (size_t)1 << 50;
    ASSERT_FAILS(slab_create(bytes, "activations", &slab, &err), err, ERROR_MEMORY,
                 "no memory for the activations: 1048576.0 GiB needed, ");
    ASSERT_CONTAINS(err.message, " GiB left");
    ASSERT_TRUE(slab.data == NULL);
    ASSERT_INT(slab_create(SIZE_MAX, "x", &slab, &err), ==, -1);
}

TEST(memory, reports_limits_that_make_sense)
{
    ASSERT_INT(memory_available_bytes(), >, 0);
    ASSERT_TRUE(memory_available_bytes() <= memory_limit_bytes());
    ASSERT_TRUE(memory_peak_rss_bytes() < memory_limit_bytes());
}

TEST(memory, shows_a_touched_slab_in_the_peak)
{
    struct error err = {0};
    struct slab slab;
    size_t bytes = 32 * 1024 * 1024, before = memory_peak_rss_bytes();
    ASSERT_OK(slab_create(bytes, "test", &slab, &err), err);
    memset(slab.data, 1, bytes);
    ASSERT_INT(memory_peak_rss_bytes(), >=, before + bytes / 2);
    slab_release(&slab);
}
