#include "base/log.h"

#include "support/test.h"

struct heard {
    int lines;
    char last[64];
};

static void hear(void *context, enum log_level level, const char *line)
{
    struct heard *heard = context;
    (void)level;
    heard->lines++;
    snprintf(heard->last, sizeof heard->last, "%s", line);
}

TEST(log, gives_a_copy_of_each_line_to_a_second_reader)
{
    struct heard first = {0}, second = {0};
    log_set_sink(hear, &first);
    log_line(LOG_INFO, "one");
    log_set_copy(hear, &second);
    log_line(LOG_WARNING, "number %d", 2);
    log_line(LOG_DEBUG, "not told to anybody");
    log_set_copy(NULL, NULL);
    log_line(LOG_INFO, "three");
    log_set_sink(NULL, NULL);
    log_line(LOG_INFO, "four");
    ASSERT_INT(first.lines, ==, 3);
    ASSERT_TEXT(first.last, "three");
    ASSERT_INT(second.lines, ==, 1);
    ASSERT_TEXT(second.last, "number 2");
}
