/* overlap TURNS STEPS WORDS...: whether reading hides behind computing. WORDS are those of
 * `lockstep train`; the same process takes turns of STEPS steps on its --data, of as many on synthetic
 * data, and of as many batches that it only reads: it keeps the speed that its memory happened to get,
 * so runs of different processes cannot be compared as closely. Prints one JSON object with the median
 * step of each turn, and the mean time of a batch that is only read. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/training.h"

enum { READ_BATCHES = 12, AHEAD = 8 /* more than the loader keeps */ };

struct bench {
    struct training training;
    struct session_data data, synthetic;
    int steps;
};

/* What was read ahead comes for nothing, and is not counted: from there on a batch is as old as the
 * threads that read it are fast. */
static int read_alone(struct loader *loader, double *seconds, struct error *err)
{
    const struct batch *batch;
    double start = 0;
    loader_seek(loader, (struct loader_position){0});
    for (int i = -AHEAD; i < READ_BATCHES; i++) {
        if (i == 0)
            start = clock_seconds();
        if (loader_next(loader, &batch, err) < 0)
            return -1;
    }
    *seconds = (clock_seconds() - start) / READ_BATCHES;
    return 0;
}

static int train_on(struct bench *bench, const struct session_data *data, double *seconds,
                    struct error *err)
{
    struct training *training = &bench->training;
    struct report_speed speed;
    training->train = *data;
    training->goal = training->step + bench->steps;
    if (training_run(training, err) < 0)
        return -1;
    report_measure(&training->report, 1, &speed);
    *seconds = speed.median_step_seconds;
    return 0;
}

/* From the files first in one turn, synthetic first in the next. */
static int take_turns(struct bench *bench, int turns, struct error *err)
{
    for (int turn = 0; turn < turns; turn++) {
        double step[2], alone;
        for (int half = 0; half < 2; half++) {
            int files = (turn + half) % 2;
            if (train_on(bench, files ? &bench->data : &bench->synthetic, &step[files], err) < 0)
                return -1;
        }
        if (read_alone(bench->data.source.trainer.loader, &alone, err) < 0)
            return -1;
        printf("%s{\"synthetic\": %.6f, \"files\": %.6f, \"reading\": %.6f}",
               turn ? ", " : "{\"turns\": [", step[0], step[1], alone);
        fflush(stdout);
    }
    printf("]}\n");
    return 0;
}

static int run(int turns, int steps, int words, char **word, struct error *err)
{
    const struct command *train = command_find("train");
    struct training_settings settings = {0};
    struct bench bench = {.training = TRAINING_OF("train"), .steps = steps};
    struct training *training = &bench.training;
    struct options options;
    training->goes_on = true;
    if (options_parse(train->options, words, word, getenv, &settings, &options, err) < 0)
        return -1;
    int status = training_open(training, &options, &settings, err);
    if (status == 0)
        status = session_open_data(&training->session, &settings.common, "synthetic", SPLIT_TRAIN,
                                   &bench.synthetic, err);
    bench.data = training->train;
    if (status == 0)
        status = take_turns(&bench, turns, err);
    training->train = bench.data;
    session_close_data(&bench.synthetic);
    training_note(training, status, err);
    training_end(training, status ? RUN_FAILED : RUN_FINISHED);
    training_release(training);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int turns = argc > 3 ? (int)strtol(argv[1], NULL, 10) : 0,
        steps = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (turns < 1 || steps < 1) {
        fprintf(stderr, "usage: overlap TURNS STEPS WORDS...\n");
        return 2;
    }
    int status = run(turns, steps, argc - 3, argv + 3, &err);
    if (status < 0)
        fprintf(stderr, "overlap: %s\n", err.message);
    return status < 0;
}
