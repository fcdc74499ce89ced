/* Which questions are computed together, and when, without threads or a clock. */
#include "serve/batch_queue.h"

#include "serve/inference.h"
#include "support/test.h"

enum { SPACE = 16 };

static struct inference questions[SPACE];

static struct inference *ask(struct batch_queue *queue, const struct batch_rules *rules,
                             int64_t rows, double now)
{
    static int used;
    struct inference *question = &questions[used++ % SPACE];
    *question = (struct inference){.rows = rows};
    return batch_queue_add(queue, rules, question, now) ? question : NULL;
}

static const struct batch_rules rules = {.max_rows = 4, .wait_seconds = 0.5, .max_batches = 2};

TEST(batch_queue, is_due_when_its_first_has_waited)
{
    struct batch_queue queue = {0};
    ask(&queue, &rules, 1, 10);
    ask(&queue, &rules, 1, 10.25);
    ASSERT_NUMBER(batch_queue_due(&queue, &rules, false), ==, 10.5);
}

TEST(batch_queue, is_due_at_once_when_a_batch_is_full)
{
    struct batch_queue queue = {0};
    ask(&queue, &rules, 3, 10);
    ask(&queue, &rules, 1, 10.25);
    ASSERT_NUMBER(batch_queue_due(&queue, &rules, false), <=, 10);
}

TEST(batch_queue, is_due_at_once_when_nobody_else_will_come)
{
    struct batch_queue queue = {0};
    ask(&queue, &rules, 1, 10);
    ASSERT_NUMBER(batch_queue_due(&queue, &rules, true), <=, 10);
}

TEST(batch_queue, takes_the_oldest_that_fit_together)
{
    struct batch_queue queue = {0};
    struct inference *batch[SPACE], *dropped = NULL;
    struct inference *first = ask(&queue, &rules, 2, 1), *second = ask(&queue, &rules, 2, 1);
    ask(&queue, &rules, 1, 1);
    ASSERT_INT(batch_queue_take(&queue, &rules, 2, batch, SPACE, &dropped), ==, 2);
    ASSERT_TRUE(batch[0] == first && batch[1] == second && !dropped);
    ASSERT_INT(queue.rows, ==, 1);
    ASSERT_INT(queue.count, ==, 1);
}

TEST(batch_queue, never_splits_a_question_and_never_overtakes)
{
    struct batch_queue queue = {0};
    struct inference *batch[SPACE], *dropped = NULL;
    ask(&queue, &rules, 2, 1);
    struct inference *large = ask(&queue, &rules, 3, 1);
    ask(&queue, &rules, 1, 1);
    ASSERT_INT(batch_queue_take(&queue, &rules, 2, batch, SPACE, &dropped), ==, 1);
    ASSERT_INT(batch_queue_take(&queue, &rules, 2, batch, SPACE, &dropped), ==, 2);
    ASSERT_TRUE(batch[0] == large);
}

/* Of a question that is taken without any being dropped: its first row. */
static int64_t take_piece(struct batch_queue *queue, const struct inference *wanted, double now)
{
    struct inference *dropped = NULL;
    int64_t first = -1;
    ASSERT_TRUE(batch_queue_take_piece(queue, &rules, now, &first, &dropped) == wanted);
    ASSERT_TRUE(!dropped);
    return first;
}

TEST(batch_queue, gives_a_question_larger_than_a_batch_in_pieces)
{
    struct batch_queue queue = {0};
    struct inference *large = ask(&queue, &rules, 7, 1);
    ASSERT_NUMBER(batch_queue_piece_due(&queue), ==, 1);
    ASSERT_INT(take_piece(&queue, large, 2), ==, 0);
    ASSERT_INT(queue.large_rows, ==, 3);
    ASSERT_INT(take_piece(&queue, large, 3), ==, 4); /* beside the first */
    ASSERT_TRUE(batch_queue_is_empty(&queue));
    ASSERT_FALSE(batch_queue_end_piece(&queue, large, 4));
    ASSERT_TRUE(batch_queue_end_piece(&queue, large, 5));
}

TEST(batch_queue, lets_those_who_came_meanwhile_before_the_next_piece)
{
    struct batch_rules roomy = {.max_rows = 4, .max_batches = 8};
    struct batch_queue queue = {0};
    struct inference *large = ask(&queue, &roomy, 12, 1), *other = ask(&queue, &roomy, 12, 2);
    take_piece(&queue, large, 3);
    ask(&queue, &roomy, 1, 4);
    ASSERT_FALSE(batch_queue_end_piece(&queue, large, 5));
    ASSERT_INT(take_piece(&queue, other, 6), ==, 0);
    ASSERT_NUMBER(batch_queue_due(&queue, &roomy, false), <, batch_queue_piece_due(&queue));
}

TEST(batch_queue, takes_no_piece_of_a_question_that_is_over)
{
    struct batch_queue queue = {0};
    struct inference *dropped = NULL, *large = ask(&queue, &rules, 8, 1);
    int64_t first;
    take_piece(&queue, large, 2);
    large->deadline = 3;
    ASSERT_TRUE(batch_queue_take_piece(&queue, &rules, 4, &first, &dropped) == NULL);
    ASSERT_TRUE(!dropped); /* the piece that is being computed ends it */
    ASSERT_INT(queue.large_rows, ==, 0);
    ASSERT_TRUE(batch_queue_end_piece(&queue, large, 5));
    ASSERT_INT(large->status, ==, SERVE_DEADLINE);
    ASSERT_CONTAINS(large->error.message, "3.000 s with rows left to compute");
    large = ask(&queue, &rules, 8, 1);
    atomic_store(&large->cancelled, true);
    ASSERT_TRUE(batch_queue_take_piece(&queue, &rules, 4, &first, &dropped) == NULL);
    ASSERT_TRUE(dropped == large && batch_queue_is_empty(&queue));
}

TEST(batch_queue, ends_a_question_with_the_piece_after_which_it_is_not_wanted)
{
    struct batch_queue queue = {0};
    struct inference *large = ask(&queue, &rules, 8, 1);
    take_piece(&queue, large, 2);
    atomic_store(&large->cancelled, true);
    ASSERT_TRUE(batch_queue_end_piece(&queue, large, 3));
    ASSERT_INT(large->status, ==, SERVE_CANCELLED);
    ASSERT_TRUE(batch_queue_is_empty(&queue));
    large = ask(&queue, &rules, 8, 4);
    take_piece(&queue, large, 5);
    large->status = SERVE_INVALID;
    ASSERT_TRUE(batch_queue_end_piece(&queue, large, 6));
    ASSERT_INT(queue.large_rows, ==, 0);
}

TEST(batch_queue, counts_the_rows_that_large_questions_have_left_beside_the_others)
{
    struct batch_queue queue = {0};
    struct inference *large = ask(&queue, &rules, 9, 1),
                     *dropped = NULL; /* the first is taken anyway */
    ASSERT_TRUE(large && ask(&queue, &rules, 5, 1) == NULL);
    ASSERT_TRUE(ask(&queue, &rules, 4, 1) && ask(&queue, &rules, 4, 1)); /* another line */
    ASSERT_TRUE(ask(&queue, &rules, 1, 1) == NULL);
    take_piece(&queue, large, 2);
    ASSERT_TRUE(ask(&queue, &rules, 5, 3) == NULL);
    take_piece(&queue, large, 3);
    ASSERT_TRUE(ask(&queue, &rules, 5, 3) != NULL);
    ASSERT_TRUE(ask(&queue, &rules, 5, 3) == NULL);
    atomic_store(&large->cancelled, true);
    batch_queue_sweep(&queue, 4, &dropped);
    ASSERT_TRUE(!dropped); /* pieces of it are being computed */
    ASSERT_INT(queue.large_rows, ==, 5);
}

TEST(batch_queue, refuses_what_is_beyond_its_limit)
{
    struct batch_queue queue = {0};
    ASSERT_TRUE(ask(&queue, &rules, 4, 1) != NULL);
    ASSERT_TRUE(ask(&queue, &rules, 4, 1) != NULL);
    ASSERT_TRUE(ask(&queue, &rules, 1, 1) == NULL);
    ASSERT_INT(queue.rows, ==, 8);
}

TEST(batch_queue, gives_each_alone_when_batching_is_off)
{
    struct batch_rules alone = rules;
    struct batch_queue queue = {0};
    struct inference *batch[SPACE], *dropped = NULL;
    alone.alone = true;
    ask(&queue, &alone, 1, 1);
    ask(&queue, &alone, 1, 1);
    ASSERT_NUMBER(batch_queue_due(&queue, &alone, false), <=, 1);
    ASSERT_INT(batch_queue_take(&queue, &alone, 1, batch, SPACE, &dropped), ==, 1);
    ASSERT_INT(queue.count, ==, 1);
}

TEST(batch_queue, drops_who_left_and_who_is_too_late_before_any_work)
{
    struct batch_queue queue = {0};
    struct inference *batch[SPACE], *dropped = NULL;
    struct inference *late = ask(&queue, &rules, 1, 1), *left = ask(&queue, &rules, 1, 1);
    struct inference *good = ask(&queue, &rules, 1, 1);
    late->deadline = 1.5;
    atomic_store(&left->cancelled, true);
    ASSERT_INT(batch_queue_take(&queue, &rules, 1.6, batch, SPACE, &dropped), ==, 1);
    ASSERT_TRUE(batch[0] == good);
    ASSERT_INT(late->status, ==, SERVE_DEADLINE);
    ASSERT_INT(left->status, ==, SERVE_CANCELLED);
    ASSERT_TRUE(dropped == left && left->next == late && !late->next);
    ASSERT_CONTAINS(late->error.message, "0.600 s in the queue");
}

TEST(batch_queue, sweeps_out_who_need_not_be_answered_wherever_they_stand)
{
    struct batch_queue queue = {0};
    struct inference *dropped = NULL;
    struct inference *first = ask(&queue, &rules, 3, 1), *middle = ask(&queue, &rules, 3, 1);
    struct inference *last = ask(&queue, &rules, 2, 1);
    atomic_store(&middle->cancelled, true);
    batch_queue_sweep(&queue, 2, &dropped);
    ASSERT_TRUE(dropped == middle && !middle->next);
    ASSERT_TRUE(queue.first == first && first->next == last && queue.last == last && !last->next);
    ASSERT_INT(queue.rows, ==, 5);
    ASSERT_INT(queue.count, ==, 2);
}
