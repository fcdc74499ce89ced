#include "support/test.h"

#include "base/nearest.h"

TEST(nearest, distance_counts_insertions_deletions_replacements_and_swaps)
{
    ASSERT_INT(nearest_distance("", "abc"), ==, 3);
    ASSERT_INT(nearest_distance("batch", "batch"), ==, 0);
    ASSERT_INT(nearest_distance("bacth", "batch"), ==, 1);
    ASSERT_INT(nearest_distance("kitten", "sitting"), ==, 3);
    ASSERT_INT(nearest_distance("Batch_Size", "batch-size"), ==, 0);
}

TEST(nearest, distance_is_symmetric_and_bounded)
{
    const char *words[] = {
        "",
        "a",
        "adam",
        "adagrad",
        "momentum",
        "a-word-of-more-than-sixty-three-letters-that-nobody-would-ever-type-in-earnest"};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int there = nearest_distance(words[i], words[j]);
            ASSERT_INT(there, ==, nearest_distance(words[j], words[i]));
            ASSERT_INT(there, <=, NEAREST_MAX_DISTANCE);
        }
}

static const char *guess(const char *word)
{
    static const char *const names[] = {"resnet50", "vgg16", "mnist_keras", "mnist_custom"};
    struct nearest nearest;
    nearest_start(&nearest, word);
    for (int i = 0; i < 4; i++)
        nearest_offer(&nearest, names[i]);
    return nearest.best;
}

TEST(nearest, offers_what_was_probably_meant_and_nothing_else)
{
    ASSERT_TEXT(guess("resent50"), "resnet50");
    ASSERT_TEXT(guess("resnet"), "resnet50");
    ASSERT_TEXT(guess("VGG-16"), "vgg16");
    ASSERT_TEXT(guess("mnist_kustom"), "mnist_custom");
    ASSERT_TEXT(guess("transformer"), NULL);
    ASSERT_TEXT(guess("x"), NULL);
    ASSERT_TEXT(guess(""), NULL);
}
