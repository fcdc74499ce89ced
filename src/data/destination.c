#include "data/destination.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "net/s3.h"

enum { SMALL_FILE_LIMIT = 1 << 20 };

struct destination {
    char *directory; /* where files are written: the target itself, or on the way to S3 */
    struct s3 *s3;   /* NULL: a directory of this machine */
    char prefix[S3_KEY_BYTES];
};

/* ---- s3:// ---- */

static int see_one(void *context, const struct s3_object *object, struct error *err)
{
    (void)object, (void)err;
    *(bool *)context = true;
    return -1; /* one is enough */
}

/* Finds out now whether bucket and credentials are right, not after an hour of work. */
static int ask_bucket(struct destination *destination, struct error *err)
{
    bool seen = false;
    return s3_list(destination->s3, destination->prefix, see_one, &seen, err) < 0 && !seen ? -1 : 0;
}

static int open_bucket(struct destination *destination, const char *path, const atomic_int *stop,
                       struct error *err)
{
    char bucket[S3_BUCKET_BYTES], staging[PATH_MAX];
    struct s3_settings settings;
    const char *base = getenv("TMPDIR");
    if (s3_parse(path, bucket, destination->prefix, err) < 0 ||
        s3_settings_read(&settings, err) < 0)
        return -1;
    settings.stop = stop;
    if (s3_open(bucket, &settings, &destination->s3, err) < 0 || ask_bucket(destination, err) < 0)
        return -1;
    snprintf(staging, sizeof staging, "%s/lockstep-upload-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(staging))
        return error_set(err, ERROR_IO, "%s: %s", staging, strerror(errno));
    destination->directory = memory_copy_text(staging);
    return destination->directory ? 0 : error_set(err, ERROR_MEMORY, "no memory for a path");
}

static int make_key(const struct destination *destination, const char *name, char key[S3_KEY_BYTES],
                    struct error *err)
{
    const char *prefix = destination->prefix;
    if (snprintf(key, S3_KEY_BYTES, "%s%s%s", prefix, *prefix ? "/" : "", name) >= S3_KEY_BYTES)
        return error_set(err, ERROR_USAGE, "the key of %s would be longer than %d bytes", name,
                         S3_KEY_BYTES - 1);
    return 0;
}

static int upload_open_file(struct destination *destination, int file, const char *path,
                            const char *key, struct error *err)
{
    struct stat info;
    if (fstat(file, &info) < 0)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    size_t bytes = (size_t)info.st_size;
    void *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0) : NULL;
    if (data == MAP_FAILED)
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    int status = s3_write(destination->s3, key, data, bytes, err);
    if (data)
        munmap(data, bytes);
    return status;
}

static int upload(struct destination *destination, const char *name, struct error *err)
{
    char path[PATH_MAX], key[S3_KEY_BYTES];
    destination_place(destination, name, path);
    if (make_key(destination, name, key, err) < 0)
        return -1;
    int file = file_open(path, err);
    if (file < 0)
        return -1;
    int status = upload_open_file(destination, file, path, key, err);
    close(file);
    unlink(path); /* there, or to be made again */
    return status;
}

static int download(const struct destination *destination, const char *name, char **out,
                    size_t *count, struct error *err)
{
    char key[S3_KEY_BYTES];
    struct s3_object object;
    bool found;
    if (make_key(destination, name, key, err) < 0 ||
        s3_find(destination->s3, key, &found, &object, err) < 0)
        return -1;
    if (!found || object.bytes > SMALL_FILE_LIMIT)
        return error_set(err, ERROR_IO, "s3 object %s: %s", key,
                         found ? "larger than 1 MiB" : "is not there");
    char *text = memory_allocate((size_t)object.bytes + 1);
    if (!text)
        return error_set(err, ERROR_MEMORY, "no memory for %s", key);
    if (object.bytes > 0 &&
        s3_read(destination->s3, key, object.etag, 0, (size_t)object.bytes, text, err) < 0) {
        memory_free(text);
        return -1;
    }
    *out = text;
    *count = (size_t)object.bytes;
    return 0;
}

static bool bucket_has(const struct destination *destination, const char *name)
{
    char key[S3_KEY_BYTES];
    struct s3_object object;
    bool found = false;
    return make_key(destination, name, key, NULL) == 0 &&
           s3_find(destination->s3, key, &found, &object, NULL) == 0 && found;
}

/* What an interrupted conversion left on the way. */
static void remove_staging(const char *path)
{
    DIR *names = opendir(path);
    for (const struct dirent *at; names && (at = readdir(names));)
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0)
            unlinkat(dirfd(names), at->d_name, 0);
    if (names)
        closedir(names);
    rmdir(path);
}

/* ---- either ---- */

int destination_open(const char *path, const atomic_int *stop, struct destination **out,
                     struct error *err)
{
    int status;
    struct destination *destination = memory_allocate(sizeof *destination);
    if (!destination)
        return error_set(err, ERROR_MEMORY, "no memory for the destination");
    if (strncmp(path, "s3://", 5) == 0)
        status = open_bucket(destination, path, stop, err);
    else if (!(destination->directory = memory_copy_text(path)))
        status = error_set(err, ERROR_MEMORY, "no memory for the destination");
    else
        status = directory_make(path, err);
    if (status < 0) {
        destination_close(destination);
        return -1;
    }
    *out = destination;
    return 0;
}

void destination_close(struct destination *destination)
{
    if (!destination)
        return;
    if (destination->s3 && destination->directory)
        remove_staging(destination->directory);
    s3_close(destination->s3);
    memory_free(destination->directory);
    memory_free(destination);
}

void destination_place(const struct destination *destination, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", destination->directory, name);
}

bool destination_has(const struct destination *destination, const char *name)
{
    char path[PATH_MAX];
    if (destination->s3)
        return bucket_has(destination, name);
    destination_place(destination, name, path);
    return access(path, F_OK) == 0;
}

int destination_deliver(struct destination *destination, const char *name, struct error *err)
{
    /* In a directory it was written where it belongs. */
    return destination->s3 ? upload(destination, name, err) : 0;
}

int destination_write(struct destination *destination, const char *name, const void *bytes,
                      size_t count, struct error *err)
{
    char path[PATH_MAX];
    destination_place(destination, name, path);
    return file_write_atomic(path, bytes, count, err) < 0
               ? -1
               : destination_deliver(destination, name, err);
}

int destination_read(const struct destination *destination, const char *name, char **out,
                     size_t *count, struct error *err)
{
    char path[PATH_MAX];
    if (destination->s3)
        return download(destination, name, out, count, err);
    destination_place(destination, name, path);
    return file_read(path, SMALL_FILE_LIMIT, out, count, err);
}

void destination_sweep(struct destination *destination, const char *prefix)
{
    DIR *directory = opendir(destination->directory);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && length > 5 &&
            strcmp(entry->d_name + length - 5, ".part") == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
}
