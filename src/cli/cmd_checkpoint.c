#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "cli/checkpoint_parts.h"
#include "store/checkpoints.h"

int checkpoint_parts_list(const char *directory, struct arena *arena, int64_t **steps, int *count,
                          struct error *err)
{
    if (!arena)
        return error_set(err, ERROR_MEMORY, "no memory to look for checkpoints");
    if (checkpoints_list(directory, arena, steps, count, err) < 0)
        return -1;
    return *count ? 0
                  : error_set(err, ERROR_IO,
                              "%s: there is no checkpoint; is it what --checkpoint-dir named?",
                              directory);
}

const char *checkpoint_parts_time(double seconds, char *text, size_t bytes)
{
    time_t whole = (time_t)seconds;
    struct tm parts;
    gmtime_r(&whole, &parts);
    strftime(text, bytes, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return text;
}

static const struct option options[] = {OPTION_END};

static const struct command *const parts[] = {&command_checkpoint_list, &command_checkpoint_show,
                                              &command_checkpoint_verify, &command_checkpoint_diff,
                                              NULL};

const struct command command_checkpoint = {
    .name = "checkpoint",
    .order = 25,
    .summary = "list, show, verify and compare checkpoints",
    .description =
        "What `lockstep train --checkpoint-dir` saved. A checkpoint is a directory with a tensor "
        "bundle that TensorFlow reads (tf.train.load_checkpoint(\"DIR/step-.../model\")) and a "
        "manifest in JSON.",
    .examples = "# which are there, and which is the best?\n"
                "lockstep checkpoint list run\n"
                "# are two runs alike to the last bit?\n"
                "lockstep checkpoint diff run-a run-b\n",
    .options = options,
    .parts = parts,
};
