#include <inttypes.h>
#include <limits.h>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/checkpoint_parts.h"
#include "cli/output.h"
#include "store/bundle.h"
#include "store/checkpoint.h"
#include "store/checkpoints.h"
#include "tensor/compare.h"

enum { MOST_LINES = 50 };

struct diff_command {
    const char *a, *b, *json;
};

static const struct option options[] = {
    OPTION_ARGUMENT(diff_command, a, "A", .required = true,
                    .help = "a checkpoint, or a directory of them, whose newest is taken"),
    OPTION_ARGUMENT(diff_command, b, "B", .required = true, .help = "the other"),
    CHECKPOINT_JSON_OPTION(diff_command), OPTION_END};

struct diff {
    const char *paths[2];
    struct bundle *bundles[2];
    struct slab rooms[2];
    struct json *list;
    bool print;
    int compared, different;
};

static void report(struct diff *diff, const char *name, const char *what, double largest)
{
    if (diff->print && diff->different < MOST_LINES)
        printf("%s: %s\n", name, what);
    struct json *json = json_object_create();
    json_set_text(json, "tensor", name);
    json_set_text(json, "difference", what);
    if (largest >= 0)
        json_set_number(json, "largest", largest);
    json_append(diff->list, json);
    diff->different++;
}

static int read_both(struct diff *diff, const int index[2], struct tensor out[2], struct error *err)
{
    for (int i = 0; i < 2; i++) {
        const struct bundle_entry *entry = bundle_entry(diff->bundles[i], index[i]);
        out[i] = (struct tensor){entry->dtype, entry->shape, diff->rooms[i].data};
        if (bundle_read(diff->bundles[i], index[i], &out[i], err) < 0)
            return -1;
    }
    return 0;
}

static void compare_numbers(struct diff *diff, const char *name, const struct tensor both[2])
{
    char what[160];
    size_t bytes = tensor_bytes(&both[0]);
    if (memcmp(both[0].data, both[1].data, bytes) == 0)
        return;
    if (both[0].dtype != DTYPE_F32) {
        report(diff, name, "other values", -1);
        return;
    }
    const float *a = both[0].data, *b = both[1].data;
    size_t count = bytes / sizeof(float), others = 0;
    struct difference found = compare_floats(a, b, count);
    for (size_t i = 0; i < count; i++)
        others += memcmp(&a[i], &b[i], sizeof(float)) != 0;
    snprintf(what, sizeof what, "%zu of %zu numbers differ, most at %zu: %.9g and %.9g (by %.3g)",
             others, count, found.index, (double)a[found.index], (double)b[found.index],
             found.largest);
    report(diff, name, what, found.largest);
}

static int compare_tensor(struct diff *diff, const int index[2], struct error *err)
{
    const struct bundle_entry *a = bundle_entry(diff->bundles[0], index[0]);
    const struct bundle_entry *b = bundle_entry(diff->bundles[1], index[1]);
    struct tensor both[2];
    char what[240], shapes[2][96];
    diff->compared++;
    if (a->dtype != b->dtype || !shape_equal(&a->shape, &b->shape)) {
        snprintf(what, sizeof what, "%s %s and %s %s", dtype_name(a->dtype),
                 shape_text(&a->shape, shapes[0], sizeof shapes[0]), dtype_name(b->dtype),
                 shape_text(&b->shape, shapes[1], sizeof shapes[1]));
        report(diff, a->name, what, -1);
        return 0;
    }
    if (read_both(diff, index, both, err) < 0)
        return -1;
    compare_numbers(diff, a->name, both);
    return 0;
}

/* Tensors of `here` that the other lacks. */
static void report_missing(struct diff *diff, int here)
{
    char what[PATH_MAX + 16];
    snprintf(what, sizeof what, "only in %s", diff->paths[here]);
    for (int i = 0; i < bundle_count(diff->bundles[here]); i++) {
        const char *name = bundle_entry(diff->bundles[here], i)->name;
        if (bundle_find(diff->bundles[!here], name) >= 0)
            continue;
        diff->compared++;
        report(diff, name, what, -1);
    }
}

static int make_rooms(struct diff *diff, struct error *err)
{
    for (int side = 0; side < 2; side++) {
        uint64_t largest = 1;
        for (int i = 0; i < bundle_count(diff->bundles[side]); i++) {
            uint64_t bytes = bundle_entry(diff->bundles[side], i)->bytes;
            largest = bytes > largest ? bytes : largest;
        }
        if (slab_create(largest, "comparing checkpoints", &diff->rooms[side], err) < 0)
            return -1;
    }
    return 0;
}

static int compare_all(struct diff *diff, struct error *err)
{
    report_missing(diff, 0);
    report_missing(diff, 1);
    for (int i = 0; i < bundle_count(diff->bundles[0]); i++) {
        int other = bundle_find(diff->bundles[1], bundle_entry(diff->bundles[0], i)->name);
        if (other >= 0 && compare_tensor(diff, (int[2]){i, other}, err) < 0)
            return -1;
    }
    return 0;
}

static int write_json(struct diff *diff, const char *target, struct error *err)
{
    struct json *json = json_object_create();
    json_set_text(json, "a", diff->paths[0]);
    json_set_text(json, "b", diff->paths[1]);
    json_set_integer(json, "compared", diff->compared);
    json_set_integer(json, "different", diff->different);
    json_set(json, "differences", diff->list);
    diff->list = NULL;
    int status = output_json(json, target, err);
    json_release(json);
    return status;
}

static void print_sum(const struct diff *diff)
{
    if (diff->different > MOST_LINES)
        printf("... and %d more\n", diff->different - MOST_LINES);
    if (diff->different)
        printf("%d of %d tensors differ\n", diff->different, diff->compared);
    else
        printf("all %d tensors are alike to the last bit\n", diff->compared);
}

static int run(struct options *parsed, void *given, struct error *err)
{
    (void)parsed;
    const struct diff_command *wanted = given;
    char a[PATH_MAX], b[PATH_MAX];
    struct diff diff = {.paths = {a, b}, .print = !wanted->json || strcmp(wanted->json, "-") != 0};
    if (output_json_prepare(wanted->json, err) < 0)
        return -1;
    diff.list = json_array_create();
    int status = -1;
    if (checkpoints_resolve(wanted->a, a, err) == 0 &&
        checkpoints_resolve(wanted->b, b, err) == 0 &&
        checkpoint_open_bundle(a, &diff.bundles[0], err) == 0 &&
        checkpoint_open_bundle(b, &diff.bundles[1], err) == 0 && make_rooms(&diff, err) == 0)
        status = compare_all(&diff, err);
    if (status == 0 && diff.print)
        print_sum(&diff);
    if (status == 0 && wanted->json)
        status = write_json(&diff, wanted->json, err);
    for (int i = 0; i < 2; i++) {
        slab_release(&diff.rooms[i]);
        bundle_close(diff.bundles[i]);
    }
    json_release(diff.list);
    return status == 0 && diff.different ? STATUS_FAILED : status;
}

const struct command command_checkpoint_diff = {
    .name = "checkpoint diff",
    .summary = "compare two checkpoints bit by bit",
    .description = "Compares every tensor: weights, statistics, what the optimizer keeps, and the "
                   "step. The exit status is 0 when all are alike to the last bit; else 1, and the "
                   "tensors that differ are named, with the largest difference.",
    .examples = "# is stopping and resuming the same as not stopping?\n"
                "lockstep checkpoint diff run-in-one-go run-with-stops\n",
    .options = options,
    .settings_size = sizeof(struct diff_command),
    .run = run,
};
