#include "data/shard_names.h"

#include <limits.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/storage.h"

enum { MAX_DIGITS = 9 };

struct shard_name {
    int file;
    int number, count;
    int digits; /* of the number, to write a missing one as the others are */
};

static bool take_number(const char **at, int *out, int *digits)
{
    const char *start = *at;
    int value = 0;
    for (; **at >= '0' && **at <= '9' && *at - start < MAX_DIGITS; (*at)++)
        value = 10 * value + (**at - '0');
    *out = value;
    *digits = (int)(*at - start);
    return *digits > 0;
}

static bool is_ending(const char *text)
{
    static const char *const endings[] = {
        "", ".tfrecord", ".tfrecords", ".gz", ".tfrecord.gz", ".tfrecords.gz", ".zlib"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(text, endings[i]) == 0)
            return true;
    return false;
}

/* `name` without its folder. */
static bool parse_name(const char *name, const char *split, struct shard_name *out)
{
    size_t length = strlen(split);
    int ignored;
    if (strncmp(name, split, length) != 0 || name[length] != '-')
        return false;
    const char *at = name + length + 1;
    if (!take_number(&at, &out->number, &out->digits) || strncmp(at, "-of-", 4) != 0)
        return false;
    at += 4;
    return take_number(&at, &out->count, &ignored) && is_ending(at);
}

/* Those directly in `folder` ("" or "train/"). */
static int collect(const struct storage *storage, const char *split, const char *folder,
                   struct shard_name *out)
{
    const struct storage_file *files;
    int file_count = storage_files(storage, &files), found = 0;
    size_t length = strlen(folder);
    for (int i = 0; i < file_count; i++) {
        struct shard_name name = {.file = i};
        if (strncmp(files[i].name, folder, length) == 0 &&
            parse_name(files[i].name + length, split, &name))
            out[found++] = name;
    }
    return found;
}

static int by_number(const void *a, const void *b)
{
    const struct shard_name *x = a, *y = b;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->file > y->file) - (x->file < y->file);
}

/* The first number from `base` on that is not there, and how many are not. */
static int missing(const struct shard_name *names, int found, int base, int *first)
{
    int present = 0;
    *first = -1;
    for (int i = 0; i < found; i++) {
        if (names[i].number < base || names[i].number >= base + names[0].count)
            continue;
        if (*first < 0 && names[i].number != base + present)
            *first = base + present;
        present++;
    }
    if (*first < 0 && present < names[0].count)
        *first = base + present;
    return names[0].count - present;
}

static int check(const struct storage *storage, const char *split, const struct shard_name *names,
                 int found, struct error *err)
{
    char one[PATH_MAX], other[PATH_MAX];
    for (int i = 1; i < found; i++) {
        storage_describe(storage, names[i - 1].file, one, sizeof one);
        storage_describe(storage, names[i].file, other, sizeof other);
        if (names[i].count != names[0].count)
            return error_set(err, ERROR_USAGE,
                             "%s and %s: of %d and of %d; shards of two sets lie together", one,
                             other, names[i - 1].count, names[i].count);
        if (names[i].number == names[i - 1].number)
            return error_set(err, ERROR_USAGE, "%s and %s: number %d is there twice", one, other,
                             names[i].number);
    }
    int from_0, from_1;
    int gaps_0 = missing(names, found, 0, &from_0), gaps_1 = missing(names, found, 1, &from_1);
    int gaps = gaps_1 < gaps_0 ? gaps_1 : gaps_0, first = gaps_1 < gaps_0 ? from_1 : from_0;
    if (gaps > 0)
        return error_set(err, ERROR_IO, "%s: %d of %d shards of '%s' missing: %s-%0*d-of-%0*d%s",
                         storage_name(storage), gaps, names[0].count, split, split, names[0].digits,
                         first, names[0].digits, names[0].count, gaps > 1 ? " and others" : "");
    if (found > names[0].count)
        return error_set(err, ERROR_USAGE, "%s: shards of '%s' are numbered from 0 to %d",
                         storage_name(storage), split, names[0].count);
    return 0;
}

int shard_names_find(const struct storage *storage, const char *split, int **files,
                     struct error *err)
{
    int status = -1;
    const struct storage_file *listed;
    size_t room = (size_t)storage_files(storage, &listed) + 1;
    struct shard_name *names = memory_allocate(room * sizeof *names);
    int *found_files = memory_allocate(room * sizeof *found_files);
    if (!names || !found_files) {
        error_set(err, ERROR_MEMORY, "%s: no memory for the list of shards", storage_name(storage));
        goto out;
    }
    char folder[64];
    snprintf(folder, sizeof folder, "%s/", split);
    int found = collect(storage, split, "", names);
    if (found == 0)
        found = collect(storage, split, folder, names);
    if (found == 0) {
        error_set(err, ERROR_IO, "%s: holds no TFRecord files %s-*-of-*, nor does %s/ in it",
                  storage_name(storage), split, split);
        goto out;
    }
    qsort(names, (size_t)found, sizeof *names, by_number);
    if (check(storage, split, names, found, err) < 0)
        goto out;
    for (int i = 0; i < found; i++)
        found_files[i] = names[i].file;
    *files = found_files;
    found_files = NULL;
    status = found;
out:
    memory_free(names);
    memory_free(found_files);
    return status;
}
