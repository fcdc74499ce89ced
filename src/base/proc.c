#include "base/proc.h"

#include <fcntl.h>
#include <unistd.h>

int proc_read(const char *path, char *text, size_t capacity)
{
    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    size_t used = 0;
    ssize_t got = 0;
    while (used + 1 < capacity && (got = read(file, text + used, capacity - 1 - used)) > 0)
        used += (size_t)got;
    close(file);
    text[used] = '\0';
    return got < 0 ? -1 : (int)used;
}

/* What stands behind `key` at the start of a line, or NULL. */
static const char *find_line(const char *text, const char *key)
{
    size_t length = strlen(key);
    while (text) {
        if (strncmp(text, key, length) == 0)
            return text + length;
        text = strchr(text, '\n');
        if (text)
            text++;
    }
    return NULL;
}

bool proc_find_number(const char *text, const char *key, uint64_t *out)
{
    const char *at = find_line(text, key);
    if (!at)
        return false;
    char *end;
    unsigned long long value = strtoull(at, &end, 10);
    if (end == at)
        return false;
    *out = value;
    return true;
}

bool proc_find_text(const char *text, const char *key, char *out, size_t capacity)
{
    const char *at = find_line(text, key);
    if (!at)
        return false;
    at += strspn(at, " \t:");
    snprintf(out, capacity, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}
