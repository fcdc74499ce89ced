#include <inttypes.h>
#include <yaml.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/yaml.h"

/* A comment behind the scalar of this number in its document, keys counted. */
struct note {
    int scalar;
    char *text; /* owned */
};

struct yaml_writer {
    yaml_emitter_t emitter;
    struct strbuf *out;
    struct strbuf document; /* the one being written */
    struct note *notes;
    int scalars, note_count, note_capacity;
    int documents;
    bool open, failed;
    char problem[160]; /* of the first failure */
};

static int add_to_strbuf(void *out, unsigned char *bytes, size_t count)
{
    strbuf_add_bytes(out, bytes, count);
    return 1;
}

int yaml_writer_open(struct strbuf *out, struct yaml_writer **writer, struct error *err)
{
    *writer = memory_allocate(sizeof **writer);
    if (!*writer)
        return error_set(err, ERROR_MEMORY, "no memory for writing YAML");
    (*writer)->out = out;
    strbuf_init(&(*writer)->document);
    return 0;
}

static void fail(struct yaml_writer *writer, const char *problem)
{
    if (!writer->failed)
        snprintf(writer->problem, sizeof writer->problem, "%s", problem);
    writer->failed = true;
}

/* Takes over the event, made or not. */
static void emit(struct yaml_writer *writer, yaml_event_t *event, int made)
{
    if (!made)
        fail(writer, "a text is not UTF-8, or memory is short");
    else if (writer->failed)
        yaml_event_delete(event);
    else if (!yaml_emitter_emit(&writer->emitter, event))
        fail(writer, writer->emitter.problem ? writer->emitter.problem : "libyaml failed");
}

static void add_comment_lines(struct strbuf *out, const char *comment)
{
    for (; comment && *comment; comment += *comment == '\n') {
        int length = (int)strcspn(comment, "\n");
        strbuf_addf(out, "# %.*s\n", length, comment);
        comment += length;
    }
}

/* An emitter for each document: libyaml would write its --- in front of the comment. */
void yaml_document_open(struct yaml_writer *writer, const char *comment)
{
    yaml_event_t event;
    if (writer->documents++)
        strbuf_add(writer->out, "---\n");
    add_comment_lines(writer->out, comment);
    if (!yaml_emitter_initialize(&writer->emitter)) {
        fail(writer, "memory is short");
        return;
    }
    writer->open = true;
    strbuf_clear(&writer->document);
    writer->scalars = 0;
    yaml_emitter_set_output(&writer->emitter, add_to_strbuf, &writer->document);
    yaml_emitter_set_unicode(&writer->emitter, 1);
    yaml_emitter_set_width(&writer->emitter, -1);
    yaml_emitter_set_indent(&writer->emitter, 2);
    emit(writer, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    emit(writer, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    yaml_open_map(writer, NULL);
}

static void drop_notes(struct yaml_writer *writer)
{
    for (int i = 0; i < writer->note_count; i++)
        memory_free(writer->notes[i].text);
    writer->note_count = 0;
}

/* Everything up to the end of line `line` of the document, and the comment behind it. */
static const char *copy_lines(struct strbuf *out, const char *from, size_t lines)
{
    for (; lines > 0 && *from; lines--) {
        size_t length = strcspn(from, "\n");
        strbuf_add_bytes(out, from, length + (from[length] == '\n'));
        from += length + (from[length] == '\n');
    }
    size_t rest = strcspn(from, "\n");
    strbuf_add_bytes(out, from, rest);
    return from + rest;
}

/* libyaml knows no comments. It reads its own document again, and tells on which line each scalar
 * that has a comment ended. */
static void copy_with_notes(struct yaml_writer *writer, yaml_parser_t *parser)
{
    const char *at = writer->document.text;
    size_t line = 0; /* where `at` is, or the start of the text */
    int next = 0, scalar = 0;
    for (bool done = false; !done && next < writer->note_count;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            fail(writer, "libyaml cannot read what it wrote");
            return;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_SCALAR_EVENT && ++scalar == writer->notes[next].scalar) {
            at = copy_lines(writer->out, at, event.end_mark.line - line);
            line = event.end_mark.line;
            strbuf_addf(writer->out, " # %s", writer->notes[next++].text);
        }
        yaml_event_delete(&event);
    }
    strbuf_add(writer->out, at);
}

static void copy_document(struct yaml_writer *writer)
{
    yaml_parser_t parser;
    if (writer->note_count == 0) {
        strbuf_add_bytes(writer->out, writer->document.text, writer->document.length);
        return;
    }
    if (!yaml_parser_initialize(&parser)) {
        fail(writer, "memory is short");
        return;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)writer->document.text,
                                 writer->document.length);
    copy_with_notes(writer, &parser);
    yaml_parser_delete(&parser);
}

void yaml_document_close(struct yaml_writer *writer)
{
    yaml_event_t event;
    yaml_close_map(writer);
    emit(writer, &event, yaml_document_end_event_initialize(&event, 1));
    emit(writer, &event, yaml_stream_end_event_initialize(&event));
    if (writer->open)
        yaml_emitter_delete(&writer->emitter);
    writer->open = false;
    if (!writer->failed)
        copy_document(writer);
    drop_notes(writer);
}

int yaml_writer_close(struct yaml_writer *writer, struct error *err)
{
    int status = 0;
    if (!writer)
        return 0;
    if (writer->open)
        yaml_emitter_delete(&writer->emitter);
    if (writer->failed)
        status = error_set(err, ERROR_FORMAT, "cannot be written as YAML: %s", writer->problem);
    else if (writer->out->failed || writer->document.failed)
        status = error_set(err, ERROR_MEMORY, "no memory for the YAML output");
    drop_notes(writer);
    memory_free(writer->notes);
    strbuf_release(&writer->document);
    memory_free(writer);
    return status;
}

static void scalar(struct yaml_writer *writer, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    writer->scalars++;
    emit(writer, &event,
         yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                      (int)strlen(text), 1, 1, style));
}

/* Words that some reader takes for a truth, nothing, or a merge. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = {"y",     "n",  "yes", "no",  "true",
                                        "false", "on", "off", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Starts like a name or a path, and has nothing in it that means something to YAML. Numbers, dates
 * and times in all their spellings start with a digit, a sign or a dot. */
static bool is_plain(const char *text)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz/_";
    static const char later[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz/_"
                                "0123456789.-:@+=,$(){}";
    size_t length = strlen(text), dashes = strspn(text, "-");
    if (dashes > 0 && dashes < 3 && text[dashes] && strchr(first, text[dashes]))
        return strspn(text, later) == length && text[length - 1] != ':'; /* an option */
    if (length == 0 || !strchr(first, text[0]) || strspn(text, later) != length)
        return false;
    return text[length - 1] != ':' && !is_reserved(text);
}

static void add_key(struct yaml_writer *writer, const char *key)
{
    if (key)
        scalar(writer, key,
               is_plain(key) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

/* Of the scalar that was written last. */
static void add_comment(struct yaml_writer *writer, const char *comment)
{
    if (!comment || writer->failed)
        return;
    if (writer->note_count == writer->note_capacity) {
        int capacity = writer->note_capacity ? 2 * writer->note_capacity : 16;
        struct note *notes = memory_resize(writer->notes, sizeof *notes * (size_t)capacity);
        if (!notes) {
            fail(writer, "memory is short");
            return;
        }
        writer->notes = notes;
        writer->note_capacity = capacity;
    }
    struct note *note = &writer->notes[writer->note_count++];
    *note = (struct note){.scalar = writer->scalars, .text = memory_copy_text(comment)};
    if (!note->text)
        fail(writer, "memory is short");
}

void yaml_open_map(struct yaml_writer *writer, const char *key)
{
    yaml_event_t event;
    add_key(writer, key);
    emit(writer, &event,
         yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}

void yaml_close_map(struct yaml_writer *writer)
{
    yaml_event_t event;
    emit(writer, &event, yaml_mapping_end_event_initialize(&event));
}

void yaml_open_list(struct yaml_writer *writer, const char *key)
{
    yaml_event_t event;
    add_key(writer, key);
    emit(writer, &event,
         yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE));
}

void yaml_close_list(struct yaml_writer *writer)
{
    yaml_event_t event;
    emit(writer, &event, yaml_sequence_end_event_initialize(&event));
}

void yaml_text(struct yaml_writer *writer, const char *key, const char *value, const char *comment)
{
    add_key(writer, key);
    if (strchr(value, '\n') && !comment)
        scalar(writer, value,
               YAML_LITERAL_SCALAR_STYLE); /* libyaml quotes what no block can hold */
    else
        scalar(writer, value,
               is_plain(value) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    add_comment(writer, comment);
}

void yaml_integer(struct yaml_writer *writer, const char *key, int64_t value, const char *comment)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    add_key(writer, key);
    scalar(writer, text, YAML_PLAIN_SCALAR_STYLE);
    add_comment(writer, comment);
}

void yaml_bool(struct yaml_writer *writer, const char *key, bool value, const char *comment)
{
    add_key(writer, key);
    scalar(writer, value ? "true" : "false", YAML_PLAIN_SCALAR_STYLE);
    add_comment(writer, comment);
}
