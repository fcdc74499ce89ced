#include <inttypes.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include "cli/data_parts.h"
#include "cli/output.h"
#include "data/sheet.h"
#include "data/survey.h"

enum { SHOWN_LABELS = 20, BAR = 30 };

struct inspect_command {
    const char *spec, *json, *sheet;
    int samples, threads;
    int64_t seed, examples;
};

static const struct option options[] = {
    OPTION_ARGUMENT(inspect_command, spec, "SPEC", .required = true, .aliases = "data",
                    .help = "KIND or KIND:DIR, as in --data of `lockstep train`"),
    OPTION_TEXT(inspect_command, sheet, "sheet", .value = "FILE",
                .help = "write a contact sheet of some pictures with their labels, as PNG"),
    OPTION_INT(inspect_command, samples, "samples", .initial = "49", .min = 1, .max = 2500,
               .help = "pictures on the sheet"),
    OPTION_LONG(inspect_command, seed, "seed", .initial = "1", OPTION_AT_LEAST(0),
                .help = "of the choice of pictures, and of kinds that are drawn"),
    OPTION_LONG(inspect_command, examples, "examples", OPTION_AT_LEAST(0), .initial = "0",
                .initial_note = "all",
                .help = "at most so many of each split, for kinds that are "
                        "drawn"),
    DATA_THREADS_OPTION(inspect_command),
    DATA_JSON_OPTION(inspect_command),
    OPTION_END};

static const char *const split_names[] = {"training", "evaluation"};

static double mean(const struct survey_range *range)
{
    return range->count ? range->sum / (double)range->count : 0;
}

/* --- for scripts ---------------------------------------------------------------------------- */

static struct json *range_json(const struct survey_range *range)
{
    struct json *json = json_object_create();
    json_set_number(json, "min", range->min);
    json_set_number(json, "mean", mean(range));
    json_set_number(json, "max", range->max);
    return json;
}

static struct json *labels_json(const struct survey_split *split)
{
    struct json *list = json_array_create();
    for (int i = 0; i < split->label_count; i++) {
        if (split->labels[i].count == 0)
            continue;
        struct json *json = json_object_create();
        json_set_integer(json, "label", i);
        if (split->labels[i].name[0])
            json_set_text(json, "name", split->labels[i].name);
        json_set_integer(json, "count", split->labels[i].count);
        json_append(list, json);
    }
    return list;
}

static struct json *columns_json(const struct survey_split *split)
{
    struct json *list = json_array_create();
    for (int i = 0; i < split->column_count; i++) {
        struct json *json = range_json(&split->columns[i].range);
        json_set_text(json, "name", split->columns[i].name);
        json_set_integer(json, "missing", split->columns[i].missing);
        json_append(list, json);
    }
    return list;
}

static struct json *split_json(const struct survey_split *split)
{
    struct json *json = json_object_create();
    json_set_integer(json, "examples", split->examples);
    if (split->files) {
        json_set_integer(json, "files", split->files);
        json_set_integer(json, "bytes", (int64_t)split->bytes);
    }
    if (split->encoded.count) {
        json_set_integer(json, "jpeg", split->formats[PICTURE_JPEG]);
        json_set_integer(json, "png", split->formats[PICTURE_PNG]);
        json_set_integer(json, "grey", split->channels[1]);
        json_set_integer(json, "four_channels", split->channels[4]);
        json_set(json, "width", range_json(&split->width));
        json_set(json, "height", range_json(&split->height));
        json_set(json, "encoded_bytes", range_json(&split->encoded));
    }
    if (split->label_count)
        json_set(json, "labels", labels_json(split));
    if (split->column_count)
        json_set(json, "columns", columns_json(split));
    return json;
}

static int write_json(const struct survey *survey, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    for (int i = 0; i < 2; i++)
        if (survey->splits[i].there)
            json_set(json, split_names[i], split_json(&survey->splits[i]));
    json_set_integer(json, "damaged", survey->damaged);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

/* --- for people ----------------------------------------------------------------------------- */

static void add_pictures(struct strbuf *out, const struct survey_split *split)
{
    char bytes[32];
    strbuf_addf(out,
                "  %" PRId64 " JPEG, %" PRId64 " PNG; %" PRId64 " grey, %" PRId64
                " of four channels\n",
                split->formats[PICTURE_JPEG], split->formats[PICTURE_PNG], split->channels[1],
                split->channels[4]);
    strbuf_addf(out, "  width %.0f to %.0f, mean %.0f; height %.0f to %.0f, mean %.0f; %s each\n",
                split->width.min, split->width.max, mean(&split->width), split->height.min,
                split->height.max, mean(&split->height),
                data_bytes_text(mean(&split->encoded), bytes, sizeof bytes));
}

static void add_label(struct strbuf *out, const struct survey_split *split, int label,
                      int64_t largest)
{
    int64_t count = split->labels[label].count;
    char bar[BAR + 1] = "";
    memset(bar, '=', (size_t)(count * BAR / largest));
    bar[count * BAR / largest] = '\0';
    strbuf_addf(out, "  %6d  %-24.24s %8" PRId64 "  %s\n", label, split->labels[label].name, count,
                bar);
}

static void add_labels(struct strbuf *out, const struct survey_split *split)
{
    int shown = 0, distinct = 0;
    int64_t largest = 1, smallest = INT64_MAX;
    for (int i = 0; i < split->label_count; i++) {
        int64_t count = split->labels[i].count;
        distinct += count > 0;
        largest = count > largest ? count : largest;
        smallest = count > 0 && count < smallest ? count : smallest;
    }
    strbuf_addf(out, "  %d labels, of %" PRId64 " to %" PRId64 " examples\n", distinct, smallest,
                largest);
    for (int i = 0; i < split->label_count && shown < SHOWN_LABELS; i++)
        if (split->labels[i].count > 0) {
            add_label(out, split, i, largest);
            shown++;
        }
    if (distinct > shown)
        strbuf_addf(out, "  ... and %d more: --json has all\n", distinct - shown);
}

static void add_columns(struct strbuf *out, const struct survey_split *split)
{
    for (int i = 0; i < split->column_count; i++) {
        const struct survey_column *column = &split->columns[i];
        strbuf_addf(out, "  %-16s", column->name);
        if (column->range.max > column->range.min || column->range.sum != 0)
            strbuf_addf(out, "  %12.6g to %12.6g, mean %12.6g", column->range.min,
                        column->range.max, mean(&column->range));
        else if (!column->missing)
            strbuf_add(out, "  never missing");
        if (column->missing)
            strbuf_addf(out, "  missing %.1f %%",
                        100 * (double)column->missing / (double)split->examples);
        strbuf_add_char(out, '\n');
    }
}

static void add_split(struct strbuf *out, const struct survey_split *split, const char *name)
{
    char bytes[32];
    strbuf_addf(out, "%s: %" PRId64 " examples", name, split->examples);
    if (split->files)
        strbuf_addf(out, ", %s in %d file%s",
                    data_bytes_text((double)split->bytes, bytes, sizeof bytes), split->files,
                    split->files == 1 ? "" : "s");
    strbuf_add_char(out, '\n');
    if (split->encoded.count)
        add_pictures(out, split);
    if (split->label_count)
        add_labels(out, split);
    if (split->column_count)
        add_columns(out, split);
}

static int print(const struct survey *survey, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text);
    for (int i = 0; i < 2; i++)
        if (survey->splits[i].there)
            add_split(&text, &survey->splits[i], split_names[i]);
    if (survey->problem_count)
        strbuf_addf(&text,
                    "%" PRId64 " damaged, the first: %s\n`lockstep data verify` names them all.\n",
                    survey->damaged, survey->problems[0].message);
    int status = output_text(&text, err);
    strbuf_release(&text);
    return status;
}

static int write_sheet(const struct survey *survey, const char *path, struct error *err)
{
    uint8_t *png;
    size_t bytes;
    if (sheet_draw(survey, &png, &bytes, err) < 0)
        return -1;
    int status = file_write_atomic(path, png, bytes, err);
    memory_free(png);
    return status;
}

static int tell(const struct survey *survey, const struct inspect_command *wanted,
                struct error *err)
{
    if (wanted->sheet && write_sheet(survey, wanted->sheet, err) < 0)
        return -1;
    if ((!wanted->json || strcmp(wanted->json, "-") != 0) && print(survey, err) < 0)
        return -1;
    return wanted->json ? write_json(survey, wanted->json, err) : 0;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct inspect_command *wanted = given;
    struct survey_options survey_options = {.spec = wanted->spec,
                                            .samples = wanted->sheet ? wanted->samples : 0,
                                            .examples = wanted->examples,
                                            .seed = (uint64_t)wanted->seed};
    struct survey *survey;
    struct task_line line;
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    struct work work = data_work_begin(&line, wanted->threads, "looking", NULL);
    int status = survey_run(&survey_options, &work, &survey, err);
    data_work_end(&line);
    if (status < 0)
        return -1;
    status = tell(survey, wanted, err);
    survey_destroy(survey);
    return status;
}

const struct command command_data_inspect = {
    .name = "data inspect",
    .summary = "what a set holds: counts, labels, sizes, a contact sheet",
    .description = "Counts the examples of each split, how often each label occurs, how large the "
                   "pictures are, or what range the numbers have. Of pictures only the headers are "
                   "read; `lockstep data verify` looks at every pixel.",
    .examples = "# what is in there?\n"
                "lockstep data inspect imagenet:shards\n"
                "# a look at some pictures\n"
                "lockstep data inspect images:pictures --sheet sheet.png --samples 100\n",
    .options = options,
    .settings_size = sizeof(struct inspect_command),
    .run = run,
};
