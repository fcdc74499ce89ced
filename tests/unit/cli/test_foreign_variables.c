#include "cli/foreign_variables.h"

#include "base/log.h"
#include "support/test.h"

static const char *set; /* the one that is, to "1" */
static char said[512];

static char *look_up(const char *name)
{
    static char one[] = "1";
    return set && strcmp(name, set) == 0 ? one : NULL;
}

static void remember(void *context, enum log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static const char *told_of(const char *name)
{
    set = name;
    said[0] = '\0';
    log_set_sink(remember, NULL);
    foreign_variables_tell(look_up);
    log_set_sink(NULL, NULL);
    return said;
}

TEST(foreign_variables, one_without_effect_is_named_with_the_reason)
{
    ASSERT_CONTAINS(told_of("KMP_BLOCKTIME"), "KMP_BLOCKTIME has no effect: ");
    ASSERT_CONTAINS(told_of("HOROVOD_CYCLE_TIME"), "HOROVOD_CYCLE_TIME has no effect: ");
}

TEST(foreign_variables, what_others_may_have_set_for_themselves_is_not_mentioned)
{
    ASSERT_TEXT(told_of(NULL), "");
    ASSERT_TEXT(told_of("USER_NAME"), "");
    ASSERT_TEXT(told_of("OMPI_COMM_WORLD_SIZE"), "");
    ASSERT_TEXT(told_of("PATH"), "");
}

TEST(foreign_variables, what_an_option_reads_is_not_said_to_be_without_effect)
{
    ASSERT_TEXT(told_of("HOROVOD_FUSION_THRESHOLD"), "");
    ASSERT_TEXT(told_of("HOROVOD_TIMELINE"), "");
    ASSERT_TEXT(told_of("HOROVOD_AUTOTUNE"), "");
    ASSERT_TEXT(told_of("HOROVOD_STALL_CHECK_DISABLE"), "");
}
