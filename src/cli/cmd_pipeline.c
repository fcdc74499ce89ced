#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/deploying.h"
#include "cli/gate.h"
#include "cli/output.h"
#include "cli/refused.h"
#include "cli/results.h"
#include "cli/signals.h"
#include "cli/training.h"
#include "store/attempts.h"

struct pipeline_settings {
    struct training_settings training;
    struct deploying_settings deploying;
    int retry_limit;
};
static_assert(offsetof(struct pipeline_settings, training) == 0,
              "the rows of a training count from its beginning");

static const struct option options[] = {
    SESSION_MODEL_OPTION(training_settings),
    OPTION_SECTION("Pipeline"),
    OPTION_INT(pipeline_settings, retry_limit, "retry-limit", .min = 0, .max = ATTEMPTS_MOST - 1,
               .initial = "10", .environment = "RETRY_LIMIT",
               .help = "further attempts while --target-accuracy is not met; each goes on from "
                       "where the one before ended, for --steps or --epochs more"),
    TRAINING_OPTIONS,
    OPTION_SECTION("Serving"),
    DEPLOYING_OPTIONS(pipeline_settings),
    OPTION_SECTION("Running"),
    SESSION_RUN_OPTIONS(training_settings),
    SESSION_PLAN_OPTIONS(training_settings),
    REFUSED_IN_TRAIN,
    REFUSED_EVERYWHERE,
    OPTION_END};

struct job {
    const struct pipeline_settings *settings;
    struct training training;
    struct gate gate;
    struct attempts attempts;
    int earlier; /* attempts that other processes made */
    char checkpoints[PATH_MAX], journal[PATH_MAX];
    FILE *out;
    bool quiet;              /* print nothing about single attempts */
    int64_t steps, examples; /* of this process, over all attempts */
    double seconds;
    struct deployed *deployed; /* NULL: nothing was */
};

static struct attempt *current(struct job *job)
{
    return &job->attempts.list[job->attempts.count - 1];
}

/* --- where it was --------------------------------------------------------------------------- */

static int join(char path[PATH_MAX], const char *directory, const char *name, struct error *err)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, ERROR_USAGE, "a path of %zu bytes is too long", strlen(directory));
    return 0;
}

/* Attempts go on from checkpoints, so there must be a place for them. */
static int choose_checkpoints(struct job *job, struct training_settings *settings,
                              struct error *err)
{
    if (!settings->saving.directory && !settings->output_dir)
        return error_set(err, ERROR_USAGE,
                         "attempts go on from checkpoints: give --checkpoint-dir=DIR, or "
                         "--output-dir=DIR for DIR/checkpoints");
    if (!settings->saving.directory) {
        if (join(job->checkpoints, settings->output_dir, "checkpoints", err) < 0)
            return -1;
        settings->saving.directory = job->checkpoints;
    }
    return join(job->journal, settings->saving.directory, "pipeline.json", err);
}

/* Does the newest checkpoint belong to what the journal says of its last attempt? */
static bool fits(const struct attempt *last, int64_t step)
{
    switch (last->verdict) {
    case ATTEMPT_RUNNING:
        return step >= last->first_step && step <= last->goal;
    case ATTEMPT_MISSED:
        return step >= last->last_step;
    default:
        return step == last->last_step;
    }
}

/* Reads what earlier processes did. Their last attempt is taken up again when it was cut short, to
 * its own goal, and when it had passed the gate: then an evaluation tells whether it still does.
 * Attempts that used up the limit are history: who asks again gets as many again. */
static void read_journal(struct job *job)
{
    struct training *training = &job->training;
    struct attempts *attempts = &job->attempts;
    struct error err = {0};
    if (attempts_load(job->journal, attempts, &err) < 0)
        log_line(LOG_WARNING, "%s; attempts are counted anew", err.message);
    if (attempts->count && (!training->saving.resumed || !fits(current(job), training->step)))
        attempts->count = 0;
    if (attempts->count > job->settings->retry_limit && current(job)->verdict == ATTEMPT_MISSED)
        attempts->count = 0;
    job->earlier = attempts->count;
    if (attempts->count && current(job)->verdict == ATTEMPT_MISSED &&
        training->step >= training->goal) { /* memory tells of the attempt that is over */
        training->origin = training->step;
        training->goal = training->step + training->asked;
    }
    if (!attempts->count || current(job)->verdict == ATTEMPT_MISSED)
        return;
    training->goal =
        current(job)->verdict == ATTEMPT_RUNNING ? current(job)->goal : current(job)->last_step;
    current(job)->verdict = ATTEMPT_RUNNING;
    job->earlier--;
}

/* One rank reads, all know. */
static int pick_up(struct job *job, struct error *err)
{
    struct training *training = &job->training;
    struct comm *comm = training->ranks.trainer.comm;
    if (training->ranks.rank == 0)
        read_journal(job);
    if (comm_broadcast(comm, &job->attempts, sizeof job->attempts, 0, err) < 0 ||
        comm_broadcast(comm, &training->origin, sizeof training->origin, 0, err) < 0 ||
        comm_broadcast(comm, &job->earlier, sizeof job->earlier, 0, err) < 0)
        return -1;
    return comm_broadcast(comm, &training->goal, sizeof training->goal, 0, err);
}

/* The other ranks know nothing of a disk that fails here: they are not to be waited for. */
static int write_journal(struct job *job, struct error *err)
{
    if (job->training.ranks.rank > 0 || attempts_save(job->journal, &job->attempts, err) == 0)
        return 0;
    job->training.leaves = true;
    return -1;
}

/* --- attempts ------------------------------------------------------------------------------- */

static void print_begin(const struct job *job)
{
    const struct training *training = &job->training;
    int number = job->attempts.count;
    if (job->quiet)
        return;
    fprintf(job->out, "Attempt %d of at most %d: ", number,
            job->gate.set ? job->settings->retry_limit + 1 : number);
    if (training->step < training->goal)
        fprintf(job->out, "steps %" PRId64 " to %" PRId64 "\n", training->step + 1, training->goal);
    else
        fprintf(job->out, "all %" PRId64 " steps are done\n", training->goal);
    fflush(job->out);
}

/* Entered before it runs, so that a process that is killed leaves a trace of it. */
static int begin_attempt(struct job *job, struct error *err)
{
    struct attempts *attempts = &job->attempts;
    const struct training *training = &job->training;
    if (!attempts->count || current(job)->verdict != ATTEMPT_RUNNING)
        attempts->list[attempts->count++] = (struct attempt){.first_step = training->step,
                                                             .last_step = training->step,
                                                             .goal = training->goal,
                                                             .accuracy = NAN};
    print_begin(job);
    return write_journal(job, err);
}

static enum attempt_verdict judge(const struct job *job)
{
    enum gate_verdict verdict = gate_judge(&job->gate, &job->training.report);
    if (training_interrupted(&job->training))
        return ATTEMPT_RUNNING;
    if (verdict == GATE_NONE)
        return ATTEMPT_DONE;
    return verdict == GATE_MET ? ATTEMPT_MET : ATTEMPT_MISSED;
}

static enum run_outcome outcome_of(enum attempt_verdict verdict)
{
    if (verdict == ATTEMPT_RUNNING)
        return RUN_INTERRUPTED;
    return verdict == ATTEMPT_MISSED ? RUN_FAILED : RUN_FINISHED;
}

static int end_attempt(struct job *job, struct error *err)
{
    const struct report *report = &job->training.report;
    struct attempt *attempt = current(job);
    attempt->last_step = job->training.step;
    attempt->seconds += report->seconds;
    if (report->evaluated)
        attempt->accuracy = report->evaluation.accuracy;
    attempt->verdict = judge(job);
    job->steps += report->steps;
    job->examples += report->examples;
    job->seconds += report->seconds;
    if (!job->quiet)
        results_print_scores(&job->training, job->out);
    if (attempt->verdict != ATTEMPT_RUNNING)
        gate_print(&job->gate, report, job->out);
    fflush(job->out);
    return write_journal(job, err);
}

/* A signal that came to this rank alone is heeded by the next step of all. */
static bool stopped(const struct training *training)
{
    return training->stop_signal || (training->ranks.size == 1 && signals_status());
}

static int try_until_met(struct job *job, struct error *err)
{
    struct training *training = &job->training;
    for (;;) {
        if (begin_attempt(job, err) < 0 || training_run(training, err) < 0 ||
            (!training->paused && end_attempt(job, err) < 0))
            return error_wrap(err, "attempt %d", job->attempts.count);
        if (training->paused)
            return 0;
        if (gate_judge(&job->gate, &training->report) != GATE_MISSED || stopped(training) ||
            job->attempts.count > job->settings->retry_limit)
            return 0;
        training->origin = training->step;
        training->goal = training->step + training->asked;
    }
}

/* --- results -------------------------------------------------------------------------------- */

static const char *verdict_text(const struct attempt *attempt)
{
    return attempt->verdict == ATTEMPT_RUNNING ? "cut short"
                                               : attempt_verdict_word(attempt->verdict);
}

static void print_table(struct job *job)
{
    fprintf(job->out, "\nAttempt     Steps        To  Accuracy   Seconds  Verdict\n");
    for (int i = 0; i < job->attempts.count; i++) {
        const struct attempt *attempt = &job->attempts.list[i];
        char accuracy[16] = "-";
        if (!isnan(attempt->accuracy))
            snprintf(accuracy, sizeof accuracy, "%.4f", attempt->accuracy);
        fprintf(job->out, "%7d %9" PRId64 " %9" PRId64 " %9s %9.1f  %s\n", i + 1,
                attempt->last_step - attempt->first_step, attempt->last_step, accuracy,
                attempt->seconds, verdict_text(attempt));
    }
}

static void print_end(struct job *job)
{
    enum attempt_verdict verdict = current(job)->verdict;
    if (job->quiet)
        return;
    print_table(job);
    if (verdict == ATTEMPT_RUNNING)
        fprintf(job->out, "Cut short; the same command goes on from %s\n",
                job->settings->training.saving.directory);
    else if (verdict == ATTEMPT_MISSED)
        fprintf(job->out, "The target was not met; checkpoints are in %s\n",
                job->settings->training.saving.directory);
    else if (!*job->training.exported)
        fprintf(job->out, "Nothing was exported; --export-dir=DIR names a place for it\n");
    results_print_places(&job->training, job->out);
}

static int write_json(struct job *job, struct error *err)
{
    struct json *json = json_object_create(), *attempts = attempts_describe(&job->attempts);
    int status = -1;
    if (!json || !attempts) {
        json_release(attempts);
        error_set(err, ERROR_MEMORY, "no memory for the JSON output");
        goto out;
    }
    results_describe(&job->training, json);
    gate_describe(&job->gate, &job->training.report, json);
    /* The last attempt told its own numbers; these are of the whole run. */
    json_set_integer(json, "steps", job->steps);
    json_set_integer(json, "examples", job->examples);
    json_set_number(json, "seconds", job->seconds);
    json_set_integer(json, "first_step", job->training.step - job->steps);
    json_set_integer(json, "retry_limit", job->settings->retry_limit);
    json_set_integer(json, "earlier_attempts", job->earlier);
    json_set_text(json, "verdict", attempt_verdict_word(current(job)->verdict));
    json_set(json, "attempts", attempts);
    deploying_describe(job->deployed, json);
    status = output_json(json, job->settings->training.common.json, err);
out:
    json_release(json);
    return status;
}

/* What was exported is asked as others will ask it. */
static int deploy(struct job *job, struct error *err)
{
    struct training *training = &job->training;
    const struct deploying_settings *settings = &job->settings->deploying;
    if (!*training->exported || (!settings->check && !settings->serve))
        return 0;
    struct deploying_work work = {.directory = job->settings->training.exporting.directory,
                                  .version = training->exported,
                                  .data = training->validation.source.kind ? &training->validation
                                                                           : &training->train,
                                  .threads = training->ranks.threads,
                                  .stop = training->session.stop,
                                  .out = job->out};
    return deploying_start(settings, &work, &job->deployed, err);
}

/* Only what passed the gate leaves the directory of checkpoints. */
static int finish(struct job *job, struct error *err)
{
    enum attempt_verdict verdict = current(job)->verdict;
    bool passed = verdict == ATTEMPT_MET || verdict == ATTEMPT_DONE;
    if (!passed)
        job->training.weights_path[0] = '\0';
    if (results_save_weights(&job->training, err) < 0 ||
        (passed && results_export(&job->training, err) < 0))
        return -1;
    print_end(job);
    if (deploy(job, err) < 0)
        return -1;
    session_warn_of_bad(&job->training.train);
    session_warn_of_bad(&job->training.validation);
    if (job->settings->training.common.json && write_json(job, err) < 0)
        return -1;
    if (!passed && stopped(&job->training))
        return job->training.stop_signal ? 128 + job->training.stop_signal : signals_status();
    return passed ? STATUS_DONE : STATUS_FAILED;
}

/* The others would wait for the one that serves, or its agent would take it for stuck. */
static int refuse_group(const struct job *job, struct error *err)
{
    const struct training *training = &job->training;
    if (!job->settings->deploying.serve || (training->ranks.size == 1 && !training->keeping.keeper))
        return 0;
    return error_set(err, ERROR_USAGE,
                     "--serve is for one process; a group ends when its export was checked: leave "
                     "--serve out and run `lockstep serve` then");
}

static int run_job(struct job *job, struct options *parsed, struct pipeline_settings *settings,
                   struct error *err)
{
    struct training *training = &job->training;
    job->settings = settings;
    if (deploying_check(&settings->deploying, parsed, &settings->training.exporting, err) < 0 ||
        choose_checkpoints(job, &settings->training, err) < 0 ||
        training_open(training, parsed, &settings->training, err) < 0 || refuse_group(job, err) < 0)
        return -1;
    job->gate = gate_from(parsed, settings->training.target_accuracy);
    job->out = training_output(training);
    job->quiet = settings->training.watch.quiet && job->out == stderr;
    if (pick_up(job, err) < 0)
        return -1;
    if (try_until_met(job, err) < 0)
        return -1;
    return training->paused ? STATUS_DONE : finish(job, err);
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    int status = -1;
    if (members_take_over(parsed, settings, &status, err))
        return status;
    struct job *job = memory_allocate(sizeof *job);
    if (!job)
        return error_set(err, ERROR_MEMORY, "no memory for the pipeline");
    job->training = TRAINING_OF("pipeline");
    job->training.goes_on = true;
    status = run_job(job, parsed, settings, err);
    training_note(&job->training, status, err);
    training_end(&job->training, status < 0 ? RUN_FAILED : outcome_of(current(job)->verdict));
    training_release(&job->training);
    if (job->deployed && status == STATUS_DONE)
        status = deploying_go_on(job->deployed);
    deploying_end(job->deployed);
    memory_free(job);
    return status;
}

const struct command command_pipeline = {
    .name = "pipeline",
    .order = 15,
    .summary = "train until a network is good enough, export it, serve it",
    .description =
        "Trains MODEL for --steps or --epochs, evaluates it and compares the accuracy with "
        "--target-accuracy. While that is not met, further attempts go on from where the one "
        "before ended, up to --retry-limit of them; then it fails with status 1. Without a target "
        "one attempt is made. Weights go to --output-dir, and the network to --export-dir for "
        "servers, only when the gate was passed.\n"
        "\n"
        "What was exported is served at once and asked over gRPC; it must answer with the bits "
        "that "
        "`lockstep eval --as-served` computes, or it is withdrawn. --serve goes on serving.\n"
        "\n"
        "Ctrl-C or SIGTERM saves a checkpoint and ends with status 130 or 143. The same command "
        "then goes on: the attempt that was cut short is finished first, earlier ones count, and "
        "a network that had passed is only evaluated again. --fresh starts over.",
    .examples = "# half an epoch at a time, until 98 % of the digits are read\n"
                "lockstep pipeline mnist_custom --epochs 0.5 --target-accuracy 0.98 --output-dir "
                "out\n"
                "# and serve them, when they are\n"
                "lockstep pipeline mnist_custom --epochs 0.5 --target-accuracy 0.98 --output-dir "
                "out --export-dir models/digits --serve\n"
                "# what the Argo workflow of Wide & Deep does\n"
                "lockstep pipeline wide_deep --data criteo:DIR --steps 500 --target-accuracy 0.74 "
                "--checkpoint-dir checkpoints --export-dir models/wide_deep\n",
    .options = options,
    .settings_size = sizeof(struct pipeline_settings),
    .run = run,
};
