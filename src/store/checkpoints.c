#include "store/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "store/bundle.h"
#include "store/checkpoint.h"

static const char step_prefix[] = "step-", draft_prefix[] = ".draft-", gone_prefix[] = ".gone-";
static const char newest_name[] = "checkpoint", best_name[] = "best", lock_name[] = "lock";

static int join(char out[PATH_MAX], struct error *err, const char *directory, const char *name)
{
    if (snprintf(out, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(ENAMETOOLONG));
    return 0;
}

static bool begins_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

int checkpoints_path(const char *directory, int64_t step, char path[PATH_MAX], struct error *err)
{
    char name[48];
    snprintf(name, sizeof name, "%s%012" PRId64, step_prefix, step);
    return join(path, err, directory, name);
}

int checkpoints_draft_path(const char *directory, int64_t step, char path[PATH_MAX],
                           struct error *err)
{
    char name[80];
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error_set(err, ERROR_IO, "%s: no random name: %s", directory, strerror(errno));
    snprintf(name, sizeof name, "%sstep-%012" PRId64 "-%016" PRIx64, draft_prefix, step, random);
    return join(path, err, directory, name);
}

/* --- the lock ------------------------------------------------------------------------------- */

static int refuse_second(const char *directory, int descriptor, struct error *err)
{
    char holder[128] = "";
    ssize_t bytes = pread(descriptor, holder, sizeof holder - 1, 0);
    holder[bytes > 0 ? strcspn(holder, "\n") : 0] = '\0';
    return error_set(err, ERROR_USAGE,
                     "%s: another run writes its checkpoints there%s%s; wait for it, or give this "
                     "one a directory of its own",
                     directory, *holder ? ": " : "", holder);
}

static void sign(int descriptor)
{
    char host[64] = "", line[128];
    gethostname(host, sizeof host - 1);
    int length = snprintf(line, sizeof line, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) < 0 || pwrite(descriptor, line, (size_t)length, 0) < 0)
        log_line(LOG_DEBUG, "the lock could not be signed: %s", strerror(errno));
}

static int sweep(const char *directory, struct error *err)
{
    char path[PATH_MAX];
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    int status = 0;
    for (struct dirent *entry; status == 0 && (entry = readdir(entries));)
        if (begins_with(entry->d_name, draft_prefix) || begins_with(entry->d_name, gone_prefix))
            status =
                join(path, err, directory, entry->d_name) < 0 ? -1 : directory_remove(path, err);
    closedir(entries);
    return status;
}

int checkpoints_take(const char *directory, struct checkpoints_lock *out, struct error *err)
{
    char path[PATH_MAX];
    out->descriptor = -1;
    if (directory_make(directory, err) < 0 || join(path, err, directory, lock_name) < 0)
        return -1;
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    if (flock(descriptor, LOCK_EX | LOCK_NB) < 0) {
        int status = errno == EWOULDBLOCK
                         ? refuse_second(directory, descriptor, err)
                         : error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
        close(descriptor);
        return status;
    }
    sign(descriptor);
    out->descriptor = descriptor;
    if (sweep(directory, err) == 0)
        return 0;
    checkpoints_let_go(out);
    return -1;
}

void checkpoints_let_go(struct checkpoints_lock *lock)
{
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}

/* --- finding -------------------------------------------------------------------------------- */

static bool parse_step(const char *name, int64_t *step)
{
    char *end;
    if (!begins_with(name, step_prefix))
        return false;
    const char *digits = name + strlen(step_prefix);
    errno = 0;
    *step = strtoll(digits, &end, 10);
    return end != digits && !*end && *step >= 0 && !errno;
}

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
        if (parse_step(entry->d_name, &step)) {
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

int checkpoints_find_newest(const char *directory, struct arena *arena, struct manifest *out,
                            char path[PATH_MAX], bool *found, struct error *err)
{
    int64_t *steps;
    int count;
    struct error damage = {0};
    *found = false;
    if (checkpoints_list(directory, arena, &steps, &count, err) < 0)
        return -1;
    for (int i = count - 1; i >= 0; i--) {
        if (checkpoints_path(directory, steps[i], path, err) < 0)
            return -1;
        if (checkpoint_verify(path, &damage) == 0 &&
            checkpoint_read_manifest(path, arena, out, &damage) == 0) {
            *found = true;
            return 0;
        }
        log_line(LOG_WARNING, "a checkpoint is damaged and passed over: %s", damage.message);
    }
    if (count)
        return error_set(err, ERROR_FORMAT,
                         "%s: none of its %d checkpoints is whole (%s); --fresh starts over",
                         directory, count, damage.message);
    return 0;
}

int checkpoints_resolve(const char *path, char resolved[PATH_MAX], struct error *err)
{
    char file[PATH_MAX];
    bool found;
    struct manifest manifest;
    if (join(file, err, path, "manifest.json") < 0)
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

/* --- after a save --------------------------------------------------------------------------- */

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
    char target[48], link[PATH_MAX], beside[PATH_MAX];
    snprintf(target, sizeof target, "%s%012" PRId64, step_prefix, step);
    if (join(link, err, directory, best_name) < 0 ||
        checkpoints_draft_path(directory, step, beside, err) < 0)
        return -1;
    if (symlink(target, beside) < 0 || rename(beside, link) < 0)
        return error_set(err, ERROR_IO, "%s: %s", link, strerror(errno));
    return 0;
}

/* As tf.train.latest_checkpoint reads it. */
static int name_newest(const char *directory, int64_t step, struct error *err)
{
    char path[PATH_MAX], text[256];
    char name[64];
    if (join(path, err, directory, newest_name) < 0)
        return -1;
    snprintf(name, sizeof name, "%s%012" PRId64 "/model", step_prefix, step);
    int length =
        snprintf(text, sizeof text,
                 "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: \"%s\"\n", name, name);
    return file_write_atomic(path, text, (size_t)length, err);
}

/* Takes the name away first, so that half of one is never taken for a checkpoint. */
static int remove_one(const char *directory, int64_t step, struct error *err)
{
    char path[PATH_MAX], name[48], gone[PATH_MAX];
    snprintf(name, sizeof name, "%s%012" PRId64, gone_prefix, step);
    if (checkpoints_path(directory, step, path, err) < 0 || join(gone, err, directory, name) < 0)
        return -1;
    if (rename(path, gone) < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    return directory_remove(gone, err);
}

int checkpoints_tidy(const char *directory, int64_t step, int keep, struct error *err)
{
    int64_t *steps;
    int count, status = -1;
    struct arena *arena = arena_create();
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory to tidy up checkpoints");
    if (name_newest(directory, step, err) == 0 &&
        checkpoints_list(directory, arena, &steps, &count, err) == 0) {
        double score;
        int64_t best = find_best(directory, arena, steps, count, &score);
        status = best >= 0 ? link_best(directory, best, err) : 0;
        for (int i = 0; status == 0 && i < count - keep; i++)
            if (steps[i] != best && steps[i] != step)
                status = remove_one(directory, steps[i], err);
    }
    arena_destroy(arena);
    return status;
}

/* --- starting over -------------------------------------------------------------------------- */

static bool belongs_to_run(const char *name)
{
    int64_t step;
    return parse_step(name, &step) || !strcmp(name, newest_name) || !strcmp(name, best_name);
}

static int move_entries(const char *directory, DIR *entries, const char *aside, bool *moved,
                        struct error *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!belongs_to_run(entry->d_name))
            continue;
        if (join(from, err, directory, entry->d_name) < 0 ||
            join(to, err, aside, entry->d_name) < 0)
            return -1;
        if (!*moved && mkdir(aside, 0777) < 0)
            return error_set(err, ERROR_IO, "%s: %s", aside, strerror(errno));
        *moved = true;
        if (rename(from, to) < 0)
            return error_set(err, ERROR_IO, "%s: %s", from, strerror(errno));
    }
    return 0;
}

int checkpoints_move_aside(const char *directory, char path[PATH_MAX], bool *moved,
                           struct error *err)
{
    char name[64];
    struct timespec now;
    struct tm parts;
    *moved = false;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(name, sizeof name, "old-%Y-%m-%dT%H%M%S", &parts);
    snprintf(name + length, sizeof name - length, ".%03ldZ", now.tv_nsec / 1000000);
    DIR *entries = opendir(directory);
    if (!entries)
        return error_set(err, ERROR_IO, "%s: %s", directory, strerror(errno));
    int status = join(path, err, directory, name);
    if (status == 0)
        status = move_entries(directory, entries, path, moved, err);
    closedir(entries);
    return status < 0 ? -1 : directory_flush(directory, err);
}
