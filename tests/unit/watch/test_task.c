/* The line that follows a long task, with a clock of our own. */
#include "support/test.h"
#include "watch/task.h"

static double now;

static double clock_of_test(void)
{
    return now;
}

/* What was written since the last call. */
static const char *written(FILE *file)
{
    static char text[4096];
    static long from;
    fflush(file);
    if (ftell(file) < from)
        from = 0;
    fseek(file, from, SEEK_SET);
    size_t count = fread(text, 1, sizeof text - 1, file);
    text[count] = '\0';
    fseek(file, 0, SEEK_END);
    from = ftell(file);
    return text;
}

TEST(task, tells_how_much_how_fast_and_how_long)
{
    FILE *file = tmpfile();
    struct task_line line;
    struct task_line_options options = {.out = file,
                                        .terminal = true,
                                        .verb = "converting",
                                        .items = "pictures",
                                        .now = clock_of_test};
    now = 100;
    task_line_init(&line, &options);
    task_line_show(&line, 500, 1000, 0); /* an earlier run had these */
    ASSERT_TEXT(written(file), "");
    now = 110;
    task_line_show(&line, 600, 1000, 20000000);
    const char *text = written(file);
    ASSERT_CONTAINS(text, "\rconverting  600/1000 pictures  60 %");
    ASSERT_CONTAINS(text, "10");
    ASSERT_CONTAINS(text, "0:40 left\033[K");
    now = 110.01;
    task_line_show(&line, 601, 1000, 20000000);
    ASSERT_TEXT(written(file), "");
    task_line_release(&line);
    ASSERT_TEXT(written(file), "\r\033[K");
    fclose(file);
}

TEST(task, is_quiet_where_nobody_watches)
{
    FILE *file = tmpfile();
    struct task_line line;
    struct task_line_options options = {.out = file, .verb = "verifying", .now = clock_of_test};
    now = 0;
    task_line_init(&line, &options);
    for (now = 0; now < 65; now++)
        task_line_show(&line, (int64_t)now, 100, 0);
    task_line_release(&line);
    rewind(file);
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    ASSERT_INT(lines, ==, 2);
    fclose(file);
}
