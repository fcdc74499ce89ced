#include "store/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "store/checkpoint.h"
#include "store/checkpoints_names.h"

static const char step_prefix[] = "step-";

/* --- names ---------------------------------------------------------------------------------- */

int checkpoints_join(const char *directory, const char *name, char path[PATH_MAX],
                     struct error *err)
{
    if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(ENAMETOOLONG));
    return 0;
}

const char *checkpoints_name(int64_t step, char name[CHECKPOINTS_NAME_BYTES])
{
    snprintf(name, CHECKPOINTS_NAME_BYTES, "%s%012" PRId64, step_prefix, step);
    return name;
}

bool checkpoints_parse_name(const char *name, int64_t *step)
{
    char ours[CHECKPOINTS_NAME_BYTES];
    if (strncmp(name, step_prefix, strlen(step_prefix)) != 0)
        return false;
    *step = strtoll(name + strlen(step_prefix), NULL, 10);
    return *step >= 0 && !strcmp(checkpoints_name(*step, ours), name);
}

int checkpoints_path(const char *directory, int64_t step, char path[PATH_MAX], struct error *err)
{
    char name[CHECKPOINTS_NAME_BYTES];
    return checkpoints_join(directory, checkpoints_name(step, name), path, err);
}

/* Not the process's number: on a shared disk there are others, in containers all are 1. */
int checkpoints_spare_path(const char *directory, const char *prefix, int64_t step,
                           char path[PATH_MAX], struct error *err)
{
    char name[CHECKPOINTS_NAME_BYTES], spare[2 * CHECKPOINTS_NAME_BYTES];
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error_set(err, ERROR_IO, "%s: no random name: %s", directory, strerror(errno));
    snprintf(spare, sizeof spare, "%s%s-%016" PRIx64, prefix, checkpoints_name(step, name), random);
    return checkpoints_join(directory, spare, path, err);
}

/* --- listing -------------------------------------------------------------------------------- */

static int by_step(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int count_steps(DIR *entries, int64_t *steps, int capacity)
{
    int count = 0;
    int64_t step;
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (checkpoints_parse_name(entry->d_name, &step)) {
            if (count < capacity)
                steps[count] = step;
            count++;
        }
    return capacity && count > capacity ? capacity : count;
}

int checkpoints_list(const char *directory, struct arena *arena, int64_t **steps, int *count,
                     struct error *err)
{
    DIR *entries = opendir(directory);
    *count = 0;
    *steps = NULL;
    if (!entries)
        return errno == ENOENT ? 0 : error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    int found = count_steps(entries, NULL, 0);
    *steps = ARENA_ARRAY(arena, int64_t, found + 1);
    if (*steps && found)
        *count = count_steps(entries, *steps, found);
    closedir(entries);
    if (!*steps)
        return error_set(err, ERROR_MEMORY, "no memory for %d checkpoints", found);
    qsort(*steps, (size_t)*count, sizeof **steps, by_step);
    return 0;
}

/* --- finding -------------------------------------------------------------------------------- */

/* Every byte of it, and that it is the one its name tells. */
static int check_one(const char *path, int64_t step, struct arena *arena, struct manifest *out,
                     struct error *err)
{
    if (checkpoint_verify(path, err) < 0 || checkpoint_read_manifest(path, arena, out, err) < 0)
        return -1;
    if (out->step != step)
        return error_set(err, ERROR_FORMAT,
                         "%s: it is a checkpoint of step %" PRId64 "; was it renamed?", path,
                         out->step);
    return 0;
}

int checkpoints_check(const char *directory, int64_t step, struct error *err)
{
    char path[PATH_MAX];
    struct manifest manifest;
    struct arena *arena = arena_create();
    int status = arena ? checkpoints_path(directory, step, path, err)
                       : error_set(err, ERROR_MEMORY, "no memory for a manifest");
    if (status == 0)
        status = check_one(path, step, arena, &manifest, err);
    arena_destroy(arena);
    return status;
}

int checkpoints_find_newest(const char *directory, struct arena *arena, struct manifest *out,
                            char path[PATH_MAX], bool *found, struct error *err)
{
    int64_t *steps;
    int count, damaged = 0;
    struct error damage = {0};
    *found = false;
    if (checkpoints_list(directory, arena, &steps, &count, err) < 0)
        return -1;
    for (int i = count - 1; i >= 0 && !*found; i--) {
        if (checkpoints_path(directory, steps[i], path, err) < 0)
            return -1;
        *found = check_one(path, steps[i], arena, out, &damage) == 0;
        if (!*found && damage.code == ERROR_MEMORY)
            return error_set(err, damage.code, "%s", damage.message);
        /* The run that writes here may have removed it meanwhile. */
        if (*found || (access(path, F_OK) < 0 && errno == ENOENT))
            continue;
        damaged++;
        log_line(LOG_WARNING, "a checkpoint is damaged and passed over: %s", damage.message);
    }
    if (damaged && !*found)
        return error_set(err, ERROR_FORMAT,
                         "%s: none of its %d checkpoints is whole (the last: %s); --fresh moves "
                         "them aside and starts over",
                         directory, damaged, damage.message);
    return 0;
}

int checkpoints_resolve(const char *path, char resolved[PATH_MAX], struct error *err)
{
    char file[PATH_MAX];
    bool found;
    struct manifest manifest;
    if (checkpoints_join(path, "manifest.json", file, err) < 0)
        return -1;
    if (access(file, F_OK) == 0) {
        snprintf(resolved, PATH_MAX, "%s", path);
        return 0;
    }
    struct arena *arena = arena_create();
    int status = arena ? checkpoints_find_newest(path, arena, &manifest, resolved, &found, err)
                       : error_set(err, ERROR_MEMORY, "no memory to look for checkpoints");
    arena_destroy(arena);
    if (status == 0 && !found)
        return error_set(err, ERROR_IO, "%s: there is no checkpoint", path);
    return status;
}
