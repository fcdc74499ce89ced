/* What mpirun says to ssh, understood without a shell. */
#include "launch/words.h"

#include "base/arena.h"
#include "support/test.h"

static struct arena *arena;
static struct error err;

static char **parse(const char *line)
{
    char **words = NULL;
    arena_destroy(arena);
    arena = arena_create();
    err = (struct error){0};
    ASSERT_OK(words_parse(arena, line, &words, &err), err);
    return words;
}

static void refuses(const char *line, const char *part)
{
    char **words;
    arena_destroy(arena);
    arena = arena_create();
    ASSERT_FAILS(words_parse(arena, line, &words, &err), err, ERROR_FORMAT, part);
}

TEST(words, are_what_a_shell_would_make_of_them)
{
    char **words =
        parse(" orted -mca ess \"env\" -mca orte_hnp_uri \"1.0;tcp://10.0.0.1:5\" 'a b'\\ c");
    static const char *const expected[] = {
        "orted", "-mca", "ess", "env", "-mca", "orte_hnp_uri", "1.0;tcp://10.0.0.1:5", "a b c"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ASSERT_TEXT(words[i], expected[i]);
    ASSERT_TRUE(words[8] == NULL);
    arena_destroy(arena);
    arena = NULL;
}

TEST(words, before_the_command_that_set_paths_are_passed_over)
{
    char **words = parse("   PATH=/usr/bin:$PATH ; export PATH ; "
                         "LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ;"
                         "   /usr/bin/orted -mca plm \"rsh\"");
    ASSERT_TEXT(words[0], "/usr/bin/orted");
    ASSERT_TEXT(words[3], "rsh");
    arena_destroy(arena);
    arena = NULL;
}

TEST(words, that_need_a_shell_are_refused)
{
    refuses("orted; rm -rf /", "more than one command");
    refuses("orted $(id)", "");
    refuses("orted `id`", "means something to a shell");
    refuses("orted \"`id`\"", "a command inside a command");
    refuses("orted > /etc/passwd", "means something to a shell");
    refuses("orted | sh", "means something to a shell");
    refuses("orted && sh", "means something to a shell");
    refuses("orted $HOME", "variables are not looked up");
    refuses("orted \"$HOME\"", "variables are not looked up");
    refuses("orted 'a", "quote is not closed");
    refuses("orted \"a", "quote is not closed");
    refuses("orted \\", "ends in");
    refuses("", "no command");
    refuses(" ; ;", "no command");
    refuses("PATH=x ; export PATH", "no command");
    arena_destroy(arena);
    arena = NULL;
}

static struct words_ssh ssh;

static int parse_ssh(int count, char **words)
{
    arena_destroy(arena);
    arena = arena_create();
    return words_parse_ssh(arena, count, words, &ssh, &err);
}
#define SSH(...) parse_ssh(sizeof(char *[]){__VA_ARGS__} / sizeof(char *), (char *[]){__VA_ARGS__})

TEST(words, of_ssh_have_options_a_host_and_a_command)
{
    ASSERT_INT(SSH("-o", "ConnectionAttempts=10", "-oBatchMode=yes", "-qx", "-p", "2222", "-p2223",
                   "worker-0.job", "orted", "-mca", "ess", "\"env\""),
               ==, 0);
    ASSERT_TEXT(ssh.host, "worker-0.job");
    ASSERT_INT(ssh.port, ==, 2223);
    ASSERT_TEXT(ssh.line, "orted -mca ess \"env\"");
    ASSERT_INT(SSH("-o", "port=2224", "host", "orted"), ==, 0);
    ASSERT_INT(ssh.port, ==, 2224);
    ASSERT_INT(SSH("--", "host", "orted"), ==, 0);
    ASSERT_INT(ssh.port, ==, 0);
    arena_destroy(arena);
    arena = NULL;
}

TEST(words, of_ssh_that_make_no_sense_are_refused)
{
    ASSERT_FAILS(SSH("host"), err, ERROR_USAGE, "what is to be run on host?");
    ASSERT_FAILS(SSH("-q"), err, ERROR_USAGE, "on which host?");
    ASSERT_FAILS(SSH("-p", "0", "host", "orted"), err, ERROR_USAGE, "is no port");
    ASSERT_FAILS(SSH("-p"), err, ERROR_USAGE, "needs a value");
    ASSERT_FAILS(SSH("-Z", "host", "orted"), err, ERROR_USAGE, "no option -Z");
    ASSERT_FAILS(SSH("-l", "somebody else", "host", "orted"), err, ERROR_USAGE, "its own user");
    ASSERT_FAILS(SSH("somebody else@host", "orted"), err, ERROR_USAGE, "as somebody else: an agent");
    ASSERT_FAILS(SSH("-oUser=somebody else", "host", "orted"), err, ERROR_USAGE, "its own user");
    ASSERT_FAILS(SSH("-o", "Port=ssh", "host", "orted"), err, ERROR_USAGE, "is no port");
    arena_destroy(arena);
    arena = NULL;
}
