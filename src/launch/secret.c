#include "launch/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

enum { LEAST_BYTES = 16, MOST_BYTES = 64 << 10 };

int secret_name(char out[SECRET_NAME_BYTES], struct error *err)
{
    unsigned char bytes[(SECRET_NAME_BYTES - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return error_set(err, ERROR_IO, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* --- from a file ------------------------------------------------------------------------------------ */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The file inside a mounted secret; false when there is none. */
static bool find_inside(const char *directory, char path[PATH_MAX])
{
    static const char *const names[] = {"secret", "id_rsa", "ssh-privatekey"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int length = snprintf(path, PATH_MAX, "%s/%s", directory, names[i]);
        if (length > 0 && length < PATH_MAX && is_file(path))
            return true;
    }
    return false;
}

static int derive(const char *path, struct secret *out, struct error *err)
{
    char *bytes;
    size_t count;
    if (file_read(path, MOST_BYTES, &bytes, &count, err) < 0)
        return error_wrap(err, "--secret-file");
    /* An editor ends the last line, `kubectl create secret --from-literal` does not. */
    while (count && (bytes[count - 1] == '\n' || bytes[count - 1] == '\r'))
        count--;
    int status = count >= LEAST_BYTES
                     ? channel_key_derive(bytes, count, &out->key, err)
                     : error_set(err, ERROR_USAGE,
                                 "--secret-file=%s has %zu bytes; a secret needs %d: `head -c 32 "
                                 "/dev/urandom | base64` makes a good one",
                                 path, count, LEAST_BYTES);
    explicit_bzero(bytes, count);
    memory_free(bytes);
    if (status == 0 && !realpath(path, out->path))
        return error_set(err, ERROR_IO, "%s: %s", path, strerror(errno));
    return status;
}

/* --- this user's own --------------------------------------------------------------------------------- */

/* Written beside and linked, so that of two processes that start together one wins, and nobody reads
 * half of it. */
static int make_own(const char *path, struct error *err)
{
    char beside[PATH_MAX + 16], name[SECRET_NAME_BYTES];
    if (secret_name(name, err) < 0)
        return -1;
    snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid());
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool written = file >= 0 && write(file, name, strlen(name)) == (ssize_t)strlen(name);
    int number = errno;
    if (file >= 0)
        close(file);
    if (written && link(beside, path) < 0 && errno != EEXIST) {
        number = errno;
        written = false;
    }
    unlink(beside);
    return written ? 0 : error_set(err, ERROR_IO, "%s: %s", path, strerror(number));
}

static int use_own(struct secret *out, struct error *err)
{
    char directory[PATH_MAX - 16], path[PATH_MAX], found[PATH_MAX];
    struct stat info;
    if (directory_of_cache("agents", found, err) < 0)
        return error_wrap(err, "a place for this user's own secret (or give --secret-file)");
    snprintf(directory, sizeof directory, "%s", found);
    snprintf(path, sizeof path, "%s/secret", directory);
    if (access(path, F_OK) < 0 && make_own(path, err) < 0)
        return -1;
    if (stat(path, &info) == 0 && (info.st_uid != geteuid() || (info.st_mode & 077)))
        return error_set(err, ERROR_IO,
                         "%s can be read by others than its owner: remove it, or give "
                         "--secret-file",
                         path);
    return derive(path, out, err);
}

/* Where the MPI Operator mounts its key pair, which launcher and workers share. */
static bool find_operator_pair(char path[PATH_MAX])
{
    const char *home = getenv("HOME");
    char directory[PATH_MAX - 16];
    if (!getenv("K_MPI_JOB_ROLE"))
        return false;
    if (home && snprintf(directory, sizeof directory, "%s/.ssh", home) < (int)sizeof directory &&
        find_inside(directory, path))
        return true;
    return find_inside("/root/.ssh", path) || find_inside("/home/mpiuser/.ssh", path);
}

int secret_load(const char *path, bool insecure, bool loopback, struct secret *out,
                struct error *err)
{
    char inside[PATH_MAX];
    struct stat info;
    *out = (struct secret){.open = insecure};
    if (path && insecure)
        return error_set(err, ERROR_USAGE, "--insecure and --secret-file exclude each other");
    if (insecure)
        return 0;
    if (path && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (!find_inside(path, inside))
            return error_set(err, ERROR_USAGE,
                             "--secret-file=%s is a directory without a file called secret, "
                             "id_rsa or ssh-privatekey",
                             path);
        path = inside;
    }
    if (!path && find_operator_pair(inside))
        path = inside;
    if (path)
        return derive(path, out, err);
    if (loopback)
        return use_own(out, err);
    return error_set(err, ERROR_USAGE,
                     "members on other machines need a secret that all of them have: give "
                     "--secret-file=FILE, or --insecure where nobody else is on the network");
}

const struct channel_key *secret_key(const struct secret *secret)
{
    return secret->open ? NULL : &secret->key;
}
