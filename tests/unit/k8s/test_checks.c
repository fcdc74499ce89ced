#include "support/test.h"

#include "base/arena.h"
#include "k8s/checks.h"

static void try_all(enum parameter parameter, const char *const *values, bool fine)
{
    struct arena *memory = arena_create();
    for (; *values; values++) {
        struct error err = {0};
        int status = check_value(parameter, "KEY", *values, memory, &err);
        if ((status == 0) != fine)
            FAIL("%s=%s is %s: %s", parameter_row(parameter)->name, *values,
                 fine ? "refused" : "taken", err.message);
        if (!fine)
            ASSERT_CONTAINS(err.message, "KEY");
    }
    arena_destroy(memory);
}

#define TAKES(parameter, ...) try_all(parameter, (const char *const[]){__VA_ARGS__, NULL}, true)
#define REFUSES(parameter, ...) try_all(parameter, (const char *const[]){__VA_ARGS__, NULL}, false)

#define LETTERS_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(checks, names_are_what_dns_allows)
{
    TAKES(P_MODEL_NAME, "a", "resnet50v1-5-fp32-training", "0", LETTERS_63);
    REFUSES(P_MODEL_NAME, "-a", "a-", "A", "a_b", "a.b", "a b", "ä", LETTERS_63 "a");
    TAKES(P_PVC_NAME, "workdisk", "my.claim", "a-b.c-d");
    REFUSES(P_PVC_NAME, ".a", "a.", "a..b", "A.b", "a/b");
    TAKES(P_USER_NAME, "john_doe", "J.Smith", "root");
    REFUSES(P_USER_NAME, "a/b", ".", "..", "a b", "-a");
}

TEST(checks, paths_can_be_mounted)
{
    TAKES(P_PVC_PATH, "/pvc", "/a/b c", "/mnt/ü");
    REFUSES(P_PVC_PATH, "pvc", "/", "/a/../b", "/..", "/a:b", "/a/", "/$(HOME)", "/a\"b", "/{{x}}",
            "/a\nb");
    TAKES(P_OUTPUT_DIR, "output", "a/b", "/pvc/x", "..a");
    REFUSES(P_OUTPUT_DIR, "../x", "a/..", "a\\b");
}

TEST(checks, quantities_are_the_api_servers)
{
    TAKES(P_CPU, "1", "4Gi", "500m", "0.5", "1e3", "1E3", "10G", "2.5Ti", "1e-1", "100k");
    REFUSES(P_CPU, "", "0", "-1", "4gi", "4GB", "1e", "e3", "0x10", "inf", "nan", "1 Gi", "Gi",
            "1Ki5", "1e1000000");
    ASSERT_NUMBER(check_quantity("500m"), ==, 0.5);
    ASSERT_NUMBER(check_quantity("2Ki"), ==, 2048);
    ASSERT_NUMBER(check_quantity("1e3"), ==, 1000);
}

TEST(checks, numbers_have_their_ranges)
{
    TAKES(P_WORKERS, "1", "1000");
    REFUSES(P_WORKERS, "0", "-1", "1.5", "two", "99999999999", "1e3", "0x2", " 1");
    TAKES(P_USER_ID, "0", "1000", "2147483647");
    REFUSES(P_USER_ID, "-1", "2147483648", "root");
    TAKES(P_TARGET_ACCURACY, "", "0", "0.74", "1");
    REFUSES(P_TARGET_ACCURACY, "1.1", "-0.1", "74%");
    TAKES(P_TF_SERVING_PORT, "8501", "65535");
    REFUSES(P_TF_SERVING_PORT, "65536", "http");
}

TEST(checks, hosts_images_choices_and_truths)
{
    TAKES(P_NFS_SERVER, "10.0.0.1", "fe80::1", "fs-1.efs.us-west-2.amazonaws.com");
    REFUSES(P_NFS_SERVER, "", "a b", "http://x", "x:/y", "_x");
    TAKES(P_IMAGE, "busybox", "reg.example:5000/a/b:1.2-x", "a@sha256:0123");
    REFUSES(P_IMAGE, "a b", ":x", "a:", "-a", "a\"b");
    TAKES(P_STORAGE, "pvc", "nfs");
    REFUSES(P_STORAGE, "PVC", "pv", "pvc|nfs", "");
    TAKES(P_DEPLOY, "True", "false");
    REFUSES(P_DEPLOY, "yes", "1");
}

TEST(checks, lists_in_json_and_command_lines)
{
    TAKES(P_VOLUMES, "", "[]", "[{\"name\": \"a\", \"emptyDir\": {}}]");
    REFUSES(P_VOLUMES, "{}", "[1]", "[{}]", "[{\"name\": 1}]", "nothing",
            "[{\"name\": \"a\", \"x\": 1.5}]", "[{\"name\": \"a\", \"x\": {\"y\": [null]}}]");
    TAKES(P_EXEC, "", "a b", "sh -c 'a b'", "x \"y\nz\"");
    REFUSES(P_EXEC, "sh -c 'a", "\"");
}

TEST(checks, bytes_that_are_no_text_are_refused)
{
    REFUSES(P_MODEL, "a\x01", "caf\xe9", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
            "\xe2\x82");
    TAKES(P_MODEL, "ümläut", "日本", "\xf0\x9f\x98\x80");
}
