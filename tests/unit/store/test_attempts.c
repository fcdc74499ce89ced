#include "store/attempts.h"

#include <math.h>
#include <unistd.h>

#include "support/test.h"

static const struct attempt missed = {
    .last_step = 10, .goal = 10, .seconds = 1.5, .accuracy = 0.25, .verdict = ATTEMPT_MISSED};
static const struct attempt cut_short = {
    .first_step = 10, .last_step = 13, .goal = 20, .seconds = 0.5, .accuracy = NAN};

TEST(attempts, come_back_as_they_were_saved)
{
    char path[] = "/tmp/attempts-XXXXXX";
    static struct attempts saved, loaded;
    struct error err = {0};
    close(mkstemp(path));
    saved = (struct attempts){.list = {missed, cut_short}, .count = 2};
    ASSERT_OK(attempts_save(path, &saved, &err), err);
    ASSERT_OK(attempts_load(path, &loaded, &err), err);
    unlink(path);
    ASSERT_INT(loaded.count, ==, 2);
    ASSERT_INT(loaded.list[0].verdict, ==, ATTEMPT_MISSED);
    ASSERT_INT(loaded.list[0].goal, ==, 10);
    ASSERT_TRUE(loaded.list[0].accuracy == 0.25 && loaded.list[0].seconds == 1.5);
    ASSERT_INT(loaded.list[1].verdict, ==, ATTEMPT_RUNNING);
    ASSERT_INT(loaded.list[1].first_step, ==, 10);
    ASSERT_INT(loaded.list[1].last_step, ==, 13);
    ASSERT_TRUE(isnan(loaded.list[1].accuracy));
}

TEST(attempts, a_file_that_is_not_there_holds_none)
{
    static struct attempts loaded = {.count = 7};
    struct error err = {0};
    ASSERT_OK(attempts_load("/tmp/no/such/file", &loaded, &err), err);
    ASSERT_INT(loaded.count, ==, 0);
}

static void refuses(const char *text, const char *reason)
{
    static struct attempts kept = {.count = 3};
    struct error err = {0};
    ASSERT_INT(attempts_parse("journal", text, strlen(text), &kept, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_FORMAT);
    ASSERT_CONTAINS(err.message, "journal: ");
    ASSERT_CONTAINS(err.message, reason);
    ASSERT_INT(kept.count, ==, 3);
}

TEST(attempts, what_makes_no_sense_is_refused_and_nothing_is_changed)
{
    refuses("{", "");
    refuses("{}", "a list of up to 1000");
    refuses("{\"attempts\": [7]}", "attempt 1");
    refuses("{\"attempts\": {\"a\": 1}}", "attempt 1");
    refuses("{\"attempts\": [{\"first_step\": 3, \"last_step\": 2, \"goal\": 9, \"seconds\": 1, "
            "\"verdict\": \"met\"}]}",
            "attempt 1");
    refuses("{\"attempts\": [{\"first_step\": 0, \"last_step\": 2, \"goal\": 9, \"seconds\": 1, "
            "\"verdict\": \"wonderful\"}]}",
            "attempt 1");
    refuses("{\"attempts\": [{\"first_step\": 0, \"last_step\": 2, \"goal\": 9, \"seconds\": 1, "
            "\"verdict\": \"met\"}, {\"first_step\": 1, \"last_step\": 2, \"goal\": 9, "
            "\"seconds\": 1, \"verdict\": \"met\"}]}",
            "attempt 2");
}

TEST(attempts, only_the_last_may_be_running)
{
    refuses("{\"attempts\": [{\"first_step\": 0, \"last_step\": 2, \"goal\": 9, \"seconds\": 1, "
            "\"verdict\": \"running\"}, {\"first_step\": 2, \"last_step\": 2, \"goal\": 9, "
            "\"seconds\": 1, \"verdict\": \"running\"}]}",
            "attempt 1");
}
