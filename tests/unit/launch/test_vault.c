/* A rank and its agent, in one process: the memory outlives the rank, and its end is noticed. */
#include "launch/vault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "launch/keeper.h"
#include "launch/loop.h"
#include "launch/rank_words.h"
#include "support/test.h"

static struct loop *loop;
static struct vault *vault;
static int ends;
static struct vault_end last;
static char last_reason[64];

static void on_gone(void *context, const struct vault_end *end)
{
    (void)context;
    ends++;
    last = *end;
    snprintf(last_reason, sizeof last_reason, "%s", end->reason);
}

static void open_vault(void)
{
    struct vault_owner owner = {.gone = on_gone};
    struct error err = {0};
    static char variable[64];
    loop = loop_create();
    ends = 0;
    ASSERT_OK(vault_create(loop, &owner, "/tmp\0train\0mnist_custom", 24, &vault, &err), err);
    snprintf(variable, sizeof variable, "%s", vault_variable(vault));
    putenv(variable);
}

static void close_vault(void)
{
    vault_destroy(vault);
    loop_destroy(loop);
    unsetenv("LOCKSTEP_AGENT");
}

static void turn(void)
{
    for (int i = 0; i < 5; i++)
        loop_turn(loop, 0.01);
}

/* A rank's call that waits for the agent's answer, which this thread gives. */
struct call {
    pthread_t thread;
    atomic_bool done;
    struct keeper *keeper;
    char *words;
    size_t bytes;
    int status;
    struct error err;
};

static void *connect_rank(void *context)
{
    struct call *call = context;
    call->status = keeper_connect(&call->keeper, &call->err);
    atomic_store(&call->done, true);
    return NULL;
}

static void *ask_words(void *context)
{
    struct call *call = context;
    call->status = rank_words(&call->words, &call->bytes, &call->err);
    atomic_store(&call->done, true);
    return NULL;
}

static struct call wait_for(void *(*function)(void *))
{
    static struct call call;
    call = (struct call){0};
    pthread_create(&call.thread, NULL, function, &call);
    while (!atomic_load(&call.done))
        loop_turn(loop, 0.01);
    pthread_join(call.thread, NULL);
    return call;
}

static struct keeper *open_rank(void)
{
    struct call call = wait_for(connect_rank);
    ASSERT_OK(call.status, call.err);
    ASSERT_TRUE(call.keeper != NULL);
    return call.keeper;
}

TEST(keeper, is_none_where_there_is_no_agent)
{
    struct keeper *keeper = (void *)1;
    struct error err = {0};
    unsetenv("LOCKSTEP_AGENT");
    ASSERT_OK(keeper_connect(&keeper, &err), err);
    ASSERT_TRUE(keeper == NULL);
    keeper_close(keeper);
}

TEST(keeper, says_that_the_agent_is_gone)
{
    struct keeper *keeper;
    struct error err = {0};
    setenv("LOCKSTEP_AGENT", "lockstep-nobody", 1);
    ASSERT_FAILS(keeper_connect(&keeper, &err), err, ERROR_PEER, "does not answer");
    unsetenv("LOCKSTEP_AGENT");
}

TEST(vault, keeps_what_a_rank_left)
{
    struct stat info;
    open_vault();
    vault_admit(vault, 3);
    struct keeper *keeper = open_rank();
    ASSERT_INT(keeper_generation(keeper), ==, 3);
    ASSERT_INT(fstat(keeper_state(keeper), &info), ==, 0);
    ASSERT_INT(info.st_size, ==, 0);
    ASSERT_INT(ftruncate(keeper_state(keeper), 4096), ==, 0);
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, keeper_state(keeper), 0);
    ASSERT_TRUE(memory != MAP_FAILED);
    snprintf(memory, 4096, "step 17");
    munmap(memory, 4096);
    keeper_close(keeper);
    turn();
    ASSERT_INT(ends, ==, 1);
    ASSERT_FALSE(last.finished);
    ASSERT_INT(vault_bytes(vault), >=, 4096);

    vault_admit(vault, 4);
    keeper = open_rank();
    memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, keeper_state(keeper), 0);
    ASSERT_TEXT(memory, "step 17");
    munmap(memory, 4096);
    keeper_close(keeper);
    close_vault();
}

TEST(vault, knows_where_its_rank_is)
{
    open_vault();
    vault_admit(vault, 1);
    ASSERT_INT(vault_look(vault).pid, ==, 0);
    struct keeper *keeper = open_rank();
    ASSERT_INT(vault_look(vault).pid, ==, getpid());
    ASSERT_INT(keeper_tell(keeper, 12, "a text that is much longer than thirty-one bytes"), ==,
               KEEPER_GO_ON);
    turn();
    ASSERT_INT(vault_look(vault).step, ==, 12);
    ASSERT_TEXT(vault_look(vault).doing, "a text that is much longer than");
    ASSERT_NUMBER(vault_look(vault).silence, <, 5);
    vault_wish(vault, KEEPER_PAUSE);
    ASSERT_INT(keeper_tell(keeper, 13, "training"), ==, KEEPER_PAUSE);
    ASSERT_INT(keeper_tell(keeper, 13, "training"), ==, KEEPER_PAUSE);
    keeper_finish(keeper, KEEPER_FAILED, 2, "no such file");
    keeper_close(keeper);
    turn();
    ASSERT_INT(ends, ==, 1);
    ASSERT_TRUE(last.finished);
    ASSERT_INT(last.outcome, ==, KEEPER_FAILED);
    ASSERT_INT(last.status, ==, 2);
    ASSERT_INT(last.step, ==, 13);
    ASSERT_TEXT(last_reason, "no such file");
    close_vault();
}

TEST(vault, has_room_for_one_rank_of_the_right_generation)
{
    open_vault();
    struct call call = wait_for(connect_rank);
    ASSERT_INT(call.status, ==, -1);
    ASSERT_CONTAINS(call.err.message, "its group is over");
    vault_admit(vault, 1);
    struct keeper *keeper = open_rank();
    call = wait_for(connect_rank);
    ASSERT_INT(call.status, ==, -1);
    ASSERT_CONTAINS(call.err.message, "has a rank already");
    ASSERT_INT(ends, ==, 0);
    keeper_close(keeper);
    close_vault();
}

TEST(vault, tells_a_rank_that_it_is_alone)
{
    open_vault();
    vault_admit(vault, 1);
    struct keeper *keeper = open_rank();
    close_vault();
    ASSERT_INT(keeper_tell(keeper, 1, "training"), ==, KEEPER_ALONE);
    keeper_finish(keeper, KEEPER_DONE, 0, "");
    keeper_close(keeper);
}

TEST(vault, gives_out_the_words_of_its_member)
{
    open_vault();
    struct call call = wait_for(ask_words);
    ASSERT_OK(call.status, call.err);
    ASSERT_INT(call.bytes, ==, 24);
    ASSERT_BYTES(call.words, "/tmp\0train\0mnist_custom", 24);
    memory_free(call.words);
    close_vault();
}
