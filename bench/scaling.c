/* scaling TURNS STEPS WORDS...: what communication costs the ranks of an mpirun. WORDS are those of
 * `lockstep train`; the ranks take turns of STEPS steps together and of as many that each makes for
 * itself, at the same time, in the same processes: a process keeps the speed that its memory happened
 * to get, so runs of different processes cannot be compared as closely. Prints one JSON object with
 * the median step of each turn: the mean over the ranks, and that of the slower ones when alone, for
 * ranks that go together cannot be done before the slowest core is.
 *
 * With --shards among the words it tells what the fixed order costs: the same ranks take turns with it
 * ("fixed") and without ("free"). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/training.h"

enum { MAX_RANKS = 64 };

struct seconds {
    double mean, slowest; /* over the ranks */
};

static int ask_ranks(struct comm *comm, double own, struct seconds *out, struct error *err)
{
    double all[MAX_RANKS];
    size_t sizes[MAX_RANKS];
    int ranks = comm_size(comm);
    if (comm_gather(comm, &own, sizeof own, all, sizeof all, sizes, err) < 0)
        return -1;
    *out = (struct seconds){0};
    for (int r = 0; r < ranks; r++) {
        out->mean += all[r] / ranks;
        out->slowest = fmax(out->slowest, all[r]);
    }
    return 0;
}

enum kind { ALONE, TOGETHER };

/* Agreeing first lets all begin at the same time. Where there are shards, ALONE is together, too, but
 * in any order. */
static int take_turn(struct training *training, enum kind kind, int steps, struct seconds *seconds,
                     struct error *err)
{
    struct trainer_ranks *ranks = &training->ranks.trainer, before = *ranks;
    struct report_speed speed;
    bool same;
    training->goal = training->step + steps;
    if (comm_agree(ranks->comm, (uint64_t)training->goal, &same, err) < 0)
        return -1;
    if (kind == ALONE && ranks->shards)
        ranks->shards = 0;
    else if (kind == ALONE)
        ranks->comm = NULL;
    int status = training_run(training, err);
    ranks->comm = before.comm;
    ranks->shards = before.shards;
    if (status < 0)
        return -1;
    report_measure(&training->report, 1, &speed);
    return ask_ranks(ranks->comm, speed.median_step_seconds, seconds, err);
}

static void print_turn(bool shards, const struct seconds seconds[2])
{
    if (shards)
        printf("{\"free\": %.6f, \"fixed\": %.6f}", seconds[ALONE].mean, seconds[TOGETHER].mean);
    else
        printf("{\"alone\": %.6f, \"slowest\": %.6f, \"together\": %.6f}", seconds[ALONE].mean,
               seconds[ALONE].slowest, seconds[TOGETHER].mean);
}

/* Together first in one pair, alone first in the next. */
static int take_turns(struct training *training, int turns, int steps, struct error *err)
{
    const struct trainer_ranks *ranks = &training->ranks.trainer;
    bool speaks = comm_rank(ranks->comm) == 0;
    for (int turn = 0; turn < turns; turn++) {
        struct seconds seconds[2];
        for (int half = 0; half < 2; half++) {
            enum kind kind = (turn + half) % 2 ? ALONE : TOGETHER;
            if (take_turn(training, kind, steps, &seconds[kind], err) < 0)
                return -1;
        }
        if (speaks) {
            printf("%s", turn ? ", " : "{\"turns\": [");
            print_turn(ranks->shards > 0, seconds);
        }
    }
    if (speaks)
        printf("]}\n");
    return 0;
}

static int run(int turns, int steps, int words, char **word, struct error *err)
{
    const struct command *train = command_find("train");
    struct training_settings settings = {0};
    struct training training = TRAINING_OF("train");
    struct options options;
    training.goes_on = true;
    if (options_parse(train->options, words, word, getenv, &settings, &options, err) < 0)
        return -1;
    int status = training_open(&training, &options, &settings, err);
    if (status == 0 && (training.ranks.size < 2 || training.ranks.size > MAX_RANKS))
        status =
            error_set(err, ERROR_USAGE, "to be started by mpirun, as 2 to %d ranks", MAX_RANKS);
    if (status == 0)
        status = take_turns(&training, turns, steps, err);
    training_note(&training, status, err);
    training_end(&training, status ? RUN_FAILED : RUN_FINISHED);
    training_release(&training);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    int turns = argc > 3 ? (int)strtol(argv[1], NULL, 10) : 0,
        steps = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (turns < 1 || steps < 1) {
        fprintf(stderr, "usage: scaling TURNS STEPS WORDS...\n");
        return 2;
    }
    int status = run(turns, steps, argc - 3, argv + 3, &err);
    if (status < 0)
        fprintf(stderr, "scaling: %s\n", err.message);
    return status < 0;
}
