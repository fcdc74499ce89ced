/* --threads holds for everything a command does, from before it opens its data. */
#include <omp.h>
#include <unistd.h>

#include "cli/command.h"
#include "support/test.h"

enum { BEFORE = 3 };

/* Runs a command that ends when it opens its data, since there is none. */
static int threads_of(const char *const words[])
{
    char *argv[16] = {0};
    int argc = 0;
    for (; words[argc]; argc++)
        argv[argc] = (char *)words[argc]; /* only read */
    omp_set_num_threads(BEFORE);
    ASSERT_INT(cli_main(argc, argv), ==, 1);
    return omp_get_max_threads();
}

TEST(threads, are_those_asked_for_when_training_data_is_opened)
{
    const char *data = "criteo:/nowhere";
    ASSERT_INT(threads_of((const char *const[]){"lockstep", "train", "wide_deep", "--data", data,
                                                "--threads", "1", NULL}),
               ==, 1);
}

TEST(threads, are_those_asked_for_when_a_set_is_verified)
{
    const char *spec = "criteo:/nowhere";
    ASSERT_INT(threads_of((const char *const[]){"lockstep", "data", "verify", spec, "--threads",
                                                "2", NULL}),
               ==, 2);
}
