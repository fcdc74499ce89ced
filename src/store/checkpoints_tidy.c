#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "store/checkpoint.h"
#include "store/checkpoint_state.h"
#include "store/checkpoints.h"
#include "store/checkpoints_names.h"

/* --- the best and the newest ---------------------------------------------------------------- */

/* The step with the best evaluation; -1: none has one. Of equals the older. */
static int64_t find_best(const char *directory, struct arena *arena, const int64_t *steps,
                         int count, double *out_score)
{
    int64_t best = -1;
    double best_score = -INFINITY;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct manifest manifest;
        struct error ignored = {0};
        if (checkpoints_path(directory, steps[i], path, &ignored) < 0 ||
            checkpoint_read_manifest(path, arena, &manifest, &ignored) < 0)
            continue;
        double score = manifest_score(&manifest);
        if (score > best_score) {
            best = steps[i];
            best_score = score;
        }
    }
    *out_score = best_score;
    return best;
}

double checkpoints_best_score(const char *directory)
{
    int64_t *steps;
    int count;
    double score = -INFINITY;
    struct error ignored = {0};
    struct arena *arena = arena_create();
    if (arena && checkpoints_list(directory, arena, &steps, &count, &ignored) == 0)
        find_best(directory, arena, steps, count, &score);
    arena_destroy(arena);
    return score;
}

/* A link cannot be changed in place, but it can be replaced by a rename. */
static int link_best(const char *directory, int64_t step, struct error *err)
{
    char name[CHECKPOINTS_NAME_BYTES], link[PATH_MAX], beside[PATH_MAX];
    if (checkpoints_join(directory, CHECKPOINTS_BEST, link, err) < 0 ||
        checkpoints_spare_path(directory, CHECKPOINTS_DRAFT, step, beside, err) < 0)
        return -1;
    if (step < 0) /* none was evaluated */
        return unlink(link) < 0 && errno != ENOENT
                   ? error_set(err, ERROR_IO, "%s: %s", link, strerror(errno))
                   : 0;
    if (symlink(checkpoints_name(step, name), beside) < 0)
        return error_set(err, ERROR_IO, "%s: %s", beside, strerror(errno));
    if (rename(beside, link) == 0)
        return 0;
    error_set(err, ERROR_IO, "%s: %s", link, strerror(errno));
    unlink(beside);
    return -1;
}

/* As tf.train.latest_checkpoint reads it. */
static int name_newest(const char *directory, int64_t step, struct error *err)
{
    char name[CHECKPOINTS_NAME_BYTES], prefix[CHECKPOINTS_NAME_BYTES + 8];
    checkpoints_name(step, name);
    snprintf(prefix, sizeof prefix, "%s/model", name);
    return checkpoint_state_write(directory, (const char *[]){prefix}, 1, err);
}

/* --- after a save --------------------------------------------------------------------------- */

/* Takes the name away first, so that half of one is never taken for a checkpoint. */
static int remove_one(const char *directory, int64_t step, struct error *err)
{
    char path[PATH_MAX], gone[PATH_MAX];
    if (checkpoints_path(directory, step, path, err) < 0 ||
        checkpoints_spare_path(directory, CHECKPOINTS_GONE, step, gone, err) < 0)
        return -1;
    if (rename(path, gone) == 0)
        return directory_remove(gone, err);
    /* In a container, what its image brought can be removed but not renamed. */
    if (errno == EXDEV)
        return directory_remove(path, err);
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

int checkpoints_tidy(const char *directory, int64_t step, int keep, struct error *err)
{
    int64_t *steps;
    int count;
    double score;
    struct error ignored;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory to tidy up checkpoints");
    int status = name_newest(directory, step, err);
    if (checkpoints_list(directory, arena, &steps, &count, status ? &ignored : err) < 0) {
        arena_destroy(arena);
        return -1;
    }
    int64_t best = find_best(directory, arena, steps, count, &score);
    if (link_best(directory, best, status ? &ignored : err) < 0)
        status = -1;
    for (int i = 0; i < count - keep; i++)
        if (steps[i] != best && steps[i] != step &&
            remove_one(directory, steps[i], status ? &ignored : err) < 0)
            status = -1;
    arena_destroy(arena);
    return status;
}

/* --- moving aside --------------------------------------------------------------------------- */

/* A name of its own also when the clock was set back. */
static int make_aside(const char *directory, char path[PATH_MAX], struct error *err)
{
    enum { TRIES = 1000 };
    char date[48], name[CHECKPOINTS_NAME_BYTES];
    struct timespec now;
    struct tm parts = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(date, sizeof date, "old-%Y-%m-%dT%H%M%SZ", &parts);
    for (int i = 1; i <= TRIES; i++) {
        snprintf(name, sizeof name, i == 1 ? "%s" : "%s-%d", date, i);
        if (checkpoints_join(directory, name, path, err) < 0)
            return -1;
        if (mkdir(path, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            break;
    }
    return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
}

/* What is not there is no failure. */
static int move_one(const char *directory, const char *aside, const char *name, struct error *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (checkpoints_join(directory, name, from, err) < 0 ||
        checkpoints_join(aside, name, to, err) < 0)
        return -1;
    if (rename(from, to) == 0 || errno == ENOENT)
        return 0;
    return error_set(err, ERROR_IO, "%s cannot be moved to %s: %s", from, aside, strerror(errno));
}

static int move_steps(const char *directory, const char *aside, const int64_t *steps, int count,
                      struct error *err)
{
    char name[CHECKPOINTS_NAME_BYTES];
    for (int i = 0; i < count; i++)
        if (move_one(directory, aside, checkpoints_name(steps[i], name), err) < 0)
            return -1;
    return 0;
}

int checkpoints_move_aside(const char *directory, int64_t above, char path[PATH_MAX], bool *moved,
                           struct error *err)
{
    int64_t *steps;
    int count, first = 0;
    *moved = false;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory to move checkpoints aside");
    int status = checkpoints_list(directory, arena, &steps, &count, err);
    while (status == 0 && first < count && steps[first] <= above)
        first++;
    if (status == 0 && first < count) {
        *moved = true;
        status = make_aside(directory, path, err);
        /* What names them goes first: a name of nothing would be worse than none. */
        if (status == 0 && above < 0 &&
            (move_one(directory, path, CHECKPOINTS_BEST, err) < 0 ||
             move_one(directory, path, CHECKPOINTS_NEWEST, err) < 0))
            status = -1;
        if (status == 0)
            status = move_steps(directory, path, steps + first, count - first, err);
        /* The new names, then the loss of the old: in between there are two, never none. */
        if (status == 0 && (directory_flush(path, err) < 0 || directory_flush(directory, err) < 0))
            status = -1;
    }
    arena_destroy(arena);
    return status;
}

/* --- sweeping ------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static bool is_left_over(const char *name)
{
    return begins_with(name, CHECKPOINTS_DRAFT) || begins_with(name, CHECKPOINTS_GONE) ||
           begins_with(name, CHECKPOINTS_WAS) ||
           (begins_with(name, CHECKPOINTS_NEWEST ".") && file_name_ends(name, ".part"));
}

/* A checkpoint that was to be replaced by another of its step, which did not come. */
static bool put_back(const char *directory, const char *path, const char *name)
{
    char step[CHECKPOINTS_NAME_BYTES], wanted[PATH_MAX];
    struct error ignored;
    if (!begins_with(name, CHECKPOINTS_WAS))
        return false;
    snprintf(step, sizeof step, "%s", name + strlen(CHECKPOINTS_WAS));
    char *random = strrchr(step, '-');
    if (random)
        *random = '\0';
    return checkpoints_join(directory, step, wanted, &ignored) == 0 && access(wanted, F_OK) < 0 &&
           rename(path, wanted) == 0;
}

int checkpoints_sweep(const char *directory, struct error *err)
{
    char path[PATH_MAX];
    struct error failure = {0};
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!is_left_over(entry->d_name))
            continue;
        if (checkpoints_join(directory, entry->d_name, path, &failure) < 0 ||
            (!put_back(directory, path, entry->d_name) && directory_remove(path, &failure) < 0))
            log_line(LOG_WARNING, "left by a run that was killed, and cannot be removed: %s",
                     failure.message);
    }
    closedir(entries);
    return 0;
}
