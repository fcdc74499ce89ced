#include <inttypes.h>
#include <yaml.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "base/yaml.h"

struct yaml_writer {
    yaml_emitter_t emitter;
    struct strbuf *out;
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
    yaml_emitter_set_output(&writer->emitter, add_to_strbuf, writer->out);
    yaml_emitter_set_unicode(&writer->emitter, 1);
    yaml_emitter_set_width(&writer->emitter, -1);
    yaml_emitter_set_indent(&writer->emitter, 2);
    emit(writer, &event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    emit(writer, &event, yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
    yaml_open_map(writer, NULL);
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
    else if (writer->out->failed)
        status = error_set(err, ERROR_MEMORY, "no memory for the YAML output");
    memory_free(writer);
    return status;
}

static void scalar(struct yaml_writer *writer, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t event;
    emit(writer, &event,
         yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                      (int)strlen(text), 1, 1, style));
}

/* Words that some reader takes for a truth, nothing, or a merge. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = {"y",    "n",     "yes", "no",
                                        "true", "false", "on",  "off", "null"};
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
    size_t length = strlen(text);
    if (length == 0 || !strchr(first, text[0]) || strspn(text, later) != length)
        return false;
    return text[length - 1] != ':' && !is_reserved(text);
}

static void add_key(struct yaml_writer *writer, const char *key)
{
    if (key)
        scalar(writer, key, is_plain(key) ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

/* libyaml knows no comments; what it has buffered is written out, and the comment behind it. The
 * next value starts a new line in any case. */
static void add_comment(struct yaml_writer *writer, const char *comment)
{
    if (!comment || writer->failed)
        return;
    if (!yaml_emitter_flush(&writer->emitter))
        fail(writer, "memory is short");
    strbuf_addf(writer->out, " # %s", comment);
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
        scalar(writer, value, YAML_LITERAL_SCALAR_STYLE); /* libyaml quotes what no block can hold */
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
