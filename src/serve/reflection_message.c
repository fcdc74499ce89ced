#include "serve/reflection_message.h"

#include "base/error.h"
#include "base/strbuf.h"
#include "serve/model_spec.h"

enum { MOST_FILES = 64 };
enum { /* ServerReflectionRequest */
       ASK_HOST = 1,
       ASK_FILE = 3,
       ASK_SYMBOL = 4,
       ASK_EXTENSION = 5,
       ASK_EXTENSIONS_OF = 6,
       ASK_SERVICES = 7,
};
enum {
    TELL_HOST = 1,
    TELL_REQUEST = 2,
    TELL_FILES = 4,
    TELL_EXTENSIONS = 5,
    TELL_SERVICES = 6,
    TELL_ERROR = 7
};
enum { FILE_NAME = 1, FILE_PACKAGE = 2, FILE_DEPENDENCY = 3, FILE_SERVICE = 6 };
enum { NOT_FOUND = 5 }; /* gRPC's status */

struct files {
    int count;
    struct proto_reader file[MOST_FILES];
    struct text_view name[MOST_FILES], package[MOST_FILES];
};

/* ---- the descriptors ------------------------------------------------------------------------ */

static struct text_view text_of(struct proto_reader reader, uint32_t number)
{
    struct proto_field field;
    struct text_view text = {"", 0};
    while (proto_next(&reader, &field, NULL) > 0)
        if (field.number == number && field.wire == PROTO_BYTES)
            text = (struct text_view){(const char *)field.bytes, field.count};
    return text;
}

static void list_files(const void *set, size_t bytes, struct files *out)
{
    struct proto_reader reader;
    struct proto_field field;
    out->count = 0;
    proto_open(&reader, set, bytes);
    while (out->count < MOST_FILES && proto_next(&reader, &field, NULL) > 0) {
        int at = out->count;
        if (field.number != 1 || proto_enter(&reader, &field, &out->file[at], NULL) < 0)
            continue;
        out->name[at] = text_of(out->file[at], FILE_NAME);
        out->package[at] = text_of(out->file[at], FILE_PACKAGE);
        out->count++;
    }
}

static bool same(const struct text_view *a, const struct text_view *b)
{
    return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static int find_file(const struct files *files, const struct text_view *name)
{
    for (int i = 0; i < files->count; i++)
        if (same(&files->name[i], name))
            return i;
    return -1;
}

/* Which fields of a descriptor declare names, and what kind of scope each of them opens. */
enum scope { SCOPE_FILE, SCOPE_MESSAGE, SCOPE_ENUM, SCOPE_SERVICE, SCOPE_NONE, SCOPES };
static enum scope inside(enum scope scope, uint32_t number)
{
    switch (scope) {
    case SCOPE_FILE:
        return number == 4   ? SCOPE_MESSAGE
               : number == 5 ? SCOPE_ENUM
               : number == 6 ? SCOPE_SERVICE
                             : SCOPES;
    case SCOPE_MESSAGE:
        return number == 3   ? SCOPE_MESSAGE
               : number == 4 ? SCOPE_ENUM
               : number == 2 ? SCOPE_NONE
                             : SCOPES;
    case SCOPE_ENUM:
    case SCOPE_SERVICE:
        return number == 2 ? SCOPE_NONE : SCOPES;
    default:
        return SCOPES;
    }
}

/* Whether `symbol` begins with `name` and ends there or goes on behind a dot; *rest is that. */
static bool begins(const struct text_view *symbol, const struct text_view *name,
                   struct text_view *rest)
{
    if (symbol->count < name->count || memcmp(symbol->bytes, name->bytes, name->count) != 0)
        return false;
    *rest = (struct text_view){symbol->bytes + name->count, symbol->count - name->count};
    if (rest->count == 0)
        return true;
    if (rest->bytes[0] != '.')
        return false;
    rest->bytes++;
    rest->count--;
    return true;
}

/* As deep as the symbol has dots, and no deeper than the descriptors. */
static bool declares(struct proto_reader reader, enum scope scope, struct text_view symbol)
{
    struct proto_field field;
    struct proto_reader inner;
    struct text_view rest;
    while (proto_next(&reader, &field, NULL) > 0) {
        enum scope opened = inside(scope, field.number);
        if (opened == SCOPES || proto_enter(&reader, &field, &inner, NULL) < 0)
            continue;
        struct text_view name = text_of(inner, 1);
        if (!begins(&symbol, &name, &rest))
            continue;
        if (rest.count == 0 || declares(inner, opened, rest))
            return true;
    }
    return false;
}

static int find_symbol(const struct files *files, const struct text_view *symbol)
{
    struct text_view rest;
    for (int i = 0; i < files->count; i++)
        if (begins(symbol, &files->package[i], &rest) && rest.count > 0 &&
            declares(files->file[i], SCOPE_FILE, rest))
            return i;
    return -1;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The file and all that it imports: `sent` are there already. */
static void add_file(const struct files *files, int at, bool *sent, struct strbuf *out)
{
    struct proto_reader reader = files->file[at];
    struct proto_field field;
    if (sent[at])
        return;
    sent[at] = true;
    proto_add_bytes(out, 1, reader.at, (size_t)(reader.end - reader.at));
    while (proto_next(&reader, &field, NULL) > 0) {
        if (field.number != FILE_DEPENDENCY || field.wire != PROTO_BYTES)
            continue;
        int other = find_file(files, &(struct text_view){(const char *)field.bytes, field.count});
        if (other >= 0)
            add_file(files, other, sent, out);
    }
}

static void tell_missing(const char *what, const struct text_view *name, struct strbuf *out)
{
    char text[300];
    int length = name->count < 200 ? (int)name->count : 200;
    snprintf(text, sizeof text, "%s not found: %.*s", what, length, name->bytes);
    size_t start = proto_begin(out, TELL_ERROR);
    proto_add_varint(out, 1, NOT_FOUND);
    proto_add_text(out, 2, text);
    proto_end(out, start);
}

static void tell_file(const struct files *files, int at, const char *what,
                      const struct text_view *name, struct strbuf *out)
{
    bool sent[MOST_FILES] = {false};
    if (at < 0) {
        tell_missing(what, name, out);
        return;
    }
    size_t start = proto_begin(out, TELL_FILES);
    add_file(files, at, sent, out);
    proto_end(out, start);
}

static void tell_services(const struct files *files, struct strbuf *out)
{
    struct proto_field field;
    struct proto_reader inner;
    size_t start = proto_begin(out, TELL_SERVICES);
    for (int i = 0; i < files->count; i++) {
        struct proto_reader reader = files->file[i];
        while (proto_next(&reader, &field, NULL) > 0) {
            if (field.number != FILE_SERVICE || proto_enter(&reader, &field, &inner, NULL) < 0)
                continue;
            struct text_view name = text_of(inner, 1);
            size_t service = proto_begin(out, 1);
            size_t text = proto_begin(out, 1);
            strbuf_add_bytes(out, files->package[i].bytes, files->package[i].count);
            strbuf_add_char(out, '.');
            strbuf_add_bytes(out, name.bytes, name.count);
            proto_end(out, text);
            proto_end(out, service);
        }
    }
    proto_end(out, start);
}

static void tell_extensions(const struct files *files, const struct text_view *type,
                            struct strbuf *out)
{
    if (find_symbol(files, type) < 0) {
        tell_missing("type", type, out);
        return;
    }
    size_t start = proto_begin(out, TELL_EXTENSIONS);
    proto_add_bytes(out, 1, type->bytes, type->count);
    proto_end(out, start);
}

int reflection_answer(const void *set, size_t set_bytes, const void *message, size_t bytes,
                      struct strbuf *out, struct error *err)
{
    struct proto_reader reader;
    struct proto_field field, asked = {0};
    struct text_view host = {"", 0};
    struct files files;
    int more;
    proto_open(&reader, message, bytes);
    while ((more = proto_next(&reader, &field, err)) > 0) {
        if (field.number > ASK_SERVICES || field.number == 2)
            continue;
        if (proto_expect(&reader, &field, PROTO_BYTES, err) < 0)
            return -1;
        if (field.number == ASK_HOST)
            host = (struct text_view){(const char *)field.bytes, field.count};
        else
            asked = field;
    }
    if (more < 0)
        return -1;
    struct text_view name = {(const char *)asked.bytes, asked.count};
    list_files(set, set_bytes, &files);
    proto_add_bytes(out, TELL_HOST, host.bytes, host.count);
    proto_add_bytes(out, TELL_REQUEST, message, bytes);
    if (asked.number == ASK_FILE)
        tell_file(&files, find_file(&files, &name), "file", &name, out);
    else if (asked.number == ASK_SYMBOL)
        tell_file(&files, find_symbol(&files, &name), "symbol", &name, out);
    else if (asked.number == ASK_SERVICES)
        tell_services(&files, out);
    else if (asked.number == ASK_EXTENSIONS_OF)
        tell_extensions(&files, &name, out);
    else
        tell_missing("extension", &(struct text_view){"", 0}, out);
    return 0;
}
