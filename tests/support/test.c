#include "support/test.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TESTS = 512, MAX_PATHS = 1024 };

static struct CMUnitTest tests[MAX_TESTS];
static void (*bodies[MAX_TESTS])(void);
static int test_count;
static char directory[PATH_MAX];
static char *paths[MAX_PATHS];
static int path_count;

static void run_body(void **state)
{
    void (*body)(void) = *(void (**)(void)) * state;
    body();
}

void test_register(const char *module, const char *sentence, void (*run)(void))
{
    char name[256];
    int used = snprintf(name, sizeof name, "%s: %s", module, sentence);
    if (test_count == MAX_TESTS || used >= (int)sizeof name)
        abort();
    for (char *at = name; *at; at++)
        if (*at == '_')
            *at = ' ';
    bodies[test_count] = run;
    tests[test_count] = (struct CMUnitTest){
        .name = strdup(name), .test_func = run_body, .initial_state = &bodies[test_count]};
    test_count++;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_error("%s\n", message);
    _fail(file, line);
    abort(); /* not reached: _fail jumps back to cmocka */
}

void test_skip(const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_message("skipped: %s\n", message);
    skip();
    abort(); /* not reached */
}

void test_near(const char *file, int line, const char *what, double actual, double expected,
               double relative, double floor)
{
    double size = fabs(expected) > floor ? fabs(expected) : floor;
    if (!(fabs(actual - expected) <= relative * size))
        test_fail(file, line, "%s: %.9g, expected %.9g (off by %.3g, %.3g allowed)", what, actual,
                  expected, fabs(actual - expected), relative * size);
}

void test_text(const char *file, int line, const char *what, const char *actual,
               const char *expected)
{
    if (!actual || !expected ? actual != expected : strcmp(actual, expected) != 0)
        test_fail(file, line, "%s: \"%s\", expected \"%s\"", what, actual ? actual : "(null)",
                  expected ? expected : "(null)");
}

void test_contains(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        test_fail(file, line, "%s: \"%s\" does not contain \"%s\"", what, text ? text : "(null)",
                  part);
}

void test_bytes(const char *file, int line, const char *what, const void *actual,
                const void *expected, size_t bytes)
{
    const unsigned char *a = actual, *b = expected;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            test_fail(file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", what, i, bytes,
                      a[i], b[i]);
}

const char *test_directory(void)
{
    if (directory[0])
        return directory;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/lockstep-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(directory)) {
        print_error("%s: %s\n", directory, strerror(errno));
        abort();
    }
    return directory;
}

static const char *remember(char *path)
{
    if (!path || path_count == MAX_PATHS)
        abort();
    return paths[path_count++] = path;
}

const char *test_path(const char *format, ...)
{
    char name[PATH_MAX / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    char *path = NULL;
    if (asprintf(&path, "%s/%s", test_directory(), name) < 0)
        abort();
    return remember(path);
}

const char *test_file(const char *name, const void *bytes, size_t count)
{
    const char *path = test_path("%s", name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        FAIL("%s: %s", path, strerror(errno));
    return path;
}

const char *test_data(const char *name)
{
    const char *base = getenv("LOCKSTEP_DATA");
    char *path = NULL;
    if (asprintf(&path, "%s/%s", base && *base ? base : "../shared/data", name) < 0)
        abort();
    remember(path);
    if (access(path, R_OK) == 0)
        return path;
    const char *required = getenv("LOCKSTEP_REQUIRE_DATA");
    if (required && strcmp(required, "1") == 0)
        FAIL("%s is not there, and LOCKSTEP_REQUIRE_DATA=1", path);
    test_skip("no data: %s", path);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    if (directory[0])
        nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < path_count; i++)
        free(paths[i]);
    for (int i = 0; i < test_count; i++)
        free((void *)(uintptr_t)tests[i].name);
}

/* Weak: a test that needs arguments or an order of its own may bring its own main. */
__attribute__((weak)) int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests(argv[0], tests, (size_t)test_count, NULL, NULL);
    clean_up();
    return failed == 0 ? 0 : 1;
}
