/* Models and versions on disk, looked at step by step: repository_look is what the thread does
 * between two waits. */
#include "serve/repository.h"

#include <inttypes.h>
#include <limits.h>

#include "base/arena.h"
#include "base/files.h"
#include "convert/imported.h"
#include "serve/servable.h"
#include "support/fake_model.h"
#include "support/test.h"

static struct repository *repository;
static const char *directory;

static void configure(const struct model_config *models, int count)
{
    struct error err = {0};
    struct model_list list = {models, count};
    ASSERT_OK(repository_configure(repository, &list, &err), err);
}

static void open_repository(struct repository_settings settings)
{
    static int number;
    struct error err = {0};
    settings.calls = &fake_model_calls;
    settings.workers = settings.threads = 1;
    settings.max_batch = 2;
    fake_gate_open();
    directory = test_path("models%d", number++);
    ASSERT_OK(directory_make(directory, &err), err);
    ASSERT_OK(repository_create(&settings, &repository, &err), err);
}

/* The usual: the newest of one model. */
static void open_newest(void)
{
    open_repository((struct repository_settings){.load_retries = 5, .retry_seconds = 1e6});
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
}

static void close_repository(void)
{
    repository_destroy(repository);
    ASSERT_INT(fake_models_alive(), ==, 0);
}

/* The version that answers to this; 0: none, with the reason in `why`. */
static char why[512];
static int64_t ask(const char *model, int64_t version, const char *label)
{
    struct error err = {0};
    enum serve_status status;
    struct serve_target target = {model, version, label};
    struct servable *servable = repository_hold(repository, &target, &status, &err);
    snprintf(why, sizeof why, "%s: %s", serve_status_name(status), err.message);
    int64_t number = servable ? servable_version(servable) : 0;
    servable_release(servable);
    return number;
}

static enum version_state state_of(int64_t version, char *message, size_t bytes)
{
    struct arena *arena = arena_create();
    struct model_status status;
    struct error err = {0};
    struct serve_target target = {"m", version, NULL};
    enum version_state state = VERSION_UNKNOWN;
    if (repository_model_status(repository, &target, arena, &status, &err) == SERVE_OK) {
        state = status.versions[0].state;
        if (message)
            snprintf(message, bytes, "%s", status.versions[0].message);
    }
    arena_destroy(arena);
    return state;
}

TEST(repository, serves_the_newest_version)
{
    open_newest();
    fake_model_write(directory, 3, "1");
    fake_model_write(directory, 20, "2");
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 20);
    ASSERT_TRUE(repository_ready(repository));
    ASSERT_INT(fake_models_alive(), ==, 1);
    close_repository();
}

TEST(repository, takes_a_version_by_the_name_it_has)
{
    open_newest();
    fake_model_write(directory, 123, "1");
    char plain[PATH_MAX], padded[PATH_MAX];
    snprintf(plain, sizeof plain, "%s/123", directory);
    snprintf(padded, sizeof padded, "%s/00000123", directory);
    ASSERT_INT(rename(plain, padded), ==, 0);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 123);
    close_repository();
}

TEST(repository, says_what_there_is_when_asked_for_what_there_is_not)
{
    open_newest();
    fake_model_write(directory, 3, "1");
    repository_look(repository);
    ASSERT_INT(ask("m", 7, NULL), ==, 0);
    ASSERT_CONTAINS(why, "NOT_FOUND: Servable not found for request: Specific(m, 7); available: 3");
    ASSERT_INT(ask("other", -1, NULL), ==, 0);
    ASSERT_CONTAINS(why, "NOT_FOUND: Servable not found for request: Latest(other)");
    ASSERT_INT(ask("m", -1, "stable"), ==, 0);
    ASSERT_CONTAINS(why, "Unrecognized servable version label: stable");
    ASSERT_INT(ask("m", 3, "stable"), ==, 0);
    ASSERT_CONTAINS(why, "INVALID_ARGUMENT");
    close_repository();
}

TEST(repository, is_unavailable_before_the_first_look)
{
    open_newest();
    ASSERT_INT(ask("m", -1, NULL), ==, 0);
    ASSERT_FALSE(repository_ready(repository));
    close_repository();
}

TEST(repository, changes_to_a_new_version_and_lets_the_old_one_go)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    fake_model_write(directory, 2, "2");
    repository_look(repository); /* seen for the first time: perhaps still being copied */
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 2);
    ASSERT_INT(state_of(1, NULL, 0), ==, VERSION_END);
    ASSERT_INT(fake_models_alive(), ==, 1);
    close_repository();
}

TEST(repository, keeps_a_version_whole_for_who_holds_it)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    enum serve_status status;
    struct error err = {0};
    struct serve_target target = {"m", -1, NULL};
    struct servable *held = repository_hold(repository, &target, &status, &err);
    fake_model_write(directory, 2, "2");
    repository_look(repository);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 2);
    ASSERT_INT(fake_models_alive(), ==, 2);
    ASSERT_INT(servable_version(held), ==, 1);
    servable_release(held);
    ASSERT_INT(fake_models_alive(), ==, 1);
    close_repository();
}

TEST(repository, never_serves_a_broken_version_and_says_why)
{
    char message[512];
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    fake_model_write(directory, 2, "half of a mo");
    repository_look(repository);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    ASSERT_INT(state_of(2, message, sizeof message), ==, VERSION_END);
    ASSERT_CONTAINS(message, "is not a model");
    ASSERT_TRUE(repository_ready(repository));
    close_repository();
}

TEST(repository, falls_back_to_an_older_version_at_the_start)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    fake_model_write(directory, 2, "broken");
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    close_repository();
}

TEST(repository, tries_a_broken_version_again_when_its_files_change)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    fake_model_write(directory, 2, "broken");
    repository_look(repository);
    fake_model_write(directory, 2, "22");
    repository_look(repository); /* they changed just now */
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 2);
    close_repository();
}

TEST(repository, tries_a_broken_version_as_often_as_told)
{
    open_repository((struct repository_settings){.load_retries = 2});
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
    fake_model_write(directory, 2, "broken");
    for (int i = 0; i < 5; i++)
        repository_look(repository);
    ASSERT_INT(state_of(2, NULL, 0), ==, VERSION_END);
    ASSERT_FALSE(repository_ready(repository));
    close_repository();
}

TEST(repository, keeps_serving_when_the_directory_is_emptied)
{
    struct error err = {0};
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    ASSERT_OK(directory_remove(test_path("%s/1", strrchr(directory, '/') + 1), &err), err);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    close_repository();
}

TEST(repository, serves_as_many_of_the_newest_as_the_policy_says)
{
    open_repository((struct repository_settings){0});
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 2}, 1);
    for (int i = 1; i <= 4; i++)
        fake_model_write(directory, i, "1");
    repository_look(repository);
    ASSERT_INT(ask("m", 4, NULL), ==, 4);
    ASSERT_INT(ask("m", 3, NULL), ==, 3);
    ASSERT_INT(ask("m", 2, NULL), ==, 0);
    close_repository();
}

TEST(repository, serves_all_versions_under_policy_all)
{
    open_repository((struct repository_settings){0});
    configure(&(struct model_config){.name = "m", .base_path = directory, .policy = POLICY_ALL}, 1);
    for (int i = 1; i <= 3; i++)
        fake_model_write(directory, i, "1");
    repository_look(repository);
    for (int i = 1; i <= 3; i++)
        ASSERT_INT(ask("m", i, NULL), ==, i);
    close_repository();
}

TEST(repository, serves_chosen_versions_and_their_labels)
{
    static const int64_t versions[] = {1, 2};
    static const struct version_label labels[] = {{"stable", 1}, {"canary", 2}};
    open_repository((struct repository_settings){.labels_ahead = true});
    for (int i = 1; i <= 3; i++)
        fake_model_write(directory, i, "1");
    configure(&(struct model_config){.name = "m",
                                     .base_path = directory,
                                     .policy = POLICY_SPECIFIC,
                                     .versions = versions,
                                     .version_count = 2,
                                     .labels = labels,
                                     .label_count = 2},
              1);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, "stable"), ==, 1);
    ASSERT_INT(ask("m", -1, "canary"), ==, 2);
    ASSERT_INT(ask("m", -1, NULL), ==, 2);
    ASSERT_INT(ask("m", 3, NULL), ==, 0);
    close_repository();
}

TEST(repository, refuses_a_label_for_a_version_that_does_not_answer)
{
    static const struct version_label label = {"stable", 9};
    struct error err = {0};
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    struct model_config config = {
        .name = "m", .base_path = directory, .latest = 1, .labels = &label, .label_count = 1};
    struct model_list list = {&config, 1};
    ASSERT_FAILS(repository_configure(repository, &list, &err), err, ERROR_FORMAT,
                 "version 9, which is not available");
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    close_repository();
}

TEST(repository, refuses_a_label_for_a_version_that_the_policy_beside_it_lets_go)
{
    static const int64_t second = 2;
    struct version_label label = {"stable", 2};
    struct error err = {0};
    struct model_config config = {.name = "m", .policy = POLICY_ALL};
    struct model_list list = {&config, 1};
    open_repository((struct repository_settings){0});
    config.base_path = directory;
    fake_model_write(directory, 1, "1");
    fake_model_write(directory, 2, "2");
    configure(&config, 1);
    repository_look(repository);
    config.labels = &label;
    config.label_count = 1;
    configure(&config, 1);
    repository_look(repository);
    label.version = 1;
    config.policy = POLICY_LATEST;
    config.latest = 1;
    ASSERT_FAILS(repository_configure(repository, &list, &err), err, ERROR_FORMAT,
                 "names version 1, which the policy beside it does not keep");
    config.policy = POLICY_SPECIFIC;
    config.versions = &second;
    config.version_count = 1;
    ASSERT_FAILS(repository_configure(repository, &list, &err), err, ERROR_FORMAT,
                 "names version 1, which the policy beside it does not keep");
    repository_look(repository);
    ASSERT_INT(ask("m", -1, "stable"), ==, 2);
    config.policy = POLICY_LATEST;
    config.latest = 2;
    configure(&config, 1);
    repository_look(repository);
    ASSERT_INT(ask("m", -1, "stable"), ==, 1);
    close_repository();
}

TEST(repository, serves_only_what_the_last_configuration_names)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    configure(&(struct model_config){.name = "n", .base_path = directory, .latest = 1}, 1);
    repository_look(repository);
    ASSERT_INT(ask("n", -1, NULL), ==, 1);
    ASSERT_INT(ask("m", -1, NULL), ==, 0);
    ASSERT_INT(fake_models_alive(), ==, 1);
    close_repository();
}

TEST(repository, keeps_loaded_versions_over_another_configuration)
{
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    enum serve_status status;
    struct error err = {0};
    struct serve_target target = {"m", -1, NULL};
    struct servable *before = repository_hold(repository, &target, &status, &err);
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 3}, 1);
    repository_look(repository);
    struct servable *after = repository_hold(repository, &target, &status, &err);
    ASSERT_TRUE(before == after);
    servable_release(before);
    servable_release(after);
    close_repository();
}

/* Not held any more: only to tell one from another. */
static const struct servable *who_answers(void)
{
    enum serve_status status;
    struct error err = {0};
    struct serve_target target = {"m", -1, NULL};
    struct servable *servable = repository_hold(repository, &target, &status, &err);
    ASSERT_TRUE(servable != NULL);
    servable_release(servable);
    return servable;
}

static enum version_state told; /* the last of version 1 */
static void on_change(void *context, const char *model, int64_t version, enum version_state state,
                      const char *message)
{
    (void)context, (void)model, (void)message;
    told = version == 1 ? state : told;
}

/* Version 1 of "m" answers, and this is another directory with a version 1. */
static const char *open_with_another_path(const char *text)
{
    struct error err = {0};
    open_repository((struct repository_settings){.changed = on_change});
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    const char *other = test_path("other%d", (int)strlen(text));
    ASSERT_OK(directory_make(other, &err), err);
    fake_model_write(other, 1, text);
    return other;
}

TEST(repository, loads_the_same_number_anew_from_another_path)
{
    const char *other = open_with_another_path("2");
    const struct servable *before = who_answers();
    configure(&(struct model_config){.name = "m", .base_path = other, .latest = 1}, 1);
    ASSERT_TRUE(who_answers() == before); /* until the other one is there */
    repository_look(repository);
    ASSERT_TRUE(who_answers() != before);
    ASSERT_INT(fake_models_alive(), ==, 1);
    ASSERT_INT(told, ==, VERSION_AVAILABLE);
    ASSERT_INT(state_of(1, NULL, 0), ==, VERSION_AVAILABLE);
    close_repository();
}

TEST(repository, serves_from_the_old_path_while_the_new_one_has_nothing_good)
{
    const char *other = open_with_another_path("broken");
    const struct servable *before = who_answers();
    configure(&(struct model_config){.name = "m", .base_path = other, .latest = 1}, 1);
    repository_look(repository);
    repository_look(repository);
    ASSERT_TRUE(who_answers() == before);
    ASSERT_INT(ask("m", 1, NULL), ==, 1);
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
    repository_look(repository);
    ASSERT_TRUE(who_answers() == before); /* as if nothing had been */
    ASSERT_INT(state_of(1, NULL, 0), ==, VERSION_AVAILABLE);
    close_repository();
}

TEST(repository, refuses_to_move_to_a_path_that_is_not_there)
{
    struct error err = {0};
    open_newest();
    fake_model_write(directory, 1, "1");
    repository_look(repository);
    struct model_config config = {.name = "m", .base_path = test_path("nowhere"), .latest = 1};
    struct model_list list = {&config, 1};
    ASSERT_FAILS(repository_configure(repository, &list, &err), err, ERROR_ABSENT,
                 "nowhere: No such file or directory");
    repository_look(repository);
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    close_repository();
}

TEST(repository, looks_by_itself_and_can_be_waited_for)
{
    struct error err = {0};
    open_repository((struct repository_settings){.poll_seconds = 0.01});
    fake_model_write(directory, 1, "1");
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
    ASSERT_OK(repository_start(repository, &err), err);
    ASSERT_TRUE(repository_wait(repository, 60));
    ASSERT_INT(ask("m", -1, NULL), ==, 1);
    fake_model_write(directory, 2, "2");
    while (ask("m", -1, NULL) != 2) /* within the test's own limit */
        ;
    close_repository();
}

TEST(repository, gives_up_waiting_when_nothing_can_be_loaded)
{
    struct error err = {0};
    open_repository((struct repository_settings){.poll_seconds = 1000});
    fake_model_write(directory, 1, "broken");
    configure(&(struct model_config){.name = "m", .base_path = directory, .latest = 1}, 1);
    ASSERT_OK(repository_start(repository, &err), err);
    ASSERT_FALSE(repository_wait(repository, 60));
    close_repository();
}
