/* Where the key comes from. */
#include "launch/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

static struct secret secret;
static struct error err;

static struct channel_key load(const char *path)
{
    err = (struct error){0};
    ASSERT_OK(secret_load(path, false, false, &secret, &err), err);
    ASSERT_FALSE(secret.open);
    return secret.key;
}

TEST(secret, is_the_same_with_and_without_the_newline_of_an_editor)
{
    struct channel_key one = load(test_file("one", "0123456789abcdef", 16)),
                       same = load(test_file("same", "0123456789abcdef\n", 17)),
                       other = load(test_file("other", "0123456789abcdeg", 16));
    ASSERT_BYTES(&one, &same, sizeof one);
    ASSERT_TRUE(memcmp(&one, &other, sizeof one) != 0);
}

TEST(secret, is_derived_as_the_standard_says)
{
    /* HKDF (RFC 5869) with SHA-256, worked out by another program. */
    static const unsigned char expected[] = {0x1e, 0x08, 0x33, 0xcf, 0x77, 0x91, 0x20, 0x81,
                                             0xcc, 0x56, 0x3f, 0xbe, 0x82, 0x6f, 0xdf, 0x5e,
                                             0x11, 0xca, 0x15, 0xe4, 0x9d, 0xd3, 0x1b, 0x73,
                                             0xf3, 0x8e, 0x2e, 0x93, 0xf8, 0x84, 0x48, 0x0c};
    struct channel_key key = load(test_file("known", "0123456789abcdef", 16));
    ASSERT_BYTES(key.bytes, expected, sizeof expected);
}

TEST(secret, is_found_inside_a_mounted_directory)
{
    struct channel_key plain = load(test_file("plain", "an RSA key, say, of many bytes", 30));
    mkdir(test_path("mounted"), 0700);
    test_file("mounted/ssh-privatekey", "an RSA key, say, of many bytes", 30);
    struct channel_key mounted = load(test_path("mounted"));
    ASSERT_BYTES(&mounted, &plain, sizeof plain);
    mkdir(test_path("empty"), 0700);
    ASSERT_FAILS(secret_load(test_path("empty"), false, false, &secret, &err), err, ERROR_USAGE,
                 "without a file called secret");
}

TEST(secret, of_the_mpi_operator_is_found_by_itself)
{
    struct channel_key plain = load(test_file("pair", "the pair of the operator", 24));
    mkdir(test_path(".ssh"), 0700);
    test_file(".ssh/id_rsa", "the pair of the operator", 24);
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    setenv("HOME", test_directory(), 1);
    setenv("K_MPI_JOB_ROLE", "worker", 1);
    struct channel_key found = load(NULL);
    unsetenv("K_MPI_JOB_ROLE");
    setenv("HOME", home, 1);
    free(home);
    ASSERT_BYTES(&found, &plain, sizeof plain);
}

TEST(secret, is_needed_beyond_this_machine)
{
    unsetenv("K_MPI_JOB_ROLE");
    ASSERT_FAILS(secret_load(NULL, false, false, &secret, &err), err, ERROR_USAGE, "--secret-file");
    ASSERT_OK(secret_load(NULL, true, false, &secret, &err), err);
    ASSERT_TRUE(secret_key(&secret) == NULL);
}

TEST(secret, of_the_user_is_made_once_for_this_machine)
{
    setenv("XDG_CACHE_HOME", test_directory(), 1);
    ASSERT_OK(secret_load(NULL, false, true, &secret, &err), err);
    struct channel_key first = secret.key;
    struct stat info;
    ASSERT_INT(stat(secret.path, &info), ==, 0);
    ASSERT_INT(info.st_mode & 0777, ==, 0600);
    ASSERT_OK(secret_load(NULL, false, true, &secret, &err), err);
    ASSERT_BYTES(&secret.key, &first, sizeof first);
    chmod(secret.path, 0644);
    ASSERT_FAILS(secret_load(NULL, false, true, &secret, &err), err, ERROR_IO,
                 "can be read by others");
    unsetenv("XDG_CACHE_HOME");
}

TEST(secret, that_is_too_short_or_not_there_is_refused)
{
    ASSERT_FAILS(
        secret_load(test_file("short", "0123456789abcde\n", 16), false, false, &secret, &err), err,
        ERROR_USAGE, "has 15 bytes");
    ASSERT_FAILS(secret_load(test_path("nowhere"), false, false, &secret, &err), err, ERROR_IO,
                 "nowhere");
    ASSERT_FAILS(secret_load("x", true, false, &secret, &err), err, ERROR_USAGE,
                 "exclude each other");
}
