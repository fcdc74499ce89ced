#include "cli/evaluator.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/members.h"
#include "cli/signals.h"
#include "cli/training.h"
#include "launch/child.h"
#include "store/checkpoints.h"
#include "store/manifest.h"

static const double look_seconds = 1;
enum { MOST_WORDS = 128 };

struct evaluator {
    const struct options *options;
    const struct training_settings *settings;
    char program[PATH_MAX];
    char *words[MOST_WORDS]; /* of `lockstep eval`, but for the checkpoint */
    int count;
    struct arena *arena;
};

/* --- the words of eval: those of train that it knows, too ------------------------------------------------------ */

static bool is_passed_on(const struct evaluator *evaluator, const struct option *row)
{
    static const char *const own[] = {"data", "weights", "json", "checkpoint-dir", "output-dir"};
    const struct option *theirs = command_find("eval")->options;
    if (!row->name || row->type == OPTION_IS_SECTION || row->type == OPTION_IS_REFUSED ||
        options_source(evaluator->options, row->name) < OPTION_FROM_ENVIRONMENT)
        return false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(row->name, own[i]))
            return false;
    const struct option *found = option_find(theirs, row->name, strlen(row->name));
    return found && found->type == row->type;
}

static int add_word(struct evaluator *evaluator, const char *name, const char *value,
                    struct error *err)
{
    char *word = name ? arena_format(evaluator->arena, "--%s=%s", name, value)
                      : arena_copy_text(evaluator->arena, value);
    if (!word || evaluator->count + 2 >= MOST_WORDS)
        return error_set(err, ERROR_MEMORY, "no memory for an evaluation");
    evaluator->words[evaluator->count++] = word;
    return 0;
}

static int make_words(struct evaluator *evaluator, struct error *err)
{
    const struct training_settings *settings = evaluator->settings;
    const char *data = settings->eval_data ? settings->eval_data : settings->common.data;
    struct strbuf value;
    if (add_word(evaluator, NULL, "lockstep", err) < 0 ||
        add_word(evaluator, NULL, "eval", err) < 0 ||
        add_word(evaluator, NULL, settings->common.model, err) < 0 ||
        (data && add_word(evaluator, "data", data, err) < 0))
        return -1;
    strbuf_init(&value);
    int status = 0;
    for (const struct option *row = evaluator->options->table;
         status == 0 && row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_ARGUMENT || !is_passed_on(evaluator, row))
            continue;
        strbuf_clear(&value);
        option_text(row, settings, &value);
        status = add_word(evaluator, row->name, value.text, err);
    }
    strbuf_release(&value);
    return status;
}

/* --- following -------------------------------------------------------------------------------------------------- */

static int evaluate(struct evaluator *evaluator, const char *checkpoint, struct error *err)
{
    /* TF_CONFIG would make it an evaluator again. */
    static const char *const environment[] = {"TF_CONFIG", "CHECKPOINT_DIR", "OUTPUT_DIR", NULL};
    evaluator->words[evaluator->count] = arena_format(evaluator->arena, "--weights=%s", checkpoint);
    evaluator->words[evaluator->count + 1] = NULL;
    struct child child = {.program = evaluator->program,
                          .words = evaluator->words,
                          .environment = environment,
                          .input = -1,
                          .output = -1,
                          .errors = -1};
    pid_t pid = child_start(&child, err);
    int status = 0;
    if (pid < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        if (signals_status())
            kill(pid, SIGTERM);
    char text[80];
    if (status && !signals_status())
        log_line(LOG_WARNING, "the evaluation %s", child_end_text(status, text, sizeof text));
    return 0;
}

/* The newest checkpoint, if it is newer than `step`, which it becomes. */
static int look(struct evaluator *evaluator, int64_t *step, bool *finished, struct error *err)
{
    const char *directory = evaluator->settings->saving.directory;
    char path[PATH_MAX];
    struct manifest manifest = {0};
    struct arena *arena = arena_create();
    bool found = false;
    int status = arena ? 0 : error_set(err, ERROR_MEMORY, "no memory for a checkpoint");
    /* One that is being moved or tidied away is looked at again. */
    if (status == 0 &&
        (checkpoints_find_newest(directory, arena, &manifest, path, &found, NULL) < 0 || !found))
        found = false;
    int64_t newest = manifest.step;
    *finished = found && manifest.finished;
    arena_destroy(arena);
    if (status < 0 || !found || newest == *step)
        return status;
    *step = newest;
    log_line(LOG_INFO, "evaluating the checkpoint of step %" PRId64, newest);
    return evaluate(evaluator, path, err);
}

int evaluator_run(const struct options *options, const struct training_settings *settings,
                  struct error *err)
{
    struct evaluator evaluator = {.options = options, .settings = settings};
    int64_t step = -1;
    bool finished = false;
    if (!settings->saving.directory)
        return error_set(err, ERROR_USAGE,
                         "an evaluator follows the chief's checkpoints: give --checkpoint-dir");
    evaluator.arena = arena_create();
    signals_catch();
    int status = evaluator.arena ? 0 : error_set(err, ERROR_MEMORY, "no memory for an evaluator");
    if (status == 0)
        status = members_program(evaluator.program, sizeof evaluator.program, err);
    if (status == 0)
        status = make_words(&evaluator, err);
    while (status == 0 && !finished) {
        status = look(&evaluator, &step, &finished, err);
        if (status == 0 && !finished && stop_wait(signals_number(), look_seconds, NULL) < 0)
            break;
    }
    arena_destroy(evaluator.arena);
    return status < 0 ? -1 : signals_status();
}
