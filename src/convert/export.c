#include "convert/export.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "convert/face.h"
#include "convert/onnx_write.h"
#include "convert/savedmodel_write.h"
#include "convert/version_name.h"

static const char draft_start[] = "temp-";

enum { TRIES = 100 };

static int join(char path[PATH_MAX], const char *directory, const char *name, struct error *err)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s/%s: the path is too long", directory, name);
    return 0;
}

/* ---- versions ---- */

/* The highest version there, whole or not; 0 when there is none. */
static int find_highest(const char *directory, int64_t *out, struct error *err)
{
    DIR *list = opendir(directory);
    if (!list)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    *out = 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        int64_t version;
        if (version_name_read(entry->d_name, &version) && version > *out)
            *out = version;
    }
    closedir(list);
    return 0;
}

static bool has_model(const char *directory)
{
    char path[PATH_MAX];
    return join(path, directory, "saved_model.pb", NULL) == 0 && access(path, F_OK) == 0;
}

int export_resolve(const char *path, char resolved[PATH_MAX], struct error *err)
{
    int64_t highest = 0;
    char name[NAME_MAX + 1];
    struct stat info;
    if (stat(path, &info) < 0 || !S_ISDIR(info.st_mode))
        return error_set(err, ERROR_ABSENT, "%s: no such directory", path);
    if (has_model(path)) {
        snprintf(resolved, PATH_MAX, "%s", path);
        return 0;
    }
    if (find_highest(path, &highest, err) < 0)
        return -1;
    version_name_find(path, highest, name);
    if (highest == 0 || join(resolved, path, name, err) < 0 || !has_model(resolved))
        return error_set(err, ERROR_ABSENT, "%s: no saved_model.pb there, nor in a version of it",
                         path);
    return 0;
}

bool export_is(const char *path)
{
    char resolved[PATH_MAX];
    struct error ignored;
    return export_resolve(path, resolved, &ignored) == 0;
}

/* ---- drafts ---- */

/* One that nobody holds was left by a process that was killed. */
static void sweep_one(const char *directory, const char *name)
{
    char path[PATH_MAX];
    struct error err = {0};
    if (join(path, directory, name, &err) < 0)
        return;
    int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (held < 0)
        return;
    if (flock(held, LOCK_EX | LOCK_NB) == 0 && directory_remove(path, &err) < 0)
        log_line(LOG_WARNING, "an unfinished export stays: %s", err.message);
    close(held);
}

static void sweep(const char *directory)
{
    DIR *list = opendir(directory);
    if (!list)
        return;
    for (struct dirent *entry; (entry = readdir(list));)
        if (!strncmp(entry->d_name, draft_start, strlen(draft_start)))
            sweep_one(directory, entry->d_name);
    closedir(list);
}

/* A folder that is this process's while it is open. */
struct draft {
    char path[PATH_MAX];
    int held;
};

static int begin_draft(const char *directory, struct draft *out, struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, "%s%.6f-%ld", draft_start, clock_wall_seconds(), (long)getpid());
    out->held = -1;
    if (join(out->path, directory, name, err) < 0)
        return -1;
    if (mkdir(out->path, 0777) < 0)
        return error_set(err, ERROR_IO, "%s: %s", out->path, strerror(errno));
    out->held = open(out->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->held >= 0)
        flock(out->held, LOCK_EX | LOCK_NB); /* where there are no locks nothing is swept */
    return 0;
}

static void drop_draft(struct draft *draft)
{
    struct error err = {0};
    if (directory_remove(draft->path, &err) < 0)
        log_line(LOG_WARNING, "an unfinished export stays: %s", err.message);
}

/* ---- writing ---- */

static int find_next(const char *directory, int64_t *out, struct error *err)
{
    if (find_highest(directory, out, err) < 0)
        return -1;
    if (*out == INT64_MAX)
        return error_set(err, ERROR_USAGE,
                         "%s: there is a version %" PRId64 ", and no higher number: remove it, or "
                         "export elsewhere",
                         directory, *out);
    ++*out;
    return 0;
}

int export_prepare(const char *directory, struct error *err)
{
    int64_t next;
    if (directory_make(directory, err) < 0)
        return -1;
    if (access(directory, W_OK) < 0)
        return error_set(err, ERROR_IO, "%s cannot be written to", directory);
    return find_next(directory, &next, err);
}

/* Last, for it lists all other files. */
static int write_face(const char *directory, const struct face *face, struct arena *arena,
                      struct error *err)
{
    char folder[PATH_MAX], path[PATH_MAX];
    struct strbuf text;
    struct face whole = *face;
    if (join(folder, directory, "assets.extra", err) < 0 ||
        join(path, folder, "lockstep.json", err) < 0 ||
        export_files_find(directory, arena, &whole.files, err) < 0 ||
        directory_make(folder, err) < 0)
        return -1;
    strbuf_init(&text);
    int status = face_compose(&whole, &text, err);
    if (status == 0)
        status = file_write_atomic(path, text.text, text.length, err);
    strbuf_release(&text);
    return status < 0 ? -1 : directory_flush(folder, err);
}

static int fill(const char *directory, const struct graph *graph, const struct params *params,
                const struct face *face, struct arena *arena, struct export_result *out,
                struct error *err)
{
    char onnx[PATH_MAX];
    bool too_large = false;
    if (join(onnx, directory, "model.onnx", err) < 0 ||
        onnx_write(onnx, graph, params, face, &too_large, err) < 0 ||
        savedmodel_write(directory, graph, params, face, err) < 0 ||
        write_face(directory, face, arena, err) < 0)
        return -1;
    out->onnx = !too_large;
    if (too_large)
        log_line(LOG_WARNING, "the network is too large for an ONNX file, which ends at 2 GiB: "
                              "there is only the SavedModel");
    return directory_flush(directory, err);
}

/* Another process may take the number first: then the next one. */
static int publish(const struct draft *draft, const char *directory, struct export_result *out,
                   struct error *err)
{
    for (int i = 0; i < TRIES; i++) {
        char name[32];
        if (find_next(directory, &out->version, err) < 0)
            return -1;
        snprintf(name, sizeof name, "%" PRId64, out->version);
        if (join(out->path, directory, name, err) < 0)
            return -1;
        if (rename(draft->path, out->path) == 0)
            return directory_flush(directory, err);
        if (errno != EEXIST && errno != ENOTEMPTY)
            break;
    }
    return error_set(err, ERROR_IO, "%s: %s", out->path, strerror(errno));
}

static int write_version(const char *directory, const struct graph *graph,
                         const struct params *params, const struct face *face, struct arena *arena,
                         struct export_result *out, struct error *err)
{
    struct draft draft;
    if (export_prepare(directory, err) < 0)
        return -1;
    sweep(directory);
    if (begin_draft(directory, &draft, err) < 0)
        return -1;
    int status = fill(draft.path, graph, params, face, arena, out, err);
    if (status == 0)
        status = publish(&draft, directory, out, err);
    if (status < 0)
        drop_draft(&draft);
    if (draft.held >= 0)
        close(draft.held);
    return status;
}

int export_write(const char *directory, const struct graph *graph, const struct params *params,
                 const struct face *face, struct export_result *out, struct error *err)
{
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory for the export");
    struct face complete = *face;
    int status = face_complete(&complete, graph, arena, err);
    *out = (struct export_result){0};
    if (status == 0)
        status = write_version(directory, graph, params, &complete, arena, out, err);
    arena_destroy(arena);
    return status < 0 ? error_wrap(err, "export") : 0;
}

int export_withdraw(const char *path, char aside[PATH_MAX], struct error *err)
{
    char directory[PATH_MAX], name[64];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    snprintf(name, sizeof name, "withdrawn-%.20s-%.6f", slash ? slash + 1 : path,
             clock_wall_seconds());
    if (join(aside, directory, name, err) < 0)
        return -1;
    if (rename(path, aside) < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    return directory_flush(directory, err);
}
