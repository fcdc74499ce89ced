#include "cli/output.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"

static int print(const char *text, size_t bytes, struct error *err)
{
    if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0)
        return error_set(err, ERROR_IO, "standard output: %s", strerror(errno));
    return 0;
}

int output_text(const struct strbuf *text, struct error *err)
{
    if (text->failed)
        return error_set(err, ERROR_MEMORY, "no memory for the output");
    return print(text->text, text->length, err);
}

int output_json_prepare(const char *target, struct error *err)
{
    char directory[PATH_MAX];
    if (!target || strcmp(target, "-") == 0)
        return 0;
    const char *slash = strrchr(target, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - target + 1) : 1,
             slash ? target : ".");
    if (access(directory, W_OK) < 0)
        return error_set(err, ERROR_USAGE, "--json=%s: %s: %s", target, directory, strerror(errno));
    struct stat info;
    bool regular = lstat(target, &info) == 0 && S_ISREG(info.st_mode); /* not a pipe or device */
    if (regular && unlink(target) < 0)
        return error_set(err, ERROR_USAGE, "--json=%s: %s", target, strerror(errno));
    return 0;
}

int output_json(const struct json *json, const char *target, struct error *err)
{
    char *text = json_text(json, true);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    int status = strcmp(target, "-") == 0 ? print(text, strlen(text), err)
                                          : file_write_atomic(target, text, strlen(text), err);
    memory_free(text);
    return status;
}
