#include "data/tar.h"

#include <inttypes.h>

#include "base/error.h"

/* Places in a header, from POSIX (ustar). */
enum {
    AT_NAME = 0,
    NAME_BYTES = 100,
    AT_SIZE = 124,
    SIZE_BYTES = 12,
    AT_SUM = 148,
    SUM_BYTES = 8,
    AT_KIND = 156,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
    PREFIX_BYTES = 155,
    MAX_PAX_BYTES = 1 << 20,
};

/* What headers in front of a member said about it. */
struct extra {
    char name[TAR_NAME_BYTES];
    bool has_size;
    uint64_t bytes;
};

struct archive {
    const char *name;
    const uint8_t *bytes;
    size_t count;
};

static int wrong(const struct archive *archive, uint64_t offset, const char *what,
                 struct error *err)
{
    return error_set(err, ERROR_FORMAT, "%s: tar header at offset %" PRIu64 ": %s", archive->name,
                     offset, what);
}

/* Octal digits among blanks and zeros; GNU writes what does not fit as a big-endian number behind
 * a set top bit. */
static bool read_number(const uint8_t *field, int bytes, uint64_t *out)
{
    uint64_t value = 0;
    if (field[0] & 0x80) {
        value = field[0] & 0x7f;
        for (int i = 1; i < bytes; i++) {
            if (value >> 55)
                return false;
            value = value << 8 | field[i];
        }
        *out = value;
        return true;
    }
    int i = 0;
    while (i < bytes && field[i] == ' ')
        i++;
    for (; i < bytes && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *out = value;
    return i == bytes || field[i] == ' ' || field[i] == '\0';
}

static bool sum_is_right(const uint8_t *header)
{
    uint64_t stored, sum = 0;
    if (!read_number(header + AT_SUM, SUM_BYTES, &stored))
        return false;
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += i >= AT_SUM && i < AT_SUM + SUM_BYTES ? ' ' : header[i];
    return sum == stored;
}

static bool is_zero(const uint8_t *block)
{
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        if (block[i])
            return false;
    return true;
}

static int text_length(const uint8_t *field, int bytes)
{
    return (int)strnlen((const char *)field, (size_t)bytes);
}

static void read_name(const uint8_t *header, char *out)
{
    int name = text_length(header + AT_NAME, NAME_BYTES);
    int prefix = memcmp(header + AT_MAGIC, "ustar\0", 6) == 0
                     ? text_length(header + AT_PREFIX, PREFIX_BYTES)
                     : 0; /* GNU has other things there */
    snprintf(out, TAR_NAME_BYTES, "%.*s%s%.*s", prefix, (const char *)header + AT_PREFIX,
             prefix ? "/" : "", name, (const char *)header + AT_NAME);
}

/* One "LENGTH KEY=VALUE\n" of a pax header; the length counts itself. Returns it, or 0. */
static size_t read_pax_line(const uint8_t *line, size_t left, struct extra *extra)
{
    size_t length = 0, digits = 0;
    while (digits < left && digits < 8 && line[digits] >= '0' && line[digits] <= '9')
        length = length * 10 + (size_t)(line[digits++] - '0');
    if (digits == 0 || length > left || length < digits + 3 || line[digits] != ' ')
        return 0;
    const char *text = (const char *)line + digits + 1;
    int bytes = (int)(length - digits - 2); /* without the newline */
    if (bytes > 5 && memcmp(text, "path=", 5) == 0 && bytes - 5 < TAR_NAME_BYTES) {
        memcpy(extra->name, text + 5, (size_t)bytes - 5);
        extra->name[bytes - 5] = '\0';
    } else if (bytes > 5 && bytes < 24 && memcmp(text, "size=", 5) == 0) {
        char number[24] = "";
        memcpy(number, text + 5, (size_t)bytes - 5);
        extra->bytes = strtoull(number, NULL, 10);
        extra->has_size = true;
    }
    return length;
}

/* GNU's 'L' or pax's 'x': the data is about the member that follows. */
static int read_extra(const struct archive *archive, uint64_t offset, char kind,
                      const struct tar_member *member, struct extra *extra, struct error *err)
{
    const uint8_t *data = archive->bytes + member->offset;
    if (kind == 'L') {
        if (member->bytes >= TAR_NAME_BYTES)
            return wrong(archive, offset, "its long name is too long", err);
        memcpy(extra->name, data, member->bytes);
        extra->name[member->bytes] = '\0';
        return 0;
    }
    if (member->bytes > MAX_PAX_BYTES)
        return wrong(archive, offset, "its pax header is too long", err);
    for (size_t at = 0; at < member->bytes;) {
        size_t length = read_pax_line(data + at, member->bytes - at, extra);
        if (length == 0)
            return wrong(archive, offset, "its pax header is damaged", err);
        at += length;
    }
    return 0;
}

static int read_header(const struct archive *archive, uint64_t offset, const struct extra *extra,
                       struct tar_member *out, struct error *err)
{
    const uint8_t *header = archive->bytes + offset;
    if (!sum_is_right(header))
        return wrong(archive, offset, "its checksum is wrong; is this a tar file?", err);
    if (!read_number(header + AT_SIZE, SIZE_BYTES, &out->bytes))
        return wrong(archive, offset, "its size is not a number", err);
    char kind = (char)header[AT_KIND];
    bool about_next = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    if (!about_next && extra->has_size)
        out->bytes = extra->bytes;
    if (!about_next && extra->name[0])
        snprintf(out->name, sizeof out->name, "%s", extra->name);
    else
        read_name(header, out->name);
    out->is_file = kind == '0' || kind == '\0' || kind == '7';
    out->offset = offset + TAR_BLOCK_BYTES;
    if (out->bytes > archive->count - out->offset)
        return error_set(err, ERROR_FORMAT,
                         "%s: tar header at offset %" PRIu64 ": '%.200s' should have %" PRIu64
                         " bytes, %" PRIu64 " are there; the file is cut off",
                         archive->name, offset, out->name, out->bytes,
                         archive->count - out->offset);
    return 0;
}

/* Behind the data, at the next block; the last one's padding may be missing. */
static uint64_t behind(const struct archive *archive, const struct tar_member *member)
{
    uint64_t end = member->offset + member->bytes;
    uint64_t padding = (TAR_BLOCK_BYTES - end % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES;
    return padding > archive->count - end ? archive->count : end + padding;
}

int tar_next(const char *name, const uint8_t *bytes, size_t count, uint64_t *offset,
             struct tar_member *out, struct error *err)
{
    struct archive archive = {name, bytes, count};
    struct extra extra = {.has_size = false};
    uint64_t at = *offset;
    while (at < count) {
        if (count - at < TAR_BLOCK_BYTES)
            return wrong(&archive, at, "the file ends inside it", err);
        if (is_zero(bytes + at))
            break;
        if (read_header(&archive, at, &extra, out, err) < 0)
            return -1;
        char kind = (char)bytes[at + AT_KIND];
        if ((kind == 'L' || kind == 'x') && read_extra(&archive, at, kind, out, &extra, err) < 0)
            return -1;
        at = behind(&archive, out);
        if (kind != 'L' && kind != 'x' && kind != 'K' && kind != 'g') {
            *offset = at;
            return 1;
        }
    }
    *offset = at;
    return 0;
}
