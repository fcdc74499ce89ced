/* The threads that compute what waits, with a network whose preparation the test holds at a gate and
 * a clock that the test moves: nothing here depends on how fast the machine is. */
#include "serve/batcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/arena.h"
#include "convert/imported.h"
#include "serve/inference.h"
#include "serve/servable.h"
#include "serve/stats.h"
#include "support/fake_model.h"
#include "support/test.h"

enum { MAX = 64 };

/* --- a clock --------------------------------------------------------------------------------- */

static _Atomic double time_now;

static double fake_now(void)
{
    return atomic_load(&time_now);
}

/* --- questions ------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static int answers;

static void on_done(struct inference *inference)
{
    (void)inference;
    pthread_mutex_lock(&lock);
    answers++;
    pthread_cond_broadcast(&answered);
    pthread_mutex_unlock(&lock);
}

/* Until so many were answered since the fixture was opened. */
static void wait_for(int count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int status = 0;
    pthread_mutex_lock(&lock);
    while (answers < count && status == 0)
        status = pthread_cond_timedwait(&answered, &lock, &until);
    pthread_mutex_unlock(&lock);
    ASSERT_INT(status, ==, 0);
}

struct question {
    struct inference inference;
    struct tensor input;
    float values[MAX * FAKE_INPUTS];
};

struct fixture {
    struct batcher *batcher;
    struct servable *servable;
    struct question questions[MAX];
    int count;
};

static struct fixture fixture;

/* Without threads of its own: what helpers do not compute waits. */
static void open_idle_fixture(struct batch_rules rules, int workers)
{
    struct error err = {0};
    struct batcher_settings settings = {.rules = rules, .workers = workers, .now = fake_now};
    struct servable_settings servable = {.name = "fake",
                                         .version = 1,
                                         .max_batch = rules.max_rows,
                                         .workers = workers,
                                         .threads = 1,
                                         .quick_seconds = 60, /* however busy the machine is */
                                         .warm_all = true,
                                         .calls = &fake_model_calls};
    fixture.count = answers = 0;
    atomic_store(&time_now, 100);
    fake_gate_open();
    ASSERT_OK(servable_create(&servable, fake_model_make(7), &fixture.servable, &err), err);
    ASSERT_OK(batcher_create(&settings, &fixture.batcher, &err), err);
}

static void open_fixture(struct batch_rules rules, int workers)
{
    struct error err = {0};
    open_idle_fixture(rules, workers);
    ASSERT_OK(batcher_start(fixture.batcher, &err), err);
}

static void close_fixture(void)
{
    batcher_destroy(fixture.batcher);
    servable_release(fixture.servable);
    for (int i = 0; i < fixture.count; i++)
        arena_destroy(fixture.questions[i].inference.arena);
    ASSERT_INT(fake_models_alive(), ==, 0);
}

static struct question *make_question(int rows)
{
    struct question *question = &fixture.questions[fixture.count++];
    memset(question, 0, sizeof *question);
    for (int i = 0; i < rows * FAKE_INPUTS; i++)
        question->values[i] = (float)(i % 5) + (float)fixture.count;
    question->input = (struct tensor){
        .dtype = DTYPE_F32, .shape = SHAPE(rows, FAKE_INPUTS), .data = question->values};
    struct inference *inference = &question->inference;
    inference->servable = fixture.servable;
    inference->signature = &servable_model(fixture.servable)->signatures[0];
    inference->inputs = &question->input;
    inference->rows = rows;
    inference->arena = arena_create();
    inference->done = on_done;
    return question;
}

static struct question *ask(int rows)
{
    struct question *question = make_question(rows);
    if (!batcher_add(fixture.batcher, &question->inference))
        on_done(&question->inference);
    return question;
}

static const float *answer(const struct question *question)
{
    ASSERT_INT(question->inference.status, ==, SERVE_OK);
    return question->inference.outputs[0].data;
}

static const struct batch_rules plain = {.max_rows = 8, .max_batches = 2};
static const struct batch_rules roomy = {.max_rows = 8, .max_batches = 4};

/* --- tests ----------------------------------------------------------------------------------- */

TEST(batcher, answers_a_question_alone_when_nobody_else_asks)
{
    open_fixture(plain, 1);
    struct question *question = ask(1);
    wait_for(1);
    ASSERT_TRUE(answer(question) != NULL);
    ASSERT_INT(question->inference.batch, ==, 1);
    close_fixture();
}

TEST(batcher, computes_together_what_came_while_it_was_busy)
{
    open_fixture(plain, 1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1); /* the worker is busy with it */
    struct question *three[] = {ask(1), ask(2), ask(1)};
    fake_gate_open();
    wait_for(4);
    for (int i = 0; i < 3; i++)
        ASSERT_INT(three[i]->inference.batch, ==, 4);
    close_fixture();
}

TEST(batcher, gives_each_row_the_bits_that_it_has_in_another_batch_of_the_size)
{
    open_fixture(plain, 1);
    struct question *alone = ask(4);
    wait_for(1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1);
    struct question *halves[2];
    for (int i = 0; i < 2; i++) {
        halves[i] = make_question(2);
        memcpy(halves[i]->values, alone->values + i * 2 * FAKE_INPUTS,
               sizeof(float) * 2 * FAKE_INPUTS);
        ASSERT_TRUE(batcher_add(fixture.batcher, &halves[i]->inference));
    }
    fake_gate_open();
    wait_for(4);
    for (int i = 0; i < 2; i++)
        ASSERT_BYTES(answer(halves[i]), answer(alone) + i * 2 * FAKE_OUTPUTS,
                     sizeof(float) * 2 * FAKE_OUTPUTS);
    close_fixture();
}

TEST(batcher, waits_for_others_no_longer_than_it_may)
{
    struct batch_rules patient = {.max_rows = 8, .wait_seconds = 5, .max_batches = 2};
    open_fixture(patient, 1);
    struct question *first = ask(1);
    atomic_store(&time_now, 103);
    struct question *second = ask(1);
    ASSERT_INT(answers, ==, 0);
    atomic_store(&time_now, 106);
    batcher_wake(fixture.batcher);
    wait_for(2);
    ASSERT_INT(first->inference.batch, ==, 2);
    ASSERT_NUMBER(second->inference.queue_seconds, ==, 3);
    close_fixture();
}

TEST(batcher, does_not_wait_when_the_batch_is_full)
{
    struct batch_rules patient = {.max_rows = 4, .wait_seconds = 1e6, .max_batches = 2};
    open_fixture(patient, 1);
    ask(2);
    ask(2);
    wait_for(2);
    close_fixture();
}

TEST(batcher, computes_a_large_question_in_pieces_with_the_same_result)
{
    open_fixture(roomy, 1);
    struct question *large = ask(19);
    wait_for(1);
    const float *whole = answer(large);
    ASSERT_INT(large->inference.outputs[0].shape.dim[0], ==, 19);
    for (int first = 0; first < 16; first += 8) {
        struct question *piece = make_question(8);
        memcpy(piece->values, large->values + first * FAKE_INPUTS, sizeof(float) * 8 * FAKE_INPUTS);
        batcher_add(fixture.batcher, &piece->inference);
        wait_for(2 + first / 8);
        ASSERT_BYTES(answer(piece), whole + first * FAKE_OUTPUTS, sizeof(float) * 8 * FAKE_OUTPUTS);
    }
    close_fixture();
}

TEST(batcher, computes_others_between_the_pieces_of_a_large_question)
{
    open_fixture(roomy, 1);
    fake_gate_close();
    struct question *large = ask(24);
    fake_gate_wait(1); /* with its first piece */
    struct question *small = ask(1);
    atomic_store(&time_now, 101);
    fake_gate_pass(2);
    wait_for(1);
    ASSERT_TRUE(answer(small) != NULL);
    fake_gate_open();
    wait_for(2);
    ASSERT_TRUE(answer(large) != NULL);
    ASSERT_INT(large->inference.batch, ==, 8);
    close_fixture();
}

TEST(batcher, computes_no_more_pieces_of_a_question_whose_client_has_left)
{
    open_fixture(roomy, 1);
    fake_gate_close();
    struct question *large = ask(24);
    fake_gate_wait(1);
    atomic_store(&large->inference.cancelled, true);
    fake_gate_pass(1); /* a second piece would stand at the gate */
    wait_for(1);
    ASSERT_INT(large->inference.status, ==, SERVE_CANCELLED);
    ASSERT_INT(batcher_pending(fixture.batcher), ==, 0);
    fake_gate_open();
    close_fixture();
}

TEST(batcher, computes_no_more_pieces_after_the_deadline)
{
    open_fixture(roomy, 1);
    fake_gate_close();
    struct question *large = make_question(24);
    large->inference.deadline = 101;
    ASSERT_TRUE(batcher_add(fixture.batcher, &large->inference));
    fake_gate_wait(1);
    atomic_store(&time_now, 102);
    fake_gate_pass(1);
    wait_for(1);
    ASSERT_INT(large->inference.status, ==, SERVE_DEADLINE);
    fake_gate_open();
    close_fixture();
}

TEST(batcher, computes_pieces_of_one_question_side_by_side)
{
    open_fixture(roomy, 3);
    fake_gate_close();
    struct question *large = ask(24);
    fake_gate_wait(3);
    fake_gate_open();
    wait_for(1);
    struct question *alone = make_question(8);
    memcpy(alone->values, large->values + 16 * FAKE_INPUTS, sizeof(float) * 8 * FAKE_INPUTS);
    ASSERT_TRUE(batcher_add(fixture.batcher, &alone->inference));
    wait_for(2);
    ASSERT_BYTES(answer(large) + 16 * FAKE_OUTPUTS, answer(alone),
                 sizeof(float) * 8 * FAKE_OUTPUTS);
    close_fixture();
}

TEST(batcher, answers_once_when_a_piece_has_a_bad_value)
{
    open_fixture(roomy, 2);
    for (int i = 0; i < 8; i++) {
        struct question *large = make_question(32);
        large->values[(8 + i) * FAKE_INPUTS] = 666;
        ASSERT_TRUE(batcher_add(fixture.batcher, &large->inference));
        wait_for(i + 1);
        ASSERT_INT(large->inference.status, ==, SERVE_INVALID);
        ASSERT_CONTAINS(large->inference.error.message, "666 is a bad value");
    }
    ASSERT_INT(batcher_pending(fixture.batcher), ==, 0);
    close_fixture();
    ASSERT_INT(answers, ==, 8);
}

TEST(batcher, answers_a_question_that_is_larger_than_all_that_may_wait_when_none_does)
{
    open_fixture(plain, 1);
    struct question *large = ask(33);
    wait_for(1);
    ASSERT_INT(large->inference.status, ==, SERVE_OK);
    ASSERT_TRUE(answer(large) != NULL);
    close_fixture();
}

TEST(batcher, refuses_at_once_when_too_many_wait)
{
    open_fixture(plain, 1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1);
    for (int i = 0; i < 4; i++)
        ask(4);
    struct question *refused = ask(1);
    ASSERT_INT(answers, ==, 1); /* while the worker stands at the gate */
    ASSERT_INT(refused->inference.status, ==, SERVE_EXHAUSTED);
    ASSERT_CONTAINS(refused->inference.error.message, "try again");
    fake_gate_open();
    wait_for(6);
    close_fixture();
}

TEST(batcher, lets_those_who_left_make_room)
{
    open_fixture(plain, 1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1);
    struct question *waiting[4];
    for (int i = 0; i < 4; i++)
        waiting[i] = ask(4);
    atomic_store(&waiting[2]->inference.cancelled, true);
    struct question *late = ask(4);
    ASSERT_INT(waiting[2]->inference.status, ==, SERVE_CANCELLED);
    fake_gate_open();
    wait_for(6);
    ASSERT_INT(late->inference.status, ==, SERVE_OK);
    close_fixture();
}

TEST(batcher, does_not_compute_what_is_too_late)
{
    open_fixture(plain, 1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1);
    struct question *late = make_question(1);
    late->inference.deadline = 101;
    ASSERT_TRUE(batcher_add(fixture.batcher, &late->inference));
    atomic_store(&time_now, 102);
    fake_gate_open();
    wait_for(2);
    ASSERT_INT(late->inference.status, ==, SERVE_DEADLINE);
    ASSERT_INT(late->inference.batch, ==, 0);
    struct question *dead = make_question(1);
    dead->inference.deadline = 101;
    ASSERT_FALSE(batcher_add(fixture.batcher, &dead->inference));
    ASSERT_INT(dead->inference.status, ==, SERVE_DEADLINE);
    close_fixture();
}

TEST(batcher, answers_the_others_of_a_batch_when_one_has_a_bad_value)
{
    open_fixture(plain, 1);
    fake_gate_close();
    ask(1);
    fake_gate_wait(1);
    struct question *good = ask(1), *bad = make_question(1);
    bad->values[0] = 666;
    ASSERT_TRUE(batcher_add(fixture.batcher, &bad->inference));
    struct question *other = ask(1);
    fake_gate_open();
    wait_for(4);
    ASSERT_INT(bad->inference.status, ==, SERVE_INVALID);
    ASSERT_CONTAINS(bad->inference.error.message, "666 is a bad value");
    ASSERT_TRUE(answer(good) && answer(other));
    close_fixture();
}

TEST(batcher, computes_with_several_workers_at_the_same_time)
{
    open_fixture(plain, 3);
    fake_gate_close();
    for (int i = 0; i < 3; i++) {
        ask(1);
        fake_gate_wait(i + 1); /* all of them stand there together */
    }
    fake_gate_open();
    wait_for(3);
    close_fixture();
}

TEST(batcher, answers_all_that_waits_before_it_ends)
{
    struct batch_rules patient = {.max_rows = 8, .wait_seconds = 1e6, .max_batches = 2};
    open_fixture(patient, 2);
    for (int i = 0; i < 5; i++)
        ask(1);
    close_fixture();
    ASSERT_INT(answers, ==, 5);
}

/* Many threads ask at once; every question is answered once, with its own numbers. */
static void *ask_many(void *context)
{
    struct question *questions = context;
    for (int i = 0; i < 8; i++)
        if (!batcher_add(fixture.batcher, &questions[i].inference))
            on_done(&questions[i].inference);
    return NULL;
}

TEST(batcher, serves_many_threads)
{
    struct batch_rules wide = {.max_rows = 8, .max_batches = 100};
    pthread_t threads[4];
    open_fixture(wide, 2);
    for (int i = 0; i < 32; i++)
        make_question(i % 5 == 4 ? 20 : 1 + i % 3);
    for (int t = 0; t < 4; t++)
        ASSERT_INT(pthread_create(&threads[t], NULL, ask_many, &fixture.questions[t * 8]), ==, 0);
    for (int t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    wait_for(32);
    ASSERT_INT(answers, ==, 32);
    for (int i = 0; i < 32; i++)
        ASSERT_TRUE(answer(&fixture.questions[i]) != NULL);
    close_fixture();
}

static struct question *ask_as_helper(int rows)
{
    struct question *question = make_question(rows);
    question->inference.asker_helps = true;
    if (!batcher_add(fixture.batcher, &question->inference))
        on_done(&question->inference);
    return question;
}

TEST(batcher, lets_the_thread_that_asks_compute)
{
    open_idle_fixture(plain, 1);
    ASSERT_FALSE(batcher_help(fixture.batcher));
    for (int i = 0; i < 3; i++)
        ask_as_helper(1);
    ASSERT_TRUE(batcher_help(fixture.batcher));
    ASSERT_INT(answers, ==, 3);
    ASSERT_INT(fixture.questions[0].inference.batch, ==, 3);
    for (int i = 0; i < 10; i++)
        ask_as_helper(1);
    ASSERT_TRUE(batcher_help(fixture.batcher));
    ASSERT_INT(answers, ==, 3 + 8);
    ASSERT_TRUE(batcher_help(fixture.batcher));
    ASSERT_INT(answers, ==, 3 + 10);
    ASSERT_FALSE(batcher_help(fixture.batcher));
    close_fixture();
}

TEST(batcher, lets_helpers_compute_while_a_large_question_waits)
{
    open_idle_fixture(roomy, 1);
    ask(20);
    struct question *small = ask_as_helper(1);
    ASSERT_TRUE(batcher_help(fixture.batcher));
    ASSERT_TRUE(answer(small) != NULL);
    ASSERT_FALSE(batcher_help(fixture.batcher));
    ASSERT_INT(batcher_pending(fixture.batcher), ==, 1);
    close_fixture();
}

TEST(batcher, leaves_to_a_worker_what_is_not_for_helpers)
{
    struct batch_rules patient = {.max_rows = 8, .max_batches = 4, .wait_seconds = 5};
    open_fixture(patient, 1);
    ask_as_helper(1);
    ASSERT_FALSE(batcher_help(fixture.batcher)); /* more may come */
    atomic_store(&time_now, 106);
    batcher_wake(fixture.batcher);
    wait_for(1);
    ask_as_helper(20); /* in pieces */
    wait_for(2);
    close_fixture();
}

TEST(batcher, answers_what_came_while_a_helper_computed)
{
    open_fixture(plain, 1);
    for (int i = 0; i < 12; i++)
        ask_as_helper(1);
    batcher_help(fixture.batcher); /* once, whatever is left */
    ask(1);                        /* wakes a worker, who takes the rest */
    wait_for(13);
    close_fixture();
}
