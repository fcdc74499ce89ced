#include "serve/tokens.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/token.h"

enum { FILE_LIMIT = 1 << 20, SHORTEST = 8 };
static const double LOOK_EVERY_SECONDS = 1;

struct tokens {
    char *path;
    pthread_mutex_t lock; /* guards all below */
    char *text;           /* tokens, each with a NUL behind it... */
    size_t bytes;         /* ...so many bytes of them */
    struct timespec changed;
    off_t size;
    ino_t file;
    double looked;
};

static int check_token(const char *path, int line, const char *token, struct error *err)
{
    size_t length = strlen(token);
    if (token[strcspn(token, " \t")])
        return error_set(err, ERROR_FORMAT,
                         "%s:%d: a token has no blank in it; a comment has a line of its own", path,
                         line);
    if (length < SHORTEST)
        return error_set(err, ERROR_FORMAT,
                         "%s:%d: a token of %zu letters can be guessed; at least %d", path, line,
                         length, SHORTEST);
    return 0;
}

/* Without the blanks around it; "" for a comment. */
static char *trim(char *line)
{
    line += strspn(line, " \t");
    for (size_t length = strlen(line); length > 0 && strchr(" \t\r", line[length - 1]);)
        line[--length] = '\0';
    return *line == '#' ? line + strlen(line) : line;
}

/* Packs the tokens of the file to its front; how many bytes are left, or -1. */
static long pack(const char *path, char *text, struct error *err)
{
    size_t used = 0;
    int number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *token = trim(line);
        size_t length = strlen(token);
        if (length == 0)
            continue;
        if (check_token(path, number, token, err) < 0)
            return -1;
        memmove(text + used, token, length);
        used += length;
        text[used++] = '\0';
    }
    if (used == 0)
        return error_set(err, ERROR_FORMAT, "%s: there is no token in it", path);
    return (long)used;
}

static int read_tokens(struct tokens *tokens, struct error *err)
{
    char *text;
    size_t bytes;
    if (file_read(tokens->path, FILE_LIMIT, &text, &bytes, err) < 0)
        return -1;
    long used = pack(tokens->path, text, err);
    if (used < 0) {
        memory_free(text);
        return -1;
    }
    memory_free(tokens->text);
    tokens->text = text;
    tokens->bytes = (size_t)used;
    return 0;
}

static bool has_changed(struct tokens *tokens)
{
    struct stat info;
    if (stat(tokens->path, &info) < 0)
        return false;
    bool changed = info.st_mtim.tv_sec != tokens->changed.tv_sec ||
                   info.st_mtim.tv_nsec != tokens->changed.tv_nsec ||
                   info.st_size != tokens->size || info.st_ino != tokens->file;
    tokens->changed = info.st_mtim;
    tokens->size = info.st_size;
    tokens->file = info.st_ino;
    return changed;
}

static void look_again(struct tokens *tokens)
{
    struct error err = {0};
    double now = clock_seconds();
    if (now - tokens->looked < LOOK_EVERY_SECONDS)
        return;
    tokens->looked = now;
    if (!has_changed(tokens))
        return;
    if (read_tokens(tokens, &err) < 0)
        log_line(LOG_WARNING, "%s; the tokens read before still hold", err.message);
    else
        log_line(LOG_INFO, "%s: tokens read again", tokens->path);
}

int tokens_open(const char *path, struct tokens **out, struct error *err)
{
    struct tokens *tokens = memory_allocate(sizeof *tokens);
    if (!tokens)
        return error_set(err, ERROR_MEMORY, "no memory for tokens");
    pthread_mutex_init(&tokens->lock, NULL);
    tokens->path = memory_copy_text(path);
    tokens->looked = clock_seconds();
    if (!tokens->path) {
        tokens_close(tokens);
        return error_set(err, ERROR_MEMORY, "no memory for tokens");
    }
    has_changed(tokens);
    if (read_tokens(tokens, err) < 0) {
        tokens_close(tokens);
        return -1;
    }
    *out = tokens;
    return 0;
}

void tokens_close(struct tokens *tokens)
{
    if (!tokens)
        return;
    memory_free(tokens->path);
    memory_free(tokens->text);
    pthread_mutex_destroy(&tokens->lock);
    memory_free(tokens);
}

bool tokens_admit(struct tokens *tokens, const char *authorization)
{
    const char *given = token_from_authorization(authorization);
    bool right = false;
    pthread_mutex_lock(&tokens->lock);
    look_again(tokens);
    for (size_t at = 0; at < tokens->bytes; at += strlen(tokens->text + at) + 1)
        right |= token_equal(tokens->text + at, given);
    pthread_mutex_unlock(&tokens->lock);
    return right;
}
