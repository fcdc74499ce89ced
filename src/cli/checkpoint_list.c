#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/checkpoint_parts.h"
#include "cli/output.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"

struct list_command {
    const char *directory, *json;
};

static const struct option options[] = {
    OPTION_ARGUMENT(list_command, directory, "DIR", .required = true, .aliases = "checkpoint-dir",
                    .help = "what --checkpoint-dir of `lockstep train` named"),
    CHECKPOINT_JSON_OPTION(list_command), OPTION_END};

struct row {
    char path[PATH_MAX];
    struct manifest manifest;
    struct error damage; /* code ERROR_NONE: none was seen */
    bool newest, best;
};

static int read_row(const struct list_command *wanted, struct arena *arena, int64_t step,
                    struct row *out, struct error *err)
{
    *out = (struct row){0};
    if (checkpoints_path(wanted->directory, step, out->path, err) < 0)
        return -1;
    if (checkpoint_read_manifest(out->path, arena, &out->manifest, &out->damage) < 0)
        out->manifest.step = step;
    return 0;
}

static int read_rows(const struct list_command *wanted, struct arena *arena, struct row **out,
                     int *count, struct error *err)
{
    int64_t *steps;
    if (checkpoint_parts_list(wanted->directory, arena, &steps, count, err) < 0)
        return -1;
    struct row *rows = ARENA_ARRAY(arena, struct row, *count);
    int best = -1, newest = -1;
    if (!rows)
        return error_set(err, ERROR_MEMORY, "no memory for %d checkpoints", *count);
    for (int i = 0; i < *count; i++) {
        if (read_row(wanted, arena, steps[i], &rows[i], err) < 0)
            return -1;
        double score = rows[i].damage.code ? NAN : manifest_score(&rows[i].manifest);
        if (!isnan(score) && (best < 0 || score > manifest_score(&rows[best].manifest)))
            best = i;
        newest = rows[i].damage.code ? newest : i;
    }
    if (newest >= 0)
        rows[newest].newest = true;
    if (best >= 0)
        rows[best].best = true;
    *out = rows;
    return 0;
}

static void print_row(const struct row *row)
{
    const struct manifest *manifest = &row->manifest;
    char when[48], accuracy[16] = "", loss[16] = "";
    printf("%12" PRId64, manifest->step);
    if (row->damage.code) {
        printf("  damaged: %s\n", row->damage.message);
        return;
    }
    if (manifest->evaluated && !isnan(manifest->accuracy))
        snprintf(accuracy, sizeof accuracy, "%.4f", manifest->accuracy);
    if (manifest->evaluated)
        snprintf(loss, sizeof loss, "%.4f", manifest->loss);
    printf("  %12" PRId64 "  %8s  %8s  %9.1f  %s%s%s\n", manifest->goal, loss, accuracy,
           (double)(manifest->data_bytes + manifest->index_bytes) / 1e6,
           checkpoint_parts_time(manifest->saved_at, when, sizeof when),
           row->newest ? "  newest" : "", row->best ? "  best" : "");
}

static struct json *row_json(const struct row *row)
{
    const struct manifest *manifest = &row->manifest;
    struct json *json = json_object_create();
    json_set_text(json, "path", row->path);
    json_set_integer(json, "step", manifest->step);
    if (row->damage.code) {
        json_set_text(json, "damage", row->damage.message);
        return json;
    }
    json_set_text(json, "model", manifest->model);
    json_set_integer(json, "goal", manifest->goal);
    json_set_number(json, "loss", manifest->evaluated ? manifest->loss : NAN);
    json_set_number(json, "accuracy", manifest->evaluated ? manifest->accuracy : NAN);
    json_set_integer(json, "bytes", (int64_t)(manifest->data_bytes + manifest->index_bytes));
    json_set_number(json, "saved_at", manifest->saved_at);
    json_set_bool(json, "newest", row->newest);
    json_set_bool(json, "best", row->best);
    return json;
}

static int write_json(const struct row *rows, int count, const char *target, struct error *err)
{
    struct json *json = json_object_create(), *list = json_array_create();
    for (int i = 0; i < count; i++)
        json_append(list, row_json(&rows[i]));
    json_set(json, "checkpoints", list);
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct list_command *wanted = given;
    struct row *rows = NULL;
    int count = 0;
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    struct arena *arena = arena_create();
    int status = read_rows(wanted, arena, &rows, &count, err);
    if (status == 0 && (!wanted->json || strcmp(wanted->json, "-") != 0)) {
        printf("%12s  %12s  %8s  %8s  %9s  saved\n", "step", "goal", "loss", "accuracy", "MB");
        for (int i = 0; i < count; i++)
            print_row(&rows[i]);
    }
    if (status == 0 && wanted->json)
        status = write_json(rows, count, wanted->json, err);
    arena_destroy(arena);
    return status;
}

const struct command command_checkpoint_list = {
    .name = "checkpoint list",
    .summary = "the checkpoints of a run, with their evaluations",
    .description = "One line per checkpoint: step, goal of the run, evaluation after that step, "
                   "size and time; the newest and the best are marked. Manifests and sizes are "
                   "looked at; `lockstep checkpoint verify` reads every byte.",
    .examples = "# what is there?\n"
                "lockstep checkpoint list run\n",
    .options = options,
    .settings_size = sizeof(struct list_command),
    .run = run,
};
