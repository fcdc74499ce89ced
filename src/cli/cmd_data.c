#include "cli/data_parts.h"

static const struct option options[] = {OPTION_END};

static const struct command *const parts[] = {&command_data_convert, &command_data_inspect,
                                              &command_data_verify, &command_data_make, NULL};

const struct command command_data = {
    .name = "data",
    .order = 105,
    .summary = "convert, inspect, verify and make data sets",
    .description = "From pictures in folders or in ILSVRC2012's tar files to TFRecord shards; what "
                   "a set holds and whether it is whole; sets drawn by this program, of any size.",
    .examples = "# no data at hand? Draw some, look at it, train on it\n"
                "lockstep data make imagenet drawn --examples 2000\n"
                "lockstep data inspect imagenet:drawn --sheet sheet.png\n"
                "lockstep train resnet50 --data imagenet:drawn --classes 10\n",
    .options = options,
    .parts = parts,
};
