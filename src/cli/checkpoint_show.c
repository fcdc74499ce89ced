#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/checkpoint_parts.h"
#include "cli/output.h"
#include "store/bundle.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"

struct show_command {
    const char *path, *json;
    bool tensors;
};

static const struct option options[] = {
    OPTION_ARGUMENT(show_command, path, "PATH", .required = true,
                    .help = "a checkpoint, or a directory of them, whose newest is taken"),
    OPTION_FLAG(show_command, tensors, "tensors", .help = "list every tensor, too"),
    CHECKPOINT_JSON_OPTION(show_command), OPTION_END};

/* What there is to tell; the arena's and the bundle's. */
struct shown {
    struct arena *arena;
    char path[PATH_MAX];
    struct manifest manifest;
    struct bundle *bundle;
};

static int open_shown(const struct show_command *wanted, struct shown *out, struct error *err)
{
    out->arena = arena_create();
    if (!out->arena)
        return error_set(err, ERROR_MEMORY, "no memory to look at a checkpoint");
    if (checkpoints_resolve(wanted->path, out->path, err) < 0 ||
        checkpoint_read_manifest(out->path, out->arena, &out->manifest, err) < 0)
        return -1;
    return checkpoint_open_bundle(out->path, &out->bundle, err);
}

static void print(const struct shown *shown, bool tensors)
{
    const struct manifest *manifest = &shown->manifest;
    char text[96];
    printf("%s\n", shown->path);
    printf("  model        %s\n", manifest->model);
    printf("  step         %" PRId64 " of %" PRId64 "\n", manifest->step, manifest->goal);
    printf("  epoch        %" PRId64 ", step %" PRId64 " of %" PRId64 " in it\n", manifest->epoch,
           manifest->epoch_step, manifest->steps_per_epoch);
    if (manifest->evaluated)
        printf("  evaluation   loss %.4f, accuracy %.4f\n", manifest->loss, manifest->accuracy);
    printf("  saved        %s by lockstep %s\n",
           checkpoint_parts_time(manifest->saved_at, text, sizeof text), manifest->version);
    printf("  fingerprint  %016" PRIx64 "\n", manifest->fingerprint);
    printf("  tensors      %d, %.1f MB\n", bundle_count(shown->bundle),
           (double)manifest->data_bytes / 1e6);
    for (int i = 0; i < manifest->setting_count; i++)
        printf("  --%s=%s\n", manifest->settings[i].name, manifest->settings[i].value);
    for (int i = 0; tensors && i < bundle_count(shown->bundle); i++) {
        const struct bundle_entry *entry = bundle_entry(shown->bundle, i);
        printf("%s %s %s\n", entry->name, dtype_name(entry->dtype),
               shape_text(&entry->shape, text, sizeof text));
    }
}

static struct json *tensor_json(const struct bundle_entry *entry)
{
    struct json *json = json_object_create(), *shape = json_array_create();
    for (int d = 0; d < entry->shape.ndim; d++)
        json_append_integer(shape, entry->shape.dim[d]);
    json_set_text(json, "name", entry->name);
    json_set_text(json, "dtype", dtype_name(entry->dtype));
    json_set(json, "shape", shape);
    json_set_integer(json, "offset", (int64_t)entry->offset); /* in the data file */
    json_set_integer(json, "bytes", (int64_t)entry->bytes);
    return json;
}

static int write_json(const struct shown *shown, const char *target, struct error *err)
{
    const struct manifest *manifest = &shown->manifest;
    struct json *json = json_object_create(), *settings = json_object_create();
    struct json *tensors = json_array_create();
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, manifest->fingerprint);
    for (int i = 0; i < manifest->setting_count; i++)
        json_set_text(settings, manifest->settings[i].name, manifest->settings[i].value);
    for (int i = 0; i < bundle_count(shown->bundle); i++)
        json_append(tensors, tensor_json(bundle_entry(shown->bundle, i)));
    json_set_text(json, "path", shown->path);
    json_set_text(json, "model", manifest->model);
    json_set_integer(json, "step", manifest->step);
    json_set_integer(json, "goal", manifest->goal);
    json_set_integer(json, "steps_per_epoch", manifest->steps_per_epoch);
    json_set_number(json, "loss", manifest->evaluated ? manifest->loss : NAN);
    json_set_number(json, "accuracy", manifest->evaluated ? manifest->accuracy : NAN);
    json_set_number(json, "saved_at", manifest->saved_at);
    json_set_text(json, "fingerprint", fingerprint);
    json_set_text(json, "version", manifest->version);
    json_set(json, "settings", settings);
    json_set(json, "tensors", tensors);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct show_command *wanted = given;
    struct shown shown = {0};
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    int status = open_shown(wanted, &shown, err);
    if (status == 0 && (!wanted->json || strcmp(wanted->json, "-") != 0))
        print(&shown, wanted->tensors);
    if (status == 0 && wanted->json)
        status = write_json(&shown, wanted->json, err);
    bundle_close(shown.bundle);
    arena_destroy(shown.arena);
    return status;
}

const struct command command_checkpoint_show = {
    .name = "checkpoint show",
    .summary = "what a checkpoint holds, and which run it belongs to",
    .description =
        "Prints the manifest of a checkpoint: model, step, place in the data, evaluation "
        "and the options of its run; with --tensors every tensor's name, type and shape.",
    .examples = "# which settings led to the best one?\n"
                "lockstep checkpoint show run/best\n",
    .options = options,
    .settings_size = sizeof(struct show_command),
    .run = run,
};
