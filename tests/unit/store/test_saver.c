#include "store/saver.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/memory.h"
#include "exec/params.h"
#include "exec/plan.h"
#include "store/checkpoints.h"
#include "support/checkpoint_files.h"
#include "support/test.h"
#include "train/optimizer.h"

/* A network whose 11 channels fill no block, with batch norm, an optimizer and what saves it. */
struct subject {
    struct graph *graph;
    struct params *params;
    struct plan *plan;
    struct updater *updater;
    struct saver *saver;
};

static void open_network(struct subject *subject, const char *rule, uint64_t seed)
{
    struct error err = {0};
    struct graph *graph = graph_create();
    const struct optimizer *optimizer = optimizer_find(rule);
    struct param_group group = {"", optimizer, optimizer->defaults, 1};
    value_id x = image_input(graph, 3, 8);
    x = batch_norm(graph, conv2d(graph, x, 11, .kernel = 3, .no_bias = 1), .name = "norm");
    x = dense(graph, flatten(graph, relu(graph, x)), 5, .name = "last");
    lockstep_classifier(graph, x, 0);
    *subject = (struct subject){.graph = graph};
    ASSERT_OK(graph_finish(graph, &err), err);
    ASSERT_OK(params_create(graph, optimizer->slot_count, NULL, &subject->params, &err), err);
    struct plan_options options = {.mode = PLAN_TRAIN, .batch = 2, .threads = 1};
    ASSERT_OK(plan_create(graph, subject->params, &options, &subject->plan, &err), err);
    ASSERT_OK(params_initialize(subject->params, seed, &err), err);
    ASSERT_OK(updater_create(subject->params, &group, 1, 1, &subject->updater, &err), err);
    updater_initialize_slots(subject->updater);
}

static void close_network(struct subject *subject)
{
    saver_destroy(subject->saver);
    updater_destroy(subject->updater);
    plan_destroy(subject->plan);
    params_destroy(subject->params);
    graph_destroy(subject->graph);
}

static void open_saver(struct subject *subject, const char *directory,
                       const struct checkpoints_lock *lock, size_t most_snapshot_bytes)
{
    struct error err = {0};
    struct saver_options options = {
        .directory = directory,
        .lock = lock,
        .keep = 2,
        .params = subject->params,
        .slots = {updater_describe_slot, subject->updater},
        .manifest = {.version = "1", .model = "test", .steps_per_epoch = 10, .fingerprint = 5},
        .most_snapshot_bytes = most_snapshot_bytes};
    ASSERT_OK(saver_create(&options, &subject->saver, &err), err);
}

/* Gradients where backward would leave them: none in what a blocked layout adds. */
static void update(struct subject *subject, int64_t step)
{
    float *gradients = params_gradients(subject->params);
    const float *weights = params_weights(subject->params);
    for (size_t i = 0; i < params_dense_elements(subject->params); i++)
        gradients[i] = weights[i] != 0 ? 0.1F + weights[i] : 0;
    updater_step(subject->updater, 0.01F, step);
}

static struct saver_result save(struct subject *subject, struct saver_moment moment)
{
    struct saver_result result;
    struct error err = {0};
    ASSERT_OK(saver_start(subject->saver, &moment, &err), err);
    saver_wait(subject->saver);
    ASSERT_FALSE(saver_busy(subject->saver));
    ASSERT_TRUE(saver_take(subject->saver, &result));
    ASSERT_INT(result.step, ==, moment.step);
    return result;
}

static void save_whole(struct subject *subject, int64_t step)
{
    struct saver_result result = save(subject, (struct saver_moment){.step = step, .goal = 100});
    struct error err = {0};
    if (result.error.code)
        FAIL("%s", result.error.message);
    ASSERT_OK(checkpoint_verify(result.path, &err), err);
}

static void load(struct subject *subject, const char *path)
{
    struct checkpoint_slots slots = {updater_describe_slot, subject->updater};
    struct error err = {0};
    ASSERT_OK(checkpoint_load(path, subject->params, &slots, &err), err);
}

static void assert_same_file(const char *a, const char *b)
{
    char *one, *other;
    size_t bytes, other_bytes;
    struct error err = {0};
    ASSERT_OK(file_read(a, 1 << 24, &one, &bytes, &err), err);
    ASSERT_OK(file_read(b, 1 << 24, &other, &other_bytes, &err), err);
    ASSERT_INT(bytes, ==, other_bytes);
    ASSERT_BYTES(one, other, bytes);
    memory_free(one);
    memory_free(other);
}

static void assert_same_slot(struct subject *a, struct subject *b, int param, int slot)
{
    struct arena *arena = arena_create();
    struct error err = {0};
    struct tensor one, other;
    struct shape shape = params_range(a->params, param).shape;
    ASSERT_OK(tensor_create(arena, DTYPE_F32, shape, &one, &err), err);
    ASSERT_OK(tensor_create(arena, DTYPE_F32, shape, &other, &err), err);
    ASSERT_OK(params_read_slot(a->params, param, slot, &one, &err), err);
    ASSERT_OK(params_read_slot(b->params, param, slot, &other, &err), err);
    ASSERT_BYTES(one.data, other.data, tensor_bytes(&one));
    arena_destroy(arena);
}

/* Of weights and statistics with their padding, of slots without: there a rule may do what it
 * likes, as long as weights of 0 stay 0. */
static void assert_same_numbers(struct subject *a, struct subject *b)
{
    ASSERT_BYTES(params_weights(a->params), params_weights(b->params),
                 params_elements(a->params) * sizeof(float));
    ASSERT_BYTES(params_statistics(a->params), params_statistics(b->params),
                 params_statistic_elements(a->params) * sizeof(float));
    for (int i = 0; i < params_count(a->params); i++)
        for (int slot = 0; slot < params_slots(a->params); slot++)
            if (params_range(a->params, i).flags & PARAM_TRAINABLE)
                assert_same_slot(a, b, i, slot);
}

TEST(saver, writes_the_same_bytes_with_and_without_a_snapshot)
{
    struct subject subject;
    static const char *const names[] = {"snapshot", "in-place"};
    open_network(&subject, "adam", 1);
    update(&subject, 1);
    for (int i = 0; i < 2; i++) {
        open_saver(&subject, checkpoint_files_directory(names[i]), NULL, i ? 1 : 0);
        save_whole(&subject, 1);
        saver_destroy(subject.saver);
        subject.saver = NULL;
    }
    static const char *const files[] = {"model.index", "model.data-00000-of-00001"};
    for (int i = 0; i < 2; i++)
        assert_same_file(test_path("snapshot/step-000000000001/%s", files[i]),
                         test_path("in-place/step-000000000001/%s", files[i]));
    close_network(&subject);
}

TEST(saver, saves_the_moment_it_was_asked_to_while_the_numbers_change)
{
    struct subject subject, before, loaded;
    struct error err = {0};
    struct saver_result result;
    open_network(&subject, "adam", 1);
    open_network(&before, "adam", 1);
    open_network(&loaded, "adam", 2);
    open_saver(&subject, checkpoint_files_directory("moment"), NULL, 0);
    ASSERT_OK(saver_start(subject.saver, &(struct saver_moment){.step = 1, .goal = 9}, &err), err);
    for (int step = 1; step < 20; step++)
        update(&subject, step);
    saver_wait(subject.saver);
    ASSERT_TRUE(saver_take(subject.saver, &result));
    ASSERT_FALSE(saver_take(subject.saver, &result));
    load(&loaded, result.path);
    assert_same_numbers(&before, &loaded);
    close_network(&subject);
    close_network(&before);
    close_network(&loaded);
}

/* An accumulator of 0 where adagrad divides by its root would make padding infinite. */
TEST(saver, brings_back_every_rule_with_its_padding)
{
    static const char *const rules[] = {"sgd",     "momentum", "adam", "adagrad",
                                        "rmsprop", "ftrl",     "lars"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct subject whole, resumed;
        open_network(&whole, rules[i], 1);
        open_network(&resumed, rules[i], 2);
        open_saver(&whole, checkpoint_files_directory(rules[i]), NULL, 0);
        for (int step = 1; step <= 3; step++)
            update(&whole, step);
        save_whole(&whole, 3);
        for (size_t j = 0; j < params_elements(resumed.params); j++)
            for (int slot = 0; slot < params_slots(resumed.params); slot++)
                params_slot(resumed.params, slot)[j] = NAN;
        updater_initialize_slots(resumed.updater);
        load(&resumed, test_path("%s/step-000000000003", rules[i]));
        assert_same_numbers(&whole, &resumed);
        for (int step = 4; step <= 6; step++) {
            update(&whole, step);
            update(&resumed, step);
        }
        ASSERT_TRUE(updater_weights_finite(resumed.updater));
        assert_same_numbers(&whole, &resumed);
        close_network(&whole);
        close_network(&resumed);
    }
}

TEST(saver, checkpoint_of_another_rule_is_refused)
{
    struct subject adam, sgd, adagrad;
    struct error err;
    open_network(&adam, "adam", 1);
    open_network(&sgd, "sgd", 1);
    open_network(&adagrad, "adagrad", 1);
    open_saver(&adam, checkpoint_files_directory("rules"), NULL, 0);
    save_whole(&adam, 1);
    const char *path = test_path("rules/step-000000000001");
    struct checkpoint_slots slots = {updater_describe_slot, sgd.updater};
    ASSERT_FAILS(checkpoint_load(path, sgd.params, &slots, &err), err, ERROR_FORMAT,
                 "for which there is no place");
    slots.context = adagrad.updater;
    ASSERT_FAILS(checkpoint_load(path, adagrad.params, &slots, &err), err, ERROR_FORMAT,
                 "optimizer");
    ASSERT_OK(checkpoint_load(path, sgd.params, NULL, &err), err); /* the weights alone */
    close_network(&adam);
    close_network(&sgd);
    close_network(&adagrad);
}

TEST(saver, knows_the_best_of_what_was_saved)
{
    struct subject subject;
    struct error err = {0};
    const char *directory = checkpoint_files_directory("best");
    open_network(&subject, "sgd", 1);
    open_saver(&subject, directory, NULL, 0);
    ASSERT_TRUE(saver_best_score(subject.saver) == -INFINITY);
    save(&subject, (struct saver_moment){.step = 1, .evaluated = true, .accuracy = 0.5});
    ASSERT_NUMBER(saver_best_score(subject.saver), ==, 0.5);
    struct saver_moment better = {.step = 2, .evaluated = true, .accuracy = 0.75};
    ASSERT_OK(saver_start(subject.saver, &better, &err), err);
    ASSERT_NUMBER(saver_best_score(subject.saver), ==, 0.75); /* also while it is written */
    saver_wait(subject.saver);
    save(&subject, (struct saver_moment){.step = 3, .evaluated = true, .accuracy = 0.25});
    ASSERT_NUMBER(saver_best_score(subject.saver), ==, 0.75);
    /* One that failed is not the best. */
    ASSERT_INT(rename(directory, test_path("best-away")), ==, 0);
    struct saver_result failed =
        save(&subject, (struct saver_moment){.step = 4, .evaluated = true, .accuracy = 0.9});
    ASSERT_INT(failed.error.code, ==, ERROR_IO);
    ASSERT_NUMBER(saver_best_score(subject.saver), ==, 0.75);
    close_network(&subject);
}

TEST(saver, keeps_quiet_about_nothing_when_the_directory_is_taken_away)
{
    struct subject subject;
    struct error err = {0};
    const char *directory = test_path("taken");
    struct checkpoints_lock lock, other;
    ASSERT_OK(checkpoints_take(directory, &lock, &err), err);
    open_network(&subject, "sgd", 1);
    open_saver(&subject, directory, &lock, 0);
    save_whole(&subject, 1);
    ASSERT_OK(directory_remove(directory, &err), err);
    struct saver_moment moment = {.step = 2, .goal = 3};
    struct saver_result result = save(&subject, moment);
    ASSERT_INT(result.error.code, ==, ERROR_IO);
    ASSERT_CONTAINS(result.error.message, "removed or replaced");
    /* Another run has taken the name: ours must not write there. */
    ASSERT_OK(checkpoints_take(directory, &other, &err), err);
    ASSERT_INT(save(&subject, moment).error.code, ==, ERROR_IO);
    ASSERT_TEXT(checkpoint_files_names(directory, ""), "lock");
    checkpoints_let_go(&other);
    checkpoints_let_go(&lock);
    close_network(&subject);
}

/* As on a full disk, at every size at which it can become full. */
TEST(saver, leaves_nothing_of_a_checkpoint_that_does_not_fit)
{
    struct subject subject;
    struct rlimit before, small;
    struct stat info;
    struct error err = {0};
    const char *directory = checkpoint_files_directory("full");
    open_network(&subject, "adam", 1);
    open_saver(&subject, directory, NULL, 0);
    save_whole(&subject, 1);
    ASSERT_INT(stat(test_path("full/step-000000000001/model.data-00000-of-00001"), &info), ==, 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ASSERT_INT(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
    const off_t sizes[] = {0, 1, 100, 4096, info.st_size / 2, info.st_size - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        small = (struct rlimit){(rlim_t)sizes[i], before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        struct saver_result result = save(&subject, (struct saver_moment){.step = 2, .goal = 3});
        setrlimit(RLIMIT_FSIZE, &before);
        ASSERT_INT(result.error.code, ==, ERROR_IO);
        ASSERT_CONTAINS(result.error.message, strerror(EFBIG));
        ASSERT_TEXT(checkpoint_files_names(directory, ""), "checkpoint step-000000000001");
    }
    signal(SIGXFSZ, handler);
    ASSERT_OK(checkpoint_verify(test_path("full/step-000000000001"), &err), err);
    save_whole(&subject, 2);
    close_network(&subject);
}

TEST(saver, keeps_as_many_as_it_was_told)
{
    struct subject subject;
    const char *directory = checkpoint_files_directory("keep");
    open_network(&subject, "sgd", 1);
    open_saver(&subject, directory, NULL, 0);
    for (int64_t step = 1; step <= 5; step++)
        save_whole(&subject, step);
    ASSERT_TEXT(checkpoint_files_names(directory, ""),
                "checkpoint step-000000000004 step-000000000005");
    close_network(&subject);
}

TEST(saver, tells_where_the_data_goes_on)
{
    struct subject subject;
    struct manifest manifest;
    struct error err = {0};
    struct arena *arena = arena_create();
    open_network(&subject, "sgd", 1);
    open_saver(&subject, checkpoint_files_directory("place"), NULL, 0);
    struct saver_result result =
        save(&subject, (struct saver_moment){.step = 27, .goal = 40, .evaluated = true, .loss = 2});
    ASSERT_OK(checkpoint_read_manifest(result.path, arena, &manifest, &err), err);
    ASSERT_INT(manifest.step, ==, 27);
    ASSERT_INT(manifest.goal, ==, 40);
    ASSERT_INT(manifest.epoch, ==, 2);
    ASSERT_INT(manifest.epoch_step, ==, 7);
    ASSERT_TRUE(manifest.evaluated);
    ASSERT_NUMBER(manifest.loss, ==, 2);
    arena_destroy(arena);
    close_network(&subject);
}

/* The last one must be whole when it is destroyed at once. */
TEST(saver, finishes_what_it_began_before_it_goes)
{
    struct subject subject;
    struct error err = {0};
    open_network(&subject, "sgd", 1);
    open_saver(&subject, checkpoint_files_directory("destroyed"), NULL, 0);
    ASSERT_OK(saver_start(subject.saver, &(struct saver_moment){.step = 8, .goal = 9}, &err), err);
    close_network(&subject);
    ASSERT_OK(checkpoint_verify(test_path("destroyed/step-000000000008"), &err), err);
}
