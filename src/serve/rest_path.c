#include "serve/rest_path.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>

#include "base/error.h"

static int malformed(const char *path, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "Malformed request: %.200s", path);
}

static int hex_digit(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `length` letters, decoded; false when they do not fit, are none, or hide a NUL. */
static bool decode(const char *from, size_t length, char *to, size_t space)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < length ? hex_digit(from[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(from[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (!c || used + 1 >= space)
            return false;
        to[used++] = c;
    }
    to[used] = '\0';
    return used > 0;
}

/* Takes the next part behind a slash, up to `ends`. */
static bool take_part(const char **at, const char *ends, char *out, size_t space)
{
    size_t length = strcspn(*at, ends);
    if (!decode(*at, length, out, space))
        return false;
    *at += length;
    return true;
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncasecmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_version(const char **at, int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0)
        return false;
    *at = end;
    return true;
}

static bool read_v1_verb(const char *at, struct rest_path *out)
{
    static const struct {
        const char *ending;
        enum rest_verb verb;
    } verbs[] = {{"", REST_STATUS},
                 {"/metadata", REST_METADATA},
                 {":predict", REST_PREDICT},
                 {":classify", REST_CLASSIFY},
                 {":regress", REST_REGRESS}};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcasecmp(at, verbs[i].ending) == 0) {
            out->verb = verbs[i].verb;
            return true;
        }
    return false;
}

static bool read_v2_verb(const char *at, struct rest_path *out)
{
    if (strcmp(at, "") == 0)
        out->verb = REST_METADATA;
    else if (strcmp(at, "/ready") == 0)
        out->verb = REST_READY;
    else if (strcmp(at, "/infer") == 0)
        out->verb = REST_INFER;
    else
        return false;
    return true;
}

int rest_path_read(const char *path, struct rest_path *out, struct error *err)
{
    const char *at = path;
    *out = (struct rest_path){.version = -1};
    if (take_word(&at, "/v2/models/"))
        out->v2 = true;
    else if (!take_word(&at, "/v1/models/"))
        return malformed(path, err);
    if (!take_part(&at, out->v2 ? "/" : "/:", out->model, sizeof out->model))
        return error_set(err, ERROR_FORMAT, "Missing model name in request.");
    if (take_word(&at, "/versions/")) {
        if (!take_version(&at, &out->version))
            return error_set(err, ERROR_FORMAT, "Failed to convert version: %.*s to numeric.",
                             (int)strcspn(at, "/:") < 64 ? (int)strcspn(at, "/:") : 64, at);
    } else if (!out->v2 && take_word(&at, "/labels/")) {
        if (!take_part(&at, "/:", out->label, sizeof out->label))
            return malformed(path, err);
    }
    bool known = out->v2 ? read_v2_verb(at, out) : read_v1_verb(at, out);
    return known ? 0 : malformed(path, err);
}
