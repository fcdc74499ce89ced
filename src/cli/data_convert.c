#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/data_parts.h"
#include "cli/output.h"
#include "data/convert.h"
#include "data/dataset.h"

struct convert_command {
    const char *source, *target;
    const char *labels, *validation_labels, *names, *boxes, *packing, *json;
    int train_shards, validation_shards, resize, quality, threads;
    int64_t seed, skip_bad;
    bool check;
};

static const char *const packings[] = {"none", "gzip", "zlib", NULL}; /* as enum tfrecord_packing */

static const struct option options[] = {
    OPTION_ARGUMENT(convert_command, source, "SRC", .required = true, .value = "DIR|FILE",
                    .aliases = "raw-data-dir",
                    .help =
                        "class folders (train/CLASS/*.jpg and val/CLASS/*.jpg, or CLASS/*.jpg), "
                        "a tar file, or a directory of ILSVRC2012_img_train.tar and "
                        "ILSVRC2012_img_val.tar"),
    OPTION_ARGUMENT(convert_command, target, "DST", .required = true, .value = "DIR",
                    .aliases = "output-directory local-scratch-dir",
                    .help = "directory for train-*-of-* and validation-*-of-*; made if need be"),
    OPTION_SECTION("Pictures"),
    OPTION_INT(convert_command, resize, "resize", .letter = 'r', .value = "PIXELS", .initial = "0",
               .initial_note = "as they are", OPTION_AT_LEAST(0),
               .help = "make the short side this long, of pictures where it is longer"),
    OPTION_INT(convert_command, quality, "quality", .letter = 'Q', .initial = "85", .min = 1,
               .max = 100,
               .help = "of JPEGs that are encoded anew: resized, PNG or CMYK; others "
                       "keep their bytes"),
    OPTION_FLAG(convert_command, check, "check",
                .help = "decode every picture, so that one that is cut off stops the conversion; "
                        "otherwise only headers of those that keep their bytes are read"),
    OPTION_LONG(convert_command, skip_bad, "skip-bad-records", .min = 0, .max = 1000000,
                .initial = "0", .value = "N",
                .help = "leave out up to this many pictures that cannot be used, naming each; 0 "
                        "stops at the first"),
    OPTION_SECTION("Labels"),
    OPTION_TEXT(convert_command, labels, "labels", .value = "FILE", .aliases = "labels-file",
                .initial_note = "classes sorted by name",
                .help = "the order of classes, one synset or folder name per line; the first is "
                        "label 1"),
    OPTION_TEXT(convert_command, validation_labels, "validation-labels", .value = "FILE",
                .help = "for a flat ILSVRC2012_img_val.tar: the class of each picture, one per "
                        "line, in order of the pictures' names"),
    OPTION_TEXT(convert_command, names, "names", .value = "FILE",
                .aliases = "imagenet-metadata-file",
                .help = "what classes are called: lines of synset, tab, text"),
    OPTION_TEXT(convert_command, boxes, "boxes", .value = "FILE", .aliases = "bounding-box-file",
                .help = "lines of PICTURE,XMIN,YMIN,XMAX,YMAX, in parts of the sides"),
    OPTION_SECTION("Shards"),
    OPTION_INT(convert_command, train_shards, "train-shards", OPTION_AT_LEAST(0), .initial = "0",
               .initial_note = "one for 1250 pictures, at most 1024", .help = "training shards"),
    OPTION_INT(convert_command, validation_shards, "validation-shards", OPTION_AT_LEAST(0),
               .initial = "0", .initial_note = "one for 390 pictures, at most 128",
               .help = "validation shards"),
    OPTION_CHOICE(convert_command, packing, "packing", .choices = packings, .initial = "none",
                  .value = "HOW", .help = "how each shard is packed as a whole"),
    OPTION_LONG(convert_command, seed, "shuffle-seed", .initial = "1", OPTION_AT_LEAST(0),
                .help = "of the order in which pictures are dealt to the shards"),
    OPTION_SECTION("Running"),
    DATA_THREADS_OPTION(convert_command),
    DATA_JSON_OPTION(convert_command),
    OPTION_REFUSED("train-directory", .value = "DIR", .aliases = "validation-directory",
                   .help = "write SRC, the directory above both"),
    OPTION_REFUSED("gcs-upload", .accepts = "false 0", .help = "shards are written to DST only"),
    OPTION_REFUSED("gcs-output-path", .value = "PATH", .help = "shards are written to DST only"),
    OPTION_REFUSED("imagenet-username", .value = "NAME", .aliases = "imagenet-access-key",
                   .help = "this program downloads nothing: give it the tar files"),
    OPTION_END};

static int write_json(const struct convert_report *report, double seconds, const char *target,
                      struct error *err)
{
    struct json *json = json_object_create();
    if (!json)
        return error_set(err, ERROR_MEMORY, "no memory for the JSON output");
    json_set_integer(json, "classes", report->classes);
    json_set_integer(json, "train_pictures", report->pictures[SPLIT_TRAIN]);
    json_set_integer(json, "validation_pictures", report->pictures[SPLIT_EVALUATE]);
    json_set_integer(json, "train_shards", report->shards[SPLIT_TRAIN]);
    json_set_integer(json, "validation_shards", report->shards[SPLIT_EVALUATE]);
    json_set_integer(json, "kept_shards", report->kept[SPLIT_TRAIN] + report->kept[SPLIT_EVALUATE]);
    json_set_integer(json, "encoded_anew", report->encoded_anew);
    json_set_integer(json, "bad_records", report->left_out);
    json_set_integer(json, "written_bytes", (int64_t)report->bytes);
    json_set_number(json, "seconds", seconds);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static void print(const struct convert_report *report, const char *target, double seconds)
{
    char bytes[32];
    static const char *const names[] = {"training", "validation"};
    for (int i = 0; i < 2; i++)
        if (report->shards[i])
            printf("%" PRId64 " %s pictures in %d shards%s\n", report->pictures[i], names[i],
                   report->shards[i],
                   report->kept[i] == report->shards[i] ? ", which were there already"
                   : report->kept[i]                    ? ", some of which were there already"
                                                        : "");
    if (report->left_out)
        printf("%" PRId64 " of them were bad and left out\n", report->left_out);
    printf("%d classes; %" PRId64 " pictures encoded anew; %s written to %s in %.1f s\n",
           report->classes, report->encoded_anew,
           data_bytes_text((double)report->bytes, bytes, sizeof bytes), target, seconds);
}

static struct convert_settings settings_of(const struct convert_command *wanted)
{
    struct convert_settings settings = {
        .source = wanted->source,
        .target = wanted->target,
        .labels = wanted->labels,
        .validation_labels = wanted->validation_labels,
        .names = wanted->names,
        .boxes = wanted->boxes,
        .shards = {wanted->train_shards, wanted->validation_shards},
        .resize = wanted->resize,
        .quality = wanted->quality,
        .check = wanted->check,
        .skip_bad = wanted->skip_bad,
        .seed = (uint64_t)wanted->seed,
    };
    while (strcmp(packings[settings.packing], wanted->packing) != 0)
        settings.packing++;
    return settings;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct convert_command *wanted = given;
    struct convert_settings settings = settings_of(wanted);
    struct convert_report report;
    struct task_line line;
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    double start = clock_seconds();
    struct work work = data_work_begin(&line, wanted->threads, "converting", "pictures");
    int status = convert_run(&settings, &work, &report, err);
    data_work_end(&line);
    if (status < 0)
        return -1;
    double seconds = clock_seconds() - start;
    if (!wanted->json || strcmp(wanted->json, "-") != 0)
        print(&report, wanted->target, seconds);
    return wanted->json ? write_json(&report, seconds, wanted->json, err) : 0;
}

const struct command command_data_convert = {
    .name = "data convert",
    .summary = "pictures in folders or tar files to TFRecord shards",
    .description =
        "Writes the shards that imagenet:DIR (and TensorFlow) reads, each record with the features "
        "of the usual ImageNet scripts. Pictures are shuffled over the shards of their split, so "
        "that each shard is a sample of all classes. Archives inside archives are read where they "
        "lie; nothing is unpacked to the disk.\n\n"
        "A shard appears when it is whole. A run that was ended goes on where it was when it is "
        "repeated; with other settings it is refused, by what convert.json in DST remembers.",
    .examples = "# folders\n"
                "lockstep data convert pictures shards\n"
                "# ImageNet as it is handed out, made smaller\n"
                "lockstep data convert ILSVRC2012 shards --resize 480 --validation-labels FILE\n",
    .options = options,
    .settings_size = sizeof(struct convert_command),
    .run = run,
};
