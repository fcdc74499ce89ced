#include "k8s/checks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "k8s/words.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool is_label(const char *text, size_t length)
{
    if (length == 0 || length > 63 || text[0] == '-' || text[length - 1] == '-')
        return false;
    return strspn(text, LOWER DIGITS "-") >= length;
}

bool check_is_label(const char *text)
{
    return is_label(text, strlen(text));
}

bool check_is_subdomain(const char *text)
{
    if (strlen(text) > 253)
        return false;
    for (;; text++) {
        size_t length = strcspn(text, ".");
        if (!is_label(text, length))
            return false;
        text += length;
        if (!*text)
            return true;
    }
}

struct suffix {
    const char *name;
    double factor;
};

static const struct suffix suffixes[] = {
    {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},
    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},
    {"P", 1e15},    {"E", 1e18},    {"Ki", 1024.0}, {"Mi", 1048576.0},
    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60},
};

/* The number, and what stands behind it; NaN when there is none. No hexadecimal, no infinity. */
static double read_decimal(const char *text, const char **behind)
{
    const char *at = text + strspn(text, DIGITS);
    if (*at == '.')
        at += 1 + strspn(at + 1, DIGITS);
    if (at == text || strcspn(text, DIGITS) >= (size_t)(at - text))
        return NAN;
    char number[64];
    if (at - text >= (long)sizeof number)
        return NAN;
    snprintf(number, sizeof number, "%.*s", (int)(at - text), text);
    *behind = at;
    return strtod(number, NULL);
}

static double quantity(const char *text)
{
    const char *behind;
    double number = read_decimal(text, &behind);
    if (isnan(number))
        return NAN;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(behind, suffixes[i].name) == 0)
            return number * suffixes[i].factor;
    size_t sign = behind[0] && strchr("+-", behind[1]) && behind[1] ? 1 : 0;
    bool exponent = (*behind == 'e' || *behind == 'E') && behind[1 + sign] &&
                    strspn(behind + 1 + sign, DIGITS) == strlen(behind + 1 + sign) &&
                    strlen(behind) < 6;
    return exponent ? number * pow(10, strtod(behind + 1, NULL)) : NAN;
}

bool check_is_quantity(const char *text)
{
    return quantity(text) > 0;
}

double check_quantity(const char *text)
{
    return quantity(text);
}

static bool is_number(const char *text, double low, double high, bool whole)
{
    const char *behind = "";
    double value = read_decimal(text, &behind);
    return !isnan(value) && !*behind && value >= low && value <= high &&
           (!whole || !strchr(text, '.'));
}

static bool is_host(const char *text)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1 ||
           check_is_subdomain(text);
}

static bool is_user(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 63 && !strchr(".-", text[0]) &&
           !strchr(".-", text[length - 1]) && strspn(text, LOWER UPPER DIGITS "_.-") == length;
}

static bool is_image(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= 512 && strchr(LOWER UPPER DIGITS, text[0]) &&
           strchr(LOWER UPPER DIGITS, text[length - 1]) &&
           strspn(text, LOWER UPPER DIGITS "._/:@-") == length;
}

static bool has_parent(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

/* Kubernetes takes no colon in a mount path; the others would mean something to the kubelet, to
 * Argo or to YAML inside a workflow. */
static bool is_place(const char *text)
{
    return *text && strlen(text) < 1024 && !strpbrk(text, ":$\"\\{}`") && !has_parent(text) &&
           text[strlen(text) - 1] != '/';
}

static bool is_path(const char *text)
{
    return text[0] == '/' && text[1] && is_place(text);
}

/* No field of a volume is a fraction or null, so we write neither. */
static bool has_known_types(const struct json *json)
{
    void *state = NULL;
    const char *key;
    const struct json *value;
    bool fine = json_type_of(json) != JSON_IS_NUMBER && json_type_of(json) != JSON_IS_NULL;
    if (json_type_of(json) == JSON_IS_ARRAY)
        for (int i = 0; fine && i < json_count(json); i++)
            fine = has_known_types(json_at(json, i));
    if (json_type_of(json) == JSON_IS_OBJECT)
        while (fine && (value = json_next(json, &state, &key)))
            fine = has_known_types(value);
    return fine;
}

static bool is_list_of_objects(const char *text)
{
    struct json *json;
    struct error ignored;
    if (json_parse(text, strlen(text), &json, &ignored) < 0)
        return false;
    bool fine = json_type_of(json) == JSON_IS_ARRAY && has_known_types(json);
    for (int i = 0; fine && i < json_count(json); i++)
        fine = json_get_text(json_at(json, i), "name", NULL) != NULL;
    json_release(json);
    return fine;
}

static bool is_bool(const char *text)
{
    return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

static bool is_choice(enum parameter parameter, const char *text)
{
    int length;
    const char *word;
    for (int i = 0; (word = parameter_choice(parameter, i, &length)); i++)
        if ((int)strlen(text) == length && strncmp(word, text, (size_t)length) == 0)
            return true;
    return false;
}

static bool is_words(const char *text, struct arena *memory)
{
    const char *const *words;
    struct error ignored;
    return words_split(text, memory, &words, &ignored) == 0;
}

/* NULL when the value is fine, else what it should be. */
static const char *expectation(enum parameter parameter, const char *value, struct arena *memory)
{
    switch (parameter_row(parameter)->type) {
    case PARAMETER_IS_TEXT:
        return NULL;
    case PARAMETER_IS_NAME:
        return check_is_label(value) ? NULL
                                     : "is no name: a-z, 0-9 and - in between, 63 letters at most";
    case PARAMETER_IS_SUBDOMAIN:
        return check_is_subdomain(value) ? NULL : "is no name: a-z, 0-9, and - or . in between";
    case PARAMETER_IS_USER:
        return is_user(value) ? NULL : "is no login name: letters, digits, and _ . - in between";
    case PARAMETER_IS_PATH:
        return is_path(value)
                   ? NULL
                   : "is no path to mount at: it starts with / and has none of .. : $ \" "
                     "\\ { } ` in it";
    case PARAMETER_IS_PLACE:
        return is_place(value) ? NULL : "is no path: none of .. : $ \" \\ { } ` may be in it";
    case PARAMETER_IS_HOST:
        return is_host(value) ? NULL : "is neither a host's name nor an address";
    case PARAMETER_IS_IMAGE:
        return is_image(value) ? NULL : "is no image: REGISTRY/NAME:TAG";
    case PARAMETER_IS_WORDS:
        return is_words(value, memory) ? NULL : "has a quote that is not closed";
    case PARAMETER_IS_JSON:
        return is_list_of_objects(value) ? NULL
                                         : "is no JSON list of objects that have a name, "
                                           "without fractions and nulls";
    case PARAMETER_IS_INTEGER:
        return is_number(value, 0, INT_MAX, true) ? NULL : "is no whole number from 0 on";
    case PARAMETER_IS_COUNT:
        return is_number(value, 1, INT_MAX, true) ? NULL : "is no whole number from 1 on";
    case PARAMETER_IS_PORT:
        return is_number(value, 0, 65535, true) ? NULL : "is no port: 1 to 65535";
    case PARAMETER_IS_ID:
        return is_number(value, 0, INT_MAX, true) ? NULL : "is no user or group id";
    case PARAMETER_IS_FRACTION:
        return is_number(value, 0, 1, false) ? NULL : "is no number from 0 to 1";
    case PARAMETER_IS_QUANTITY:
        return check_is_quantity(value) ? NULL : "is no quantity: write 500m, 2, 512Mi or 4Gi";
    case PARAMETER_IS_BOOL:
        return is_bool(value) ? NULL : "is neither True nor False";
    case PARAMETER_IS_CHOICE:
        return is_choice(parameter, value) ? NULL : parameter_row(parameter)->help;
    }
    return NULL;
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

/* Well-formed UTF-8, shortest forms only, no surrogates. */
static bool is_utf8(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int more = *at < 0x80                  ? 0
                   : *at >= 0xc2 && *at < 0xe0 ? 1
                   : (*at & 0xf0) == 0xe0      ? 2
                   : *at >= 0xf0 && *at < 0xf5 ? 3
                                               : -1;
        uint32_t code = more > 0 ? (uint32_t)(*at & (0x3f >> more)) : *at;
        if (more < 0)
            return false;
        at++;
        for (int i = 0; i < more; i++, at++) {
            if ((*at & 0xc0) != 0x80)
                return false;
            code = code << 6 | (*at & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (code < least[more] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
            return false;
    }
    return true;
}

int check_value(enum parameter parameter, const char *spelling, const char *value,
                struct arena *memory, struct error *err)
{
    if (!*value && !*parameter_row(parameter)->initial)
        return 0;
    if (!*value && parameter_row(parameter)->type == PARAMETER_IS_FRACTION)
        return 0; /* no gate */
    if (!is_utf8(value))
        return error_set(err, ERROR_USAGE, "%s: the value is not UTF-8", spelling);
    if (has_control(value) && parameter_row(parameter)->type != PARAMETER_IS_WORDS &&
        parameter_row(parameter)->type != PARAMETER_IS_JSON)
        return error_set(err, ERROR_USAGE, "%s: a control character is in the value", spelling);
    const char *expected = expectation(parameter, value, memory);
    if (expected && parameter_row(parameter)->type == PARAMETER_IS_CHOICE)
        return error_set(err, ERROR_USAGE, "%s=%.100s: is none of %.*s", spelling, value,
                         (int)strcspn(expected, ":"), expected);
    return expected ? error_set(err, ERROR_USAGE, "%s=%.200s: %s", spelling, value, expected) : 0;
}
