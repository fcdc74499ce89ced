#include "convert/version_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

TEST(version_name, is_digits_that_fit)
{
    int64_t number = 0;
    ASSERT_TRUE(version_name_read("00000123", &number));
    ASSERT_INT(number, ==, 123);
    ASSERT_TRUE(version_name_read("9223372036854775807", &number));
    ASSERT_INT(number, ==, INT64_MAX);
    static const char *const others[] = {
        "", "-1", "+1", " 1", "1 ", "1a", "0x1", "temp-1", "9223372036854775808"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ASSERT_FALSE(version_name_read(others[i], &number));
}

TEST(version_name, is_the_shortest_of_a_number)
{
    char name[NAME_MAX + 1];
    const char *directory = test_path("versions");
    ASSERT_INT(mkdir(directory, 0777), ==, 0);
    version_name_find(directory, 7, name);
    ASSERT_TEXT(name, "7");
    ASSERT_INT(mkdir(test_path("versions/0007"), 0777), ==, 0);
    test_file("versions/07", "no directory", 12);
    version_name_find(directory, 7, name);
    ASSERT_TEXT(name, "0007");
    ASSERT_INT(mkdir(test_path("versions/007"), 0777), ==, 0);
    version_name_find(directory, 7, name);
    ASSERT_TEXT(name, "007");
    ASSERT_INT(mkdir(test_path("versions/7"), 0777), ==, 0);
    version_name_find(directory, 7, name);
    ASSERT_TEXT(name, "7");
}
