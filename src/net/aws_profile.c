#include "net/aws_profile.h"

struct span {
    const char *at;
    size_t bytes;
};

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(const char *at, const char *end)
{
    while (at < end && blank(*at))
        at++;
    while (end > at && blank(end[-1]))
        end--;
    return (struct span){at, (size_t)(end - at)};
}

static bool same(struct span span, const char *word)
{
    return span.bytes == strlen(word) && memcmp(span.at, word, span.bytes) == 0;
}

static bool take_line(const char **at, const char *end, const char **line, const char **line_end)
{
    if (*at >= end)
        return false;
    *line = *at;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    *line_end = newline ? newline : end;
    *at = newline ? newline + 1 : end;
    return true;
}

/* "[name]", perhaps with a comment behind it. */
static bool section_name(const char *line, const char *end, struct span *out)
{
    struct span whole = trim(line, end);
    if (whole.bytes < 2 || whole.at[0] != '[')
        return false;
    const char *close = memchr(whole.at, ']', whole.bytes);
    if (close)
        *out = trim(whole.at + 1, close);
    return close;
}

static bool line_value(const char *line, const char *end, const char *name, struct span *out)
{
    if (line == end || blank(*line) || *line == '#' || *line == ';')
        return false;
    const char *equals = memchr(line, '=', (size_t)(end - line));
    if (!equals || !same(trim(line, equals), name))
        return false;
    *out = trim(equals + 1, end);
    return true;
}

bool aws_profile_get(const char *text, size_t bytes, const char *section, const char *name,
                     char out[AWS_VALUE_BYTES])
{
    const char *at = text, *end = text + bytes, *line, *line_end;
    bool inside = false;
    struct span span;
    out[0] = '\0';
    while (take_line(&at, end, &line, &line_end)) {
        if (section_name(line, line_end, &span)) {
            inside = same(span, section);
        } else if (inside && line_value(line, line_end, name, &span)) {
            if (span.bytes >= AWS_VALUE_BYTES || memchr(span.at, '\0', span.bytes))
                return false;
            memcpy(out, span.at, span.bytes);
            out[span.bytes] = '\0';
            return true;
        }
    }
    return false;
}

bool aws_profile_has(const char *text, size_t bytes, const char *section)
{
    const char *at = text, *end = text + bytes, *line, *line_end;
    struct span span;
    while (take_line(&at, end, &line, &line_end))
        if (section_name(line, line_end, &span) && same(span, section))
            return true;
    return false;
}
