#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/checkpoint_parts.h"
#include "cli/output.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"

struct verify_command {
    const char *path, *json;
};

static const struct option options[] = {
    OPTION_ARGUMENT(verify_command, path, "PATH", .required = true,
                    .help = "a checkpoint, or a directory of them, which are all read"),
    CHECKPOINT_JSON_OPTION(verify_command), OPTION_END};

struct verdict {
    bool print;
    struct json *list;
    int whole, damaged;
};

static void judge(const char *path, bool whole, const struct error *damage, struct verdict *verdict)
{
    if (!whole && access(path, F_OK) < 0 && errno == ENOENT)
        return; /* the run that writes here has removed it meanwhile */
    verdict->whole += whole;
    verdict->damaged += !whole;
    if (verdict->print)
        printf("%s: %s\n", path, whole ? "whole" : damage->message);
    struct json *json = json_object_create();
    json_set_text(json, "path", path);
    json_set_bool(json, "whole", whole);
    if (!whole)
        json_set_text(json, "damage", damage->message);
    json_append(verdict->list, json);
}

static int verify_all(const char *directory, struct verdict *verdict, struct error *err)
{
    int64_t *steps;
    int count;
    char path[PATH_MAX];
    struct arena *arena = arena_create();
    int status = checkpoint_parts_list(directory, arena, &steps, &count, err);
    for (int i = 0; status == 0 && i < count; i++) {
        status = checkpoints_path(directory, steps[i], path, err);
        struct error damage = {0};
        if (status == 0)
            judge(path, checkpoints_check(directory, steps[i], &damage) == 0, &damage, verdict);
    }
    arena_destroy(arena);
    return status;
}

static int write_json(struct verdict *verdict, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    json_set_integer(json, "whole", verdict->whole);
    json_set_integer(json, "damaged", verdict->damaged);
    json_set(json, "checkpoints", verdict->list);
    verdict->list = NULL;
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

/* A directory of its own has no steps below it; a damaged one may lack its manifest. */
static bool is_one(const char *path)
{
    char manifest[PATH_MAX], index[PATH_MAX];
    snprintf(manifest, sizeof manifest, "%s/manifest.json", path);
    snprintf(index, sizeof index, "%s/model.index", path);
    return access(manifest, F_OK) == 0 || access(index, F_OK) == 0;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct verify_command *wanted = given;
    struct verdict verdict = {.print = !wanted->json || strcmp(wanted->json, "-") != 0};
    struct error damage = {0};
    int status = 0;
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    verdict.list = json_array_create();
    if (is_one(wanted->path))
        judge(wanted->path, checkpoint_verify(wanted->path, &damage) == 0, &damage, &verdict);
    else
        status = verify_all(wanted->path, &verdict, err);
    if (status == 0 && wanted->json)
        status = write_json(&verdict, wanted->json, err);
    json_release(verdict.list);
    return status == 0 && verdict.damaged ? STATUS_FAILED : status;
}

const struct command command_checkpoint_verify = {
    .name = "checkpoint verify",
    .summary = "read every byte of checkpoints and check their sums",
    .description = "Reads manifest, index and every tensor and compares their checksums; names "
                   "file, tensor and offset of what is damaged. The exit status is 1 then.",
    .examples = "# before a disk is trusted again\n"
                "lockstep checkpoint verify run\n",
    .options = options,
    .settings_size = sizeof(struct verify_command),
    .run = run,
};
