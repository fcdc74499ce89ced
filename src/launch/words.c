#include "launch/words.h"

#include <ctype.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

/* --- a shell's line ---------------------------------------------------------------------------------- */

struct reader {
    const char *at;
    struct strbuf word;
    bool expands; /* the word has a variable in it, which only settings may */
};

static int read_double_quoted(struct reader *reader, struct error *err)
{
    for (reader->at++; *reader->at && *reader->at != '"'; reader->at++) {
        if (*reader->at == '`')
            return error_set(err, ERROR_FORMAT, "a command inside a command is not run");
        if (*reader->at == '$')
            reader->expands = true;
        if (*reader->at == '\\' && reader->at[1] && strchr("$`\"\\", reader->at[1]))
            reader->at++;
        strbuf_add_char(&reader->word, *reader->at);
    }
    if (!*reader->at)
        return error_set(err, ERROR_FORMAT, "a quote is not closed");
    reader->at++;
    return 0;
}

static int read_single_quoted(struct reader *reader, struct error *err)
{
    const char *close = strchr(reader->at + 1, '\'');
    if (!close)
        return error_set(err, ERROR_FORMAT, "a quote is not closed");
    strbuf_add_bytes(&reader->word, reader->at + 1, (size_t)(close - reader->at - 1));
    reader->at = close + 1;
    return 0;
}

static int read_plain(struct reader *reader, struct error *err)
{
    if (*reader->at == '$') {
        reader->expands = true;
    } else if (strchr("&|<>()`*?#~\n", *reader->at)) {
        return error_set(err, ERROR_FORMAT,
                         "'%c' means something to a shell, and there is none here", *reader->at);
    } else if (*reader->at == '\\') {
        if (!*++reader->at)
            return error_set(err, ERROR_FORMAT, "a line that ends in \\");
    }
    strbuf_add_char(&reader->word, *reader->at++);
    return 0;
}

/* 1: a word; 0: none is left before the next ; or the end. */
static int read_word(struct reader *reader, struct error *err)
{
    while (*reader->at == ' ' || *reader->at == '\t')
        reader->at++;
    strbuf_clear(&reader->word);
    reader->expands = false;
    if (!*reader->at || *reader->at == ';')
        return 0;
    while (*reader->at && !strchr(" \t;", *reader->at)) {
        int status = *reader->at == '"'    ? read_double_quoted(reader, err)
                     : *reader->at == '\'' ? read_single_quoted(reader, err)
                                           : read_plain(reader, err);
        if (status < 0)
            return -1;
    }
    return 1;
}

/* NAME=value, or export: what comes before the command. */
static bool is_setting(const char *word)
{
    size_t name = 0;
    while (isalnum((unsigned char)word[name]) || word[name] == '_')
        name++;
    return !strcmp(word, "export") || (name > 0 && word[name] == '=');
}

static int read_command(struct reader *reader, struct arena *arena, char **words, int *count,
                        struct error *err)
{
    int got;
    for (*count = 0; (got = read_word(reader, err)) > 0;) {
        if (reader->expands && !(*count == 0 && is_setting(reader->word.text)))
            return error_set(err, ERROR_FORMAT, "'%s': variables are not looked up",
                             reader->word.text);
        if (*count + 1 >= WORDS_MOST)
            return error_set(err, ERROR_FORMAT, "more than %d words", WORDS_MOST - 1);
        words[*count] = arena_copy_text(arena, reader->word.text);
        if (!words[(*count)++])
            return error_set(err, ERROR_MEMORY, "no memory for a command");
    }
    words[*count] = NULL;
    return got;
}

int words_parse(struct arena *arena, const char *line, char ***out, struct error *err)
{
    struct reader reader = {.at = line};
    char **words = ARENA_ARRAY(arena, char *, WORDS_MOST);
    int count = 0, status = words ? 0 : error_set(err, ERROR_MEMORY, "no memory for a command");
    bool found = false;
    strbuf_init(&reader.word);
    while (status == 0 && !found) {
        status = read_command(&reader, arena, words, &count, err);
        found = status == 0 && count > 0 && !is_setting(words[0]);
        if (status == 0 && !found && !*reader.at)
            status = error_set(err, ERROR_FORMAT, "there is no command");
        if (*reader.at == ';')
            reader.at++;
    }
    if (status == 0 && reader.at[strspn(reader.at, " \t;")])
        status = error_set(err, ERROR_FORMAT, "more than one command");
    strbuf_release(&reader.word);
    if (status < 0)
        return error_wrap(err, "not run: %.60s", line + strspn(line, " "));
    *out = words;
    return 0;
}

/* --- ssh's words -------------------------------------------------------------------------------------- */

/* Of ssh's letters, those that take a value, and those that stand alone. */
static const char with_value[] = "BbcDEeFIiJLlmOopQRSWw";
static const char alone[] = "46AaCfGgKkMNnqsTtVvXxYy";

static int take_port(struct words_ssh *ssh, const char *text, struct error *err)
{
    char *end;
    long port = strtol(text, &end, 10);
    if (*end || port < 1 || port > 65535)
        return error_set(err, ERROR_USAGE, "-p %s is no port", text);
    ssh->port = (int)port;
    return 0;
}

static int check_user(const char *name, size_t length, struct error *err)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user && strlen(user->pw_name) == length && !strncmp(user->pw_name, name, length))
        return 0;
    return error_set(err, ERROR_USAGE,
                     "as %.*s: an agent starts processes as its own user, not as another",
                     (int)length, name);
}

static int take_option(struct words_ssh *ssh, char letter, const char *value, struct error *err)
{
    if (letter == 'p')
        return take_port(ssh, value, err);
    if (letter == 'l')
        return check_user(value, strlen(value), err);
    if (letter == 'o' && !strncasecmp(value, "Port=", 5))
        return take_port(ssh, value + 5, err);
    if (letter == 'o' && !strncasecmp(value, "User=", 5))
        return check_user(value + 5, strlen(value + 5), err);
    return 0;
}

/* [user@]host */
static int take_host(struct words_ssh *ssh, const char *word, struct error *err)
{
    const char *at = strrchr(word, '@');
    ssh->host = at ? at + 1 : word;
    return at ? check_user(word, (size_t)(at - word), err) : 0;
}

/* "-qx -p2222", "-o", "Option=value": letters, the last of which may have a value. Returns the words
 * used. */
static int take_options(struct words_ssh *ssh, int left, char *const *words, struct error *err)
{
    for (const char *letter = words[0] + 1; *letter; letter++) {
        if (strchr(alone, *letter))
            continue;
        if (!strchr(with_value, *letter))
            return error_set(err, ERROR_USAGE, "ssh has no option -%c", *letter);
        const char *value = letter[1] ? letter + 1 : left > 1 ? words[1] : NULL;
        if (!value)
            return error_set(err, ERROR_USAGE, "-%c needs a value", *letter);
        return take_option(ssh, *letter, value, err) < 0 ? -1 : letter[1] ? 1 : 2;
    }
    return 1;
}

int words_parse_ssh(struct arena *arena, int count, char *const *words, struct words_ssh *out,
                    struct error *err)
{
    struct strbuf line;
    int at = 0;
    *out = (struct words_ssh){0};
    while (at < count && words[at][0] == '-' && words[at][1]) {
        if (!strcmp(words[at], "--")) {
            at++;
            break;
        }
        int used = take_options(out, count - at, words + at, err);
        if (used < 0)
            return -1;
        at += used;
    }
    if (at >= count - 1)
        return error_set(err, ERROR_USAGE,
                         at < count ? "what is to be run on %s?" : "on which host?%s",
                         at < count ? words[at] : "");
    if (take_host(out, words[at++], err) < 0)
        return -1;
    strbuf_init(&line);
    for (; at < count; at++)
        strbuf_addf(&line, "%s%s", line.length ? " " : "", words[at]);
    out->line = line.failed ? NULL : arena_copy_text(arena, line.text);
    strbuf_release(&line);
    return out->line ? 0 : error_set(err, ERROR_MEMORY, "no memory for a command");
}
