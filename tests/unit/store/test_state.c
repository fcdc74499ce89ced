#include "store/state.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "store/manifest.h"
#include "support/test.h"

static int make_memory(void)
{
    int memory = memfd_create("test", 0);
    ASSERT_INT(memory, >=, 0);
    return memory;
}

static struct state *open_state(int memory)
{
    struct state *state;
    struct error err = {0};
    ASSERT_OK(state_open(memory, &state, &err), err);
    return state;
}

static void describe(struct state *state)
{
    static const struct manifest_setting settings[] = {{"lr", "0.1"}};
    struct manifest manifest = {.version = "1",
                                .model = "test",
                                .goal = 100,
                                .steps_per_epoch = 8,
                                .fingerprint = 5,
                                .settings = settings,
                                .setting_count = 1};
    struct error err = {0};
    ASSERT_OK(state_describe(state, "model test\n", &manifest, &err), err);
}

/* A state of step 10 with weights 0, 1, 2, ... */
static void fill(int memory)
{
    struct state *state = open_state(memory);
    struct error err = {0};
    struct params_memory slabs = state_memory(state);
    float *weights = slabs.take(slabs.context, "weights", 4000, &err);
    float *statistics = slabs.take(slabs.context, "statistics", 64, &err);
    ASSERT_TRUE(weights && statistics);
    for (int i = 0; i < 1000; i++)
        weights[i] = (float)i;
    statistics[3] = 5;
    describe(state);
    struct saver_moment moment = {.step = 10,
                                  .goal = 100,
                                  .origin = 2,
                                  .bucket_bytes = 4096,
                                  .evaluated = true,
                                  .loss = 0.5,
                                  .accuracy = 0.75};
    state_commit(state, &moment, statistics);
    slabs.give_back(slabs.context, statistics, 64);
    state_close(state);
}

TEST(state, is_empty_at_first)
{
    int memory = make_memory();
    struct state *state = open_state(memory);
    ASSERT_FALSE(state_holds(state));
    ASSERT_TEXT(state_trouble(state), "");
    ASSERT_INT(state_step(state), ==, -1);
    state_close(state);
    close(memory);
}

TEST(state, gives_another_process_what_was_committed)
{
    int memory = make_memory();
    struct error err = {0};
    fill(memory);
    struct state *state = open_state(memory);
    struct arena *arena = arena_create();
    struct manifest manifest;
    ASSERT_TRUE(state_holds(state));
    ASSERT_INT(state_step(state), ==, 10);
    ASSERT_TEXT(state_facts(state), "model test\n");
    ASSERT_OK(state_manifest(state, arena, &manifest, &err), err);
    ASSERT_INT(manifest.step, ==, 10);
    ASSERT_INT(manifest.goal, ==, 100);
    ASSERT_INT(manifest.origin, ==, 2);
    ASSERT_INT(manifest.epoch, ==, 1);
    ASSERT_INT(manifest.epoch_step, ==, 2);
    ASSERT_INT(manifest.bucket_bytes, ==, 4096);
    ASSERT_TRUE(manifest.evaluated);
    ASSERT_NUMBER(manifest.accuracy, ==, 0.75);
    ASSERT_TEXT(manifest_setting(&manifest, "lr"), "0.1");
    struct params_memory slabs = state_memory(state);
    const float *weights = slabs.take(slabs.context, "weights", 4000, &err);
    float *running = slabs.take(slabs.context, "statistics", 64, &err);
    ASSERT_TRUE(weights && running);
    ASSERT_NUMBER(weights[999], ==, 999);
    ASSERT_NUMBER(state_statistics(state)[3], ==, 5);
    slabs.give_back(slabs.context, running, 64);
    arena_destroy(arena);
    state_close(state);
    close(memory);
}

TEST(state, what_was_not_committed_is_not_there)
{
    int memory = make_memory();
    struct error err = {0};
    struct state *state = open_state(memory);
    ASSERT_TRUE(state_area(state, "weights", 4000, &err) != NULL);
    describe(state);
    state_close(state);
    state = open_state(memory);
    ASSERT_FALSE(state_holds(state));
    ASSERT_TEXT(state_trouble(state), "");
    state_close(state);
    close(memory);
}

TEST(state, says_what_does_not_fit)
{
    int memory = make_memory();
    struct error err = {0};
    fill(memory);
    struct state *state = open_state(memory);
    ASSERT_TRUE(state_area(state, "weights", 5000, &err) == NULL);
    ASSERT_INT(err.code, ==, ERROR_FORMAT);
    ASSERT_CONTAINS(err.message, "4000 bytes of weights, this run 5000");
    ASSERT_TRUE(state_area(state, "gradients", 5000, &err) == NULL);
    ASSERT_CONTAINS(err.message, "no gradients");
    ASSERT_OK(state_clear(state, &err), err);
    ASSERT_FALSE(state_holds(state));
    const float *weights = state_area(state, "weights", 5000, &err);
    ASSERT_TRUE(weights != NULL);
    for (int i = 0; i < 1250; i++)
        ASSERT_NUMBER(weights[i], ==, 0);
    state_close(state);
    close(memory);
}

TEST(state, a_step_that_has_begun_counts_and_is_to_be_finished)
{
    int memory = make_memory();
    struct state_update update;
    float statistics[16] = {1, 2, 3};
    fill(memory);
    struct state *state = open_state(memory);
    struct error err = {0};
    struct params_memory slabs = state_memory(state);
    float *running = slabs.take(slabs.context, "statistics", 64, &err);
    ASSERT_FALSE(state_unfinished(state, &update));
    state_begin(state, &(struct saver_moment){.step = 11, .goal = 100}, 0.25F, statistics);
    slabs.give_back(slabs.context, running, 64);
    state_close(state);

    state = open_state(memory);
    slabs = state_memory(state);
    running = slabs.take(slabs.context, "statistics", 64, &err);
    ASSERT_INT(state_step(state), ==, 11);
    ASSERT_TRUE(state_unfinished(state, &update));
    ASSERT_INT(update.step, ==, 11);
    ASSERT_NUMBER(update.rate, ==, 0.25);
    ASSERT_NUMBER(state_statistics(state)[2], ==, 3);
    state_end(state);
    ASSERT_FALSE(state_unfinished(state, &update));
    slabs.give_back(slabs.context, running, 64);
    state_close(state);
    close(memory);
}

/* Whichever byte of the first page is wrong, it is a state or none, and never one with other
 * contents. */
TEST(state, damage_is_noticed)
{
    int memory = make_memory();
    unsigned char page[4096], byte;
    int noticed = 0;
    fill(memory);
    ASSERT_INT(pread(memory, page, sizeof page, 0), ==, sizeof page);
    for (size_t at = 0; at < sizeof page; at += 3) {
        fill(memory);
        ASSERT_INT(pread(memory, page, sizeof page, 0), ==, sizeof page);
        byte = page[at] ^ 0x41;
        ASSERT_INT(pwrite(memory, &byte, 1, (off_t)at), ==, 1);
        struct state *state = open_state(memory);
        if (state_holds(state))
            ASSERT_INT(state_step(state), ==, 10);
        noticed += *state_trouble(state) != '\0';
        state_close(state);
        ASSERT_INT(ftruncate(memory, 0), ==, 0);
    }
    ASSERT_INT(noticed, >, 300);
    close(memory);
}

TEST(state, a_file_that_was_cut_short_is_noticed)
{
    int memory = make_memory();
    fill(memory);
    ASSERT_INT(ftruncate(memory, 5000), ==, 0);
    struct state *state = open_state(memory);
    ASSERT_FALSE(state_holds(state));
    ASSERT_CONTAINS(state_trouble(state), "outside");
    state_close(state);
    close(memory);
}
