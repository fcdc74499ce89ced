/* A CheckpointState message in protobuf's text form. */
#include "store/checkpoint_state.h"

#include <assert.h>
#include <limits.h>

#include "base/error.h"
#include "base/files.h"
#include "base/strbuf.h"

/* Bytes outside of ASCII go in octal too: then the file is text whatever a directory is called. */
static void add_quoted(struct strbuf *out, const char *text)
{
    strbuf_add_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            strbuf_add_char(out, '\\');
        if (c < ' ' || c > '~')
            strbuf_addf(out, "\\%03o", c);
        else
            strbuf_add_char(out, (char)c);
    }
    strbuf_add_char(out, '"');
}

static void add_line(struct strbuf *out, const char *field, const char *name)
{
    strbuf_add(out, field);
    strbuf_add(out, ": ");
    add_quoted(out, name);
    strbuf_add_char(out, '\n');
}

int checkpoint_state_write(const char *directory, const char *const *names, int count,
                           struct error *err)
{
    char path[PATH_MAX];
    struct strbuf text;
    assert(count > 0);
    if (snprintf(path, sizeof path, "%s/checkpoint", directory) >= (int)sizeof path)
        return error_set(err, ERROR_IO, "%s: the path is too long", directory);
    strbuf_init(&text);
    add_line(&text, "model_checkpoint_path", names[count - 1]);
    for (int i = 0; i < count; i++)
        add_line(&text, "all_model_checkpoint_paths", names[i]);
    int status = text.failed ? error_set(err, ERROR_MEMORY, "%s: no memory for it", path)
                             : file_write_atomic(path, text.text, text.length, err);
    strbuf_release(&text);
    return status;
}
