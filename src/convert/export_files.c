#include "convert/export_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"

enum { MOST_FILES = 1000, MOST_DEPTH = 8 };

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the list of the export's files");
}

/* ---- finding ---- */

struct search {
    const char *root;
    struct arena *arena;
    struct export_file *list; /* [MOST_FILES] */
    int count;
};

static int find_below(struct search *search, const char *folder, int depth, struct error *err);

/* `path` is relative to the root. */
static int find_one(struct search *search, const char *path, int depth, struct error *err)
{
    char whole[PATH_MAX];
    struct stat info;
    snprintf(whole, sizeof whole, "%s/%s", search->root, path);
    if (stat(whole, &info) < 0)
        return error_set(err, ERROR_IO, "%s: %s", whole, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return find_below(search, path, depth + 1, err);
    if (search->count == MOST_FILES)
        return error_set(err, ERROR_FORMAT, "%s: more than %d files", search->root, MOST_FILES);
    search->list[search->count++] = (struct export_file){path, info.st_size};
    return 0;
}

static int find_below(struct search *search, const char *folder, int depth, struct error *err)
{
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", search->root, folder);
    DIR *entries = depth < MOST_DEPTH ? opendir(whole) : NULL;
    if (!entries)
        return error_set(err, ERROR_IO, "%s: %s", whole,
                         depth < MOST_DEPTH ? strerror(errno) : "too deep");
    int status = 0;
    for (const struct dirent *entry; status == 0 && (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        const char *path =
            arena_format(search->arena, "%s%s%s", folder, *folder ? "/" : "", entry->d_name);
        status = path ? find_one(search, path, depth, err) : no_memory(err);
    }
    closedir(entries);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct export_file *)a)->path, ((const struct export_file *)b)->path);
}

int export_files_find(const char *directory, struct arena *arena, struct export_files *out,
                      struct error *err)
{
    struct search search = {.root = directory,
                            .arena = arena,
                            .list = ARENA_ARRAY(arena, struct export_file, MOST_FILES)};
    if (!search.list)
        return no_memory(err);
    if (find_below(&search, "", 0, err) < 0)
        return -1;
    qsort(search.list, (size_t)search.count, sizeof *search.list, by_path);
    *out = (struct export_files){search.list, search.count};
    return 0;
}

/* ---- checking ---- */

static int check_one(const char *directory, const struct export_file *file, struct error *err)
{
    static const char why[] = "is it still being copied, or was it changed?";
    char whole[PATH_MAX];
    struct stat info;
    int length = snprintf(whole, sizeof whole, "%s/%s", directory, file->path);
    if (length < 0 || length >= PATH_MAX || stat(whole, &info) < 0)
        return error_set(err, ERROR_FORMAT, "%s of the export is missing; %s", file->path, why);
    if (info.st_size != file->bytes)
        return error_set(err, ERROR_FORMAT,
                         "%s has %" PRId64 " bytes, %" PRId64 " were exported; %s", file->path,
                         (int64_t)info.st_size, file->bytes, why);
    return 0;
}

int export_files_check(const char *directory, const struct export_files *files, struct error *err)
{
    for (int i = 0; i < files->count; i++)
        if (check_one(directory, &files->list[i], err) < 0)
            return -1;
    return 0;
}

/* ---- as text ---- */

struct json *export_files_describe(const struct export_files *files)
{
    struct json *list = json_array_create();
    for (int i = 0; i < files->count; i++) {
        struct json *file = json_object_create();
        json_set_text(file, "path", files->list[i].path);
        json_set_integer(file, "bytes", files->list[i].bytes);
        json_append(list, file);
    }
    return list;
}

static bool is_below(const char *path)
{
    return *path && *path != '/' && strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 &&
           !strstr(path, "/../");
}

int export_files_parse(const struct json *json, struct arena *arena, struct export_files *out,
                       struct error *err)
{
    int count = json_count(json);
    *out = (struct export_files){0};
    if (count > MOST_FILES)
        return error_set(err, ERROR_FORMAT, "it lists more than %d files", MOST_FILES);
    struct export_file *list = ARENA_ARRAY(arena, struct export_file, count + 1);
    if (!list)
        return no_memory(err);
    for (int i = 0; i < count; i++) {
        const char *path = json_get_text(json_at(json, i), "path", "");
        list[i].bytes = json_get_integer(json_at(json, i), "bytes", -1);
        if (!is_below(path) || list[i].bytes < 0)
            return error_set(err, ERROR_FORMAT, "its list of files is not right");
        list[i].path = arena_copy_text(arena, path);
        if (!list[i].path)
            return no_memory(err);
    }
    *out = (struct export_files){list, count};
    return 0;
}
