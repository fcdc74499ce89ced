#include "support/test.h"

#include "base/arena.h"
#include "base/strbuf.h"
#include "k8s/words.h"

/* The words with bars between. */
static void expect(const char *line, const char *expected)
{
    struct arena *memory = arena_create();
    const char *const *words;
    struct error err = {0};
    struct strbuf text;
    ASSERT_OK(words_split(line, memory, &words, &err), err);
    strbuf_init(&text);
    for (int i = 0; words[i]; i++)
        strbuf_addf(&text, "%s%s", i ? "|" : "", words[i]);
    ASSERT_TEXT(text.text, expected);
    strbuf_release(&text);
    arena_destroy(memory);
}

TEST(words, are_split_as_a_shell_would)
{
    expect("", "");
    expect("  a  b\tc\n", "a|b|c");
    expect("sh -c 'NCCL=1 python3 x --y'", "sh|-c|NCCL=1 python3 x --y");
    expect("a\\ b \"c d\" 'e\\f' \"g\\\"h\\\\i\\j\"", "a b|c d|e\\f|g\"h\\i\\j");
    expect("a''b \"\" ''", "ab||");
    expect("$HOME `x` $(y) *", "$HOME|`x`|$(y)|*");
    expect("a b c d e f g h", "a|b|c|d|e|f|g|h");
}

TEST(words, an_open_quote_is_refused)
{
    struct arena *memory = arena_create();
    const char *const *words;
    struct error err = {0};
    ASSERT_FAILS(words_split("a 'b", memory, &words, &err), err, ERROR_USAGE, "quote");
    ASSERT_FAILS(words_split("\"", memory, &words, &err), err, ERROR_USAGE, "quote");
    arena_destroy(memory);
}
