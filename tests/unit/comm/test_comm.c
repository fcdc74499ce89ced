#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "base/error.h"
#include "comm/comm.h"

static struct comm *open_group(void)
{
    struct comm *comm = NULL;
    struct error err = {0};
    assert_int_equal(comm_open(&comm, &err), 0);
    return comm;
}

static void a_group_of_one_sums_to_what_it_has(void **state)
{
    (void)state;
    struct comm *comm = open_group();
    float values[3] = {1, 2, 3};
    struct comm_request request;
    assert_int_equal(comm_rank(comm), 0);
    assert_int_equal(comm_size(comm), 1);
    assert_int_equal(comm_reduce_start(comm, values, 3, &request, NULL), 0);
    assert_int_equal(comm_wait(comm, request, NULL), 0);
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
    bool same = false;
    assert_int_equal(comm_agree(comm, 7, &same, NULL), 0);
    assert_true(same);
    comm_close(comm);
}

static void gathering_gives_the_own_bytes_and_refuses_too_many(void **state)
{
    (void)state;
    struct comm *comm = open_group();
    struct error err = {0};
    char all[4] = {0};
    size_t sizes[1] = {0};
    assert_int_equal(comm_gather(comm, "abc", 3, all, sizeof all, sizes, &err), 0);
    assert_memory_equal(all, "abc", 3);
    assert_int_equal(sizes[0], 3);
    assert_int_equal(comm_gather(comm, "abcde", 5, all, sizeof all, sizes, &err), -1);
    assert_int_equal(err.code, ERROR_MEMORY);
    comm_close(comm);
}

static void ranks_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    struct comm *comm = open_group();
    struct error err = {0};
    char byte = 0;
    assert_int_equal(comm_broadcast(comm, &byte, 1, 1, &err), -1);
    assert_int_equal(err.code, ERROR_PEER);
    assert_int_equal(comm_send(comm, 0, &byte, 1, &err), -1);
    assert_int_equal(comm_receive(comm, 1, &byte, 1, &err), -1);
    comm_close(comm);
}

static void nothing_works_after_the_group_is_over(void **state)
{
    (void)state;
    struct comm *comm = open_group();
    struct error err = {0};
    float value = 1;
    struct comm_request request = {0};
    assert_false(comm_is_over(comm));
    comm_end(comm);
    assert_true(comm_is_over(comm));
    assert_int_equal(comm_reduce_start(comm, &value, 1, &request, &err), -1);
    assert_int_equal(err.code, ERROR_PEER);
    comm_close(comm);
    comm_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_of_one_sums_to_what_it_has),
        cmocka_unit_test(gathering_gives_the_own_bytes_and_refuses_too_many),
        cmocka_unit_test(ranks_that_do_not_exist_are_refused),
        cmocka_unit_test(nothing_works_after_the_group_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
