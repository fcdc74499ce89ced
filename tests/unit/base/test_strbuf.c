#include "support/test.h"

#include "base/strbuf.h"

TEST(strbuf, is_an_empty_text_before_anything_is_added)
{
    struct strbuf buffer;
    strbuf_init(&buffer);
    ASSERT_TEXT(buffer.text, "");
    strbuf_clear(&buffer);
    strbuf_add(&buffer, "");
    ASSERT_TEXT(buffer.text, "");
    strbuf_release(&buffer);
    strbuf_release(&buffer);
}

TEST(strbuf, holds_what_was_added_whatever_the_sizes)
{
    struct strbuf buffer;
    strbuf_init(&buffer);
    size_t expected = 0;
    for (int i = 0; i < 300; i++) {
        strbuf_addf(&buffer, "%0*d", i + 1, 7);
        strbuf_add_char(&buffer, ';');
        expected += (size_t)i + 2;
        ASSERT_INT(buffer.length, ==, expected);
        ASSERT_INT(strlen(buffer.text), ==, expected);
    }
    ASSERT_CONTAINS(buffer.text, ";07;007;");
    ASSERT_FALSE(buffer.failed);
    strbuf_clear(&buffer);
    strbuf_add_bytes(&buffer, "ab\0c", 4);
    ASSERT_INT(buffer.length, ==, 4);
    ASSERT_BYTES(buffer.text, "ab\0c", 5);
    strbuf_release(&buffer);
}
