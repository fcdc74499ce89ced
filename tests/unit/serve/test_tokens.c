#include "serve/tokens.h"

#include "support/test.h"

static struct tokens *open_tokens(const char *text)
{
    struct tokens *tokens = NULL;
    struct error err = {0};
    ASSERT_OK(tokens_open(test_file("tokens", text, strlen(text)), &tokens, &err), err);
    return tokens;
}

TEST(tokens, takes_a_line_as_a_whole)
{
    struct tokens *tokens =
        open_tokens("# ours\n\n  # as well\nabcdefgh#xyz\r\n\tsecond-one \nlast-one");
    ASSERT_TRUE(tokens_admit(tokens, "Bearer abcdefgh#xyz"));
    ASSERT_FALSE(tokens_admit(tokens, "Bearer abcdefgh"));
    ASSERT_TRUE(tokens_admit(tokens, "Bearer second-one"));
    ASSERT_TRUE(tokens_admit(tokens, "Bearer last-one"));
    ASSERT_FALSE(tokens_admit(tokens, "Bearer # as well"));
    ASSERT_FALSE(tokens_admit(tokens, "Bearer "));
    ASSERT_FALSE(tokens_admit(tokens, NULL));
    tokens_close(tokens);
}

TEST(tokens, refuses_what_cannot_be_a_token)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "no token"},
        {"# none\n", "no token"},
        {"abcdefgh\nshort\n", "tokens:2: a token of 5 letters"},
        {"abcdefgh\n\nabcdefgh xyz\n", "tokens:3: a token has no blank"},
        {"abcdefgh # ours\n", "tokens:1: a token has no blank"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tokens *tokens;
        struct error err = {0};
        ASSERT_FAILS(
            tokens_open(test_file("tokens", bad[i].text, strlen(bad[i].text)), &tokens, &err), err,
            ERROR_FORMAT, bad[i].part);
    }
}
