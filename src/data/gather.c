#include "data/gather.h"

#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/storage.h"
#include "data/tar.h"

enum { MAX_PICTURE_BYTES = 256 << 20 };

/* A picture before its class has a number. */
struct found {
    struct gathered_picture picture;
    enum dataset_split split;
    const char *class_name;
};

struct finds {
    struct found *items;
    int64_t count, capacity;
};

static bool is_picture(const char *name)
{
    return file_name_ends(name, ".jpg") || file_name_ends(name, ".jpeg") ||
           file_name_ends(name, ".png");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_MEMORY, "no memory for the list of pictures");
}

static int add_find(struct finds *finds, const struct found *found, struct error *err)
{
    if (finds->count == finds->capacity) {
        int64_t capacity = finds->capacity ? 2 * finds->capacity : 1024;
        void *larger = memory_resize(finds->items, (size_t)capacity * sizeof *finds->items);
        if (!larger)
            return no_memory(err);
        finds->items = larger;
        finds->capacity = capacity;
    }
    finds->items[finds->count++] = *found;
    return 0;
}

/* --- class folders -------------------------------------------------------------------------- */

static bool starts_split(const char *name, enum dataset_split *split, const char **rest)
{
    static const struct {
        const char *folder;
        enum dataset_split split;
    } folders[] = {
        {"train/", SPLIT_TRAIN}, {"val/", SPLIT_EVALUATE}, {"validation/", SPLIT_EVALUATE}};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t length = strlen(folders[i].folder);
        if (strncmp(name, folders[i].folder, length) != 0 || !strchr(name + length, '/'))
            continue;
        *split = folders[i].split;
        *rest = name + length;
        return true;
    }
    return false;
}

static bool has_splits(const struct storage_file *files, int count)
{
    enum dataset_split split;
    const char *rest;
    for (int i = 0; i < count; i++)
        if (is_picture(files[i].name) && starts_split(files[i].name, &split, &rest))
            return true;
    return false;
}

/* Mostly that of the picture before. */
static const char *class_name(struct arena *arena, const struct finds *finds, const char *name,
                              size_t length)
{
    const char *last = finds->count ? finds->items[finds->count - 1].class_name : "";
    return strncmp(last, name, length) == 0 && last[length] == '\0'
               ? last
               : arena_format(arena, "%.*s", (int)length, name);
}

static int find_in_folders(struct gathering *gathering, struct finds *finds, struct error *err)
{
    const struct storage_file *files;
    int count = storage_files(gathering->storage, &files);
    gathering->split = has_splits(files, count);
    for (int i = 0; i < count; i++) {
        struct found found = {.split = SPLIT_TRAIN};
        const char *rest = files[i].name;
        if (!is_picture(rest) || (gathering->split && !starts_split(rest, &found.split, &rest)))
            continue;
        const char *slash = strchr(rest, '/');
        if (!slash)
            continue; /* a picture beside the folders has no class */
        found.class_name = class_name(gathering->arena, finds, rest, (size_t)(slash - rest));
        if (!found.class_name)
            return no_memory(err);
        found.picture =
            (struct gathered_picture){.file = i, .bytes = files[i].bytes, .name = base_name(rest)};
        if (add_find(finds, &found, err) < 0)
            return -1;
    }
    return 0;
}

/* --- archives ------------------------------------------------------------------------------- */

/* One archive, or one inside it: `start` is where its bytes lie in the file. */
struct archive {
    int file;
    uint64_t start;
    enum dataset_split split;
    const char *class_name; /* of all its pictures, or NULL */
};

static const char *class_of_folder(struct arena *arena, const char *name)
{
    const char *end = strrchr(name, '/');
    if (!end)
        return "";
    const char *start = end;
    while (start > name && start[-1] != '/')
        start--;
    return arena_format(arena, "%.*s", (int)(end - start), start);
}

static int find_in_archive(struct gathering *gathering, const struct archive *archive,
                           const uint8_t *bytes, size_t count, struct finds *finds,
                           struct error *err);

static int add_member(struct gathering *gathering, const struct archive *archive,
                      const uint8_t *bytes, const struct tar_member *member, struct finds *finds,
                      struct error *err)
{
    const char *name = base_name(member->name);
    struct archive inner = *archive;
    inner.start = archive->start + member->offset;
    if (!archive->class_name && file_name_ends(name, ".tar")) {
        inner.class_name = arena_format(gathering->arena, "%.*s", (int)strlen(name) - 4, name);
        return inner.class_name ? find_in_archive(gathering, &inner, bytes + member->offset,
                                                  member->bytes, finds, err)
                                : no_memory(err);
    }
    if (!is_picture(name))
        return 0;
    struct found found = {
        .split = archive->split,
        .class_name = archive->class_name ? archive->class_name
                                          : class_of_folder(gathering->arena, member->name),
        .picture = {.file = archive->file,
                    .offset = inner.start,
                    .bytes = member->bytes,
                    .name = arena_copy_text(gathering->arena, name)},
    };
    if (!found.class_name || !found.picture.name)
        return no_memory(err);
    return add_find(finds, &found, err);
}

static int find_in_archive(struct gathering *gathering, const struct archive *archive,
                           const uint8_t *bytes, size_t count, struct finds *finds,
                           struct error *err)
{
    char where[PATH_MAX];
    storage_describe(gathering->storage, archive->file, where, sizeof where);
    struct tar_member *member = memory_allocate(sizeof *member);
    if (!member)
        return no_memory(err);
    uint64_t offset = 0;
    int found, status = 0;
    while (status == 0 && (found = tar_next(where, bytes, count, &offset, member, err)) > 0)
        if (member->is_file)
            status = add_member(gathering, archive, bytes, member, finds, err);
    if (status == 0 && found < 0) {
        status = -1;
        if (archive->class_name)
            error_wrap(err, "the archive of %s at offset %" PRIu64, archive->class_name,
                       archive->start);
    }
    memory_free(member);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->split != y->split)
        return x->split < y->split ? -1 : 1;
    return strcmp(x->picture.name, y->picture.name);
}

/* A flat archive of validation pictures: line n of the labels is about the nth name. */
static int label_validation(struct finds *finds, const struct gather_settings *settings,
                            struct error *err)
{
    int64_t flat = 0, first = -1;
    qsort(finds->items, (size_t)finds->count, sizeof *finds->items, compare_names);
    for (int64_t i = 0; i < finds->count; i++) {
        if (finds->items[i].split != SPLIT_EVALUATE || *finds->items[i].class_name)
            continue;
        if (first < 0)
            first = i;
        flat++;
    }
    if (flat == 0)
        return 0;
    if (!settings->validation_labels)
        return error_set(err, ERROR_USAGE,
                         "the validation archive's %" PRId64 " pictures are in no class folders: "
                         "give their classes, one per line, with --validation-labels FILE",
                         flat);
    if (settings->validation_count != flat)
        return error_set(err, ERROR_FORMAT,
                         "%" PRId64 " validation labels for %" PRId64 " pictures; the files do "
                         "not belong together",
                         settings->validation_count, flat);
    for (int64_t i = first, line = 0; i < finds->count; i++)
        if (!*finds->items[i].class_name)
            finds->items[i].class_name = settings->validation_labels[line++];
    return 0;
}

/* ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and the like; beside them lie archives that are
 * not wanted (test, task 3, somebody's backup). */
static bool is_wanted_archive(const char *path)
{
    static const char *const endings[] = {"train.tar", "val.tar", "validation.tar"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (file_name_ends(path, endings[i]))
            return true;
    return false;
}

static int check_classes(const struct finds *finds, struct error *err)
{
    for (int64_t i = 0; i < finds->count; i++) {
        const struct found *found = &finds->items[i];
        if (found->split == SPLIT_TRAIN && (!*found->class_name || !strcmp(found->class_name, ".")))
            return error_set(err, ERROR_FORMAT,
                             "%s: a training picture outside of any class; an archive of training "
                             "pictures holds one folder or one .tar for each class",
                             found->picture.name);
    }
    return 0;
}

static int find_in_archives(struct gathering *gathering, const struct gather_settings *settings,
                            const char *only, struct finds *finds, struct error *err)
{
    const struct storage_file *files;
    int count = storage_files(gathering->storage, &files);
    gathering->split = true;
    for (int i = 0; i < count; i++) {
        const char *name = base_name(files[i].name);
        if (only ? strcmp(files[i].name, only) != 0 : !is_wanted_archive(name))
            continue;
        struct archive archive = {.file = i,
                                  .split = strcasestr(name, "val") ? SPLIT_EVALUATE : SPLIT_TRAIN};
        const uint8_t *bytes;
        if (storage_map(gathering->storage, i, &bytes, err) < 0 ||
            find_in_archive(gathering, &archive, bytes, files[i].bytes, finds, err) < 0)
            return -1;
    }
    return check_classes(finds, err) < 0 ? -1 : label_validation(finds, settings, err);
}

/* --- classes get numbers -------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_classes(struct gathering *gathering, const struct finds *finds, struct error *err)
{
    const char **names = ARENA_ARRAY(gathering->arena, const char *, finds->count + 1);
    if (!names)
        return no_memory(err);
    int64_t count = 0;
    for (int64_t i = 0; i < finds->count; i++) /* neighbours are mostly of one class */
        if (count == 0 || strcmp(names[count - 1], finds->items[i].class_name) != 0)
            names[count++] = finds->items[i].class_name;
    qsort(names, (size_t)count, sizeof *names, compare_texts);
    int64_t distinct = 0;
    for (int64_t i = 0; i < count; i++)
        if (distinct == 0 || strcmp(names[distinct - 1], names[i]) != 0)
            names[distinct++] = names[i];
    gathering->classes = names;
    gathering->class_count = (int)distinct;
    return 0;
}

/* In the order the caller gave; sorted beside it for looking up. */
struct class_order {
    const char *name;
    int label;
};

static int compare_orders(const void *a, const void *b)
{
    return strcmp(((const struct class_order *)a)->name, ((const struct class_order *)b)->name);
}

static int fill_split(struct gathered_split *split, const struct gathered_picture *picture,
                      struct error *err)
{
    if (split->count == split->capacity) {
        int64_t capacity = split->capacity ? 2 * split->capacity : 1024;
        void *larger = memory_resize(split->pictures, (size_t)capacity * sizeof *split->pictures);
        if (!larger)
            return no_memory(err);
        split->pictures = larger;
        split->capacity = capacity;
    }
    split->pictures[split->count++] = *picture;
    return 0;
}

static int number_classes(struct gathering *gathering, const struct finds *finds, struct error *err)
{
    struct class_order *order =
        ARENA_ARRAY(gathering->arena, struct class_order, gathering->class_count + 1);
    if (!order)
        return no_memory(err);
    for (int i = 0; i < gathering->class_count; i++)
        order[i] = (struct class_order){gathering->classes[i], i};
    qsort(order, (size_t)gathering->class_count, sizeof *order, compare_orders);
    for (int64_t i = 0; i < finds->count; i++) {
        struct found *found = &finds->items[i];
        struct class_order wanted = {.name = found->class_name};
        const struct class_order *known =
            bsearch(&wanted, order, (size_t)gathering->class_count, sizeof *order, compare_orders);
        if (!known)
            return error_set(err, ERROR_FORMAT,
                             "class '%.200s' of picture %.200s is not among the %d classes of the "
                             "label file",
                             found->class_name, found->picture.name, gathering->class_count);
        found->picture.label = known->label;
        if (fill_split(&gathering->splits[found->split], &found->picture, err) < 0)
            return -1;
    }
    return 0;
}

static int compare_pictures(const void *a, const void *b)
{
    const struct gathered_picture *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int finish(struct gathering *gathering, const struct gather_settings *settings,
                  const struct finds *finds, struct error *err)
{
    if (finds->count == 0)
        return error_set(err, ERROR_FORMAT,
                         "%s: no pictures (.jpg, .jpeg, .png) in folders named by class, as "
                         "train/CLASS/*.jpg and val/CLASS/*.jpg or CLASS/*.jpg",
                         storage_name(gathering->storage));
    if (settings->classes) {
        gathering->class_count = settings->class_count;
        gathering->classes = ARENA_ARRAY(gathering->arena, const char *, settings->class_count + 1);
        for (int i = 0; gathering->classes && i < settings->class_count; i++)
            gathering->classes[i] = arena_copy_text(gathering->arena, settings->classes[i]);
        if (!gathering->classes)
            return no_memory(err);
    } else if (sort_classes(gathering, finds, err) < 0) {
        return -1;
    }
    if (number_classes(gathering, finds, err) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        if (gathering->splits[i].count)
            qsort(gathering->splits[i].pictures, (size_t)gathering->splits[i].count,
                  sizeof *gathering->splits[i].pictures, compare_pictures);
    return 0;
}

/* --- the doors ------------------------------------------------------------------------------ */

static bool has_archives(const struct storage *storage)
{
    const struct storage_file *files;
    int count = storage_files(storage, &files);
    for (int i = 0; i < count; i++)
        if (is_wanted_archive(files[i].name))
            return true;
    return false;
}

/* "DIR/FILE.tar" taken apart when that is a file; else the whole is a directory. */
static const char *split_path(const char *path, char directory[PATH_MAX])
{
    struct stat info;
    if (!file_name_ends(path, ".tar") || (stat(path, &info) == 0 && S_ISDIR(info.st_mode)))
        return NULL;
    return storage_split(path, directory, NULL);
}

static int gather(struct gathering *gathering, const struct gather_settings *settings,
                  bool archives, struct finds *finds, struct error *err)
{
    char directory[PATH_MAX];
    const char *only = archives ? split_path(settings->path, directory) : NULL;
    if (!(gathering->arena = arena_create()))
        return no_memory(err);
    if ((only ? storage_open_files(directory, &only, 1, settings->stop, &gathering->storage, err)
              : storage_open(settings->path, settings->stop, &gathering->storage, err)) < 0)
        return -1;
    if (only && storage_find(gathering->storage, only) < 0)
        return error_set(err, ERROR_IO, "%s: there is no such file", settings->path);
    int status = archives && (only || has_archives(gathering->storage))
                     ? find_in_archives(gathering, settings, only, finds, err)
                     : find_in_folders(gathering, finds, err);
    return status < 0 ? -1 : finish(gathering, settings, finds, err);
}

static int gather_from(const struct gather_settings *settings, bool archives,
                       struct gathering **out, struct error *err)
{
    struct finds finds = {0};
    struct gathering *gathering = memory_allocate(sizeof *gathering);
    if (!gathering)
        return no_memory(err);
    int status = gather(gathering, settings, archives, &finds, err);
    memory_free(finds.items);
    if (status < 0)
        gathering_destroy(gathering);
    else
        *out = gathering;
    return status;
}

int gather_folders(const char *path, const atomic_int *stop, struct gathering **out,
                   struct error *err)
{
    return gather_from(&(struct gather_settings){.path = path, .stop = stop}, false, out, err);
}

int gather_any(const struct gather_settings *settings, struct gathering **out, struct error *err)
{
    return gather_from(settings, true, out, err);
}

void gathering_destroy(struct gathering *gathering)
{
    if (!gathering)
        return;
    for (int i = 0; i < 2; i++)
        memory_free(gathering->splits[i].pictures);
    storage_close(gathering->storage);
    arena_destroy(gathering->arena);
    memory_free(gathering);
}

static bool is_whole_file(const struct gathering *gathering, const struct gathered_picture *picture)
{
    const struct storage_file *files;
    storage_files(gathering->storage, &files);
    return is_picture(files[picture->file].name);
}

const char *gathered_describe(const struct gathering *gathering,
                              const struct gathered_picture *picture, char *text, size_t bytes)
{
    storage_describe(gathering->storage, picture->file, text, bytes);
    size_t used = strlen(text);
    if (!is_whole_file(gathering, picture))
        snprintf(text + used, bytes - used, ": %s at offset %" PRIu64, picture->name,
                 picture->offset);
    return text;
}

int gathered_read(const struct gathering *gathering, const struct gathered_picture *picture,
                  uint8_t **buffer, size_t *capacity, struct error *err)
{
    char where[PATH_MAX + 512];
    if (picture->bytes > MAX_PICTURE_BYTES)
        return error_set(err, ERROR_FORMAT, "%s: %" PRIu64 " bytes are too many for a picture",
                         gathered_describe(gathering, picture, where, sizeof where),
                         picture->bytes);
    if (picture->bytes > *capacity) {
        uint8_t *larger = memory_resize(*buffer, picture->bytes + picture->bytes / 4);
        if (!larger)
            return error_set(err, ERROR_MEMORY, "no memory for a picture of %" PRIu64 " bytes",
                             picture->bytes);
        *buffer = larger;
        *capacity = picture->bytes + picture->bytes / 4;
    }
    return storage_read(gathering->storage, picture->file, picture->offset, picture->bytes, *buffer,
                        err);
}
