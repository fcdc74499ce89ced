#include "k8s/words.h"

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/* One word from *line into `out`, which is large enough; false when a quote stays open. */
static bool take_word(const char **line, char *out)
{
    const char *at = *line;
    for (char quote = 0; *at && (quote || !strchr(" \t\n", *at)); at++) {
        if (quote == '\'' ? *at == '\'' : quote && *at == quote)
            quote = 0;
        else if (!quote && (*at == '\'' || *at == '"'))
            quote = *at;
        else if (*at == '\\' && quote != '\'' && at[1] &&
                 (!quote || strchr("\"\\$`", at[1]))) /* others keep their backslash in " */
            *out++ = *++at;
        else
            *out++ = *at;
        if (quote && !at[1])
            return false;
    }
    *out = '\0';
    *line = at;
    return true;
}

int words_split(const char *line, struct arena *memory, const char *const **out, struct error *err)
{
    size_t length = strlen(line);
    const char **list = ARENA_ARRAY(memory, const char *, length / 2 + 2);
    char *text = arena_take(memory, length + length / 2 + 2); /* each word has a NUL behind it */
    int count = 0;
    if (!list || !text)
        return error_set(err, ERROR_MEMORY, "no memory for a command line");
    for (line += strspn(line, " \t\n"); *line; line += strspn(line, " \t\n")) {
        if (!take_word(&line, text))
            return error_set(err, ERROR_USAGE, "a quote is not closed");
        list[count++] = text;
        text += strlen(text) + 1;
    }
    list[count] = NULL;
    *out = list;
    return 0;
}
