#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "cli/output.h"
#include "exec/dnn.h"

struct version_settings {
    const char *json;
};

static const struct option options[] = {
    OPTION_TEXT(version_settings, json, "json", .value = "FILE|-",
                .help = "write the versions as JSON to FILE, or to standard output"),
    OPTION_END};

static int print_json(const char *target, struct error *err)
{
    struct json *json = json_object_create();
    json_set_text(json, "version", LOCKSTEP_VERSION);
    json_set_text(json, "onednn", dnn_version());
    json_set_text(json, "compiler", __VERSION__);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int run(struct options *parsed, void *settings, struct error *err)
{
    (void)parsed;
    const struct version_settings *wanted = settings;
    if (wanted->json)
        return print_json(wanted->json, err);
    struct strbuf text;
    strbuf_init(&text);
    strbuf_addf(&text, "lockstep %s (oneDNN %s)\n", LOCKSTEP_VERSION, dnn_version());
    int status = output_text(&text, err);
    strbuf_release(&text);
    return status;
}

const struct command command_version = {
    .name = "version",
    .order = 130,
    .summary = "print the version of the program and of its kernel library",
    .description = "The kernel library is the one that is loaded now, which need not be the one "
                   "the program was built with.",
    .examples = "# for a person\n"
                "lockstep version\n"
                "# for a script\n"
                "lockstep version --json -\n",
    .options = options,
    .settings_size = sizeof(struct version_settings),
    .run = run,
};
