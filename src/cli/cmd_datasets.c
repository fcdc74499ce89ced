#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "data/dataset.h"

struct datasets_settings {
    const char *json;
};

static const struct option options[] = {
    OPTION_TEXT(datasets_settings, json, "json", .value = "FILE|-",
                .help = "write the list as JSON to FILE, or to standard output"),
    OPTION_END};

static int print_json(const char *target, struct error *err)
{
    struct json *list = json_array_create();
    for (const struct dataset_kind *const *kind = dataset_list(); *kind; kind++) {
        struct json *json = json_object_create();
        json_set_text(json, "name", (*kind)->name);
        json_set_text(json, "summary", (*kind)->summary);
        json_append(list, json);
    }
    int status = output_json(list, target, err);
    json_release(list);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    (void)parsed;
    const struct datasets_settings *wanted = settings;
    if (wanted->json)
        return print_json(wanted->json, err);
    struct strbuf text;
    strbuf_init(&text);
    for (const struct dataset_kind *const *kind = dataset_list(); *kind; kind++)
        strbuf_addf(&text, "%-12s  %s\n", (*kind)->name, (*kind)->summary);
    strbuf_add(&text, "\nWrite --data KIND, or --data KIND:DIR for a kind that reads files.\n");
    int status = output_text(&text, err);
    strbuf_release(&text);
    return status;
}

const struct command command_datasets = {
    .name = "datasets",
    .order = 110,
    .summary = "list the kinds of data that can be trained on",
    .description = "Each kind can stand in --data and --eval-data, as KIND or KIND:DIR.",
    .examples = "# what there is\n"
                "lockstep datasets\n"
                "# the same for a script\n"
                "lockstep datasets --json -\n",
    .options = options,
    .settings_size = sizeof(struct datasets_settings),
    .run = run,
};
