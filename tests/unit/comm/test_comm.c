#include "comm/comm.h"
#include "support/test.h"

static struct comm *open_group(void)
{
    struct comm *comm = NULL;
    struct error err = {0};
    ASSERT_INT(comm_open(&comm, &err), ==, 0);
    return comm;
}

TEST(comm, a_group_of_one_sums_to_what_it_has)
{
    struct comm *comm = open_group();
    float values[3] = {1, 2, 3};
    struct comm_request request;
    ASSERT_INT(comm_rank(comm), ==, 0);
    ASSERT_INT(comm_size(comm), ==, 1);
    struct comm_reduction reduction = {.values = values, .count = 3};
    ASSERT_INT(comm_reduce_start(comm, &reduction, &request, NULL), ==, 0);
    ASSERT_INT(comm_wait(comm, &request, NULL), ==, 0);
    ASSERT_TRUE(values[0] == 1 && values[1] == 2 && values[2] == 3);
    bool same = false;
    ASSERT_INT(comm_agree(comm, 7, &same, NULL), ==, 0);
    ASSERT_TRUE(same);
    comm_close(comm);
}

TEST(comm, gathering_gives_the_own_bytes_and_refuses_too_many)
{
    struct comm *comm = open_group();
    struct error err = {0};
    char all[4] = {0};
    size_t sizes[1] = {0};
    ASSERT_INT(comm_gather(comm, "abc", 3, all, sizeof all, sizes, &err), ==, 0);
    ASSERT_BYTES(all, "abc", 3);
    ASSERT_INT(sizes[0], ==, 3);
    ASSERT_INT(comm_gather(comm, "abcde", 5, all, sizeof all, sizes, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_MEMORY);
    comm_close(comm);
}

TEST(comm, ranks_that_do_not_exist_are_refused)
{
    struct comm *comm = open_group();
    struct error err = {0};
    char byte = 0;
    ASSERT_INT(comm_broadcast(comm, &byte, 1, 1, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_PEER);
    ASSERT_INT(comm_send(comm, 0, &byte, 1, &err), ==, -1);
    ASSERT_INT(comm_receive(comm, 1, &byte, 1, &err), ==, -1);
    comm_close(comm);
}

TEST(comm, nothing_works_after_the_group_is_over)
{
    struct comm *comm = open_group();
    struct error err = {0};
    float value = 1;
    struct comm_request request = {0};
    ASSERT_FALSE(comm_is_over(comm));
    comm_end(comm);
    ASSERT_TRUE(comm_is_over(comm));
    struct comm_reduction reduction = {.values = &value, .count = 1};
    ASSERT_INT(comm_reduce_start(comm, &reduction, &request, &err), ==, -1);
    ASSERT_INT(err.code, ==, ERROR_PEER);
    comm_close(comm);
    comm_close(NULL);
}
