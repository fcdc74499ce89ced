#include "cli/run_facts.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/error.h"
#include "cli/watchers.h"
#include "comm/comm.h"
#include "exec/plan.h"

/* --- settings -------------------------------------------------------------------------------- */

static const char *bytes_text(struct arena *arena, size_t bytes)
{
    static const char units[] = "KMGT";
    int unit = -1;
    while (bytes && bytes % 1024 == 0 && units[unit + 1]) {
        bytes /= 1024;
        unit++;
    }
    return unit < 0 ? arena_format(arena, "%zu", bytes)
                    : arena_format(arena, "%zu%c", bytes, units[unit]);
}

const char *run_setting_text(const struct option *option, const void *settings, struct arena *arena)
{
    const void *field = (const char *)settings + option->offset;
    switch (option->type) {
    case OPTION_IS_FLAG:
        return *(const bool *)field ? "true" : "false";
    case OPTION_IS_INT:
        return arena_format(arena, "%d", *(const int *)field);
    case OPTION_IS_LONG:
        return arena_format(arena, "%" PRId64, *(const int64_t *)field);
    case OPTION_IS_NUMBER:
        return arena_format(arena, "%.6g", *(const double *)field);
    case OPTION_IS_SECONDS:
        return arena_format(arena, "%.6gs", *(const double *)field);
    case OPTION_IS_BYTES:
        return bytes_text(arena, *(const size_t *)field);
    case OPTION_IS_TEXT:
    case OPTION_IS_CHOICE:
    case OPTION_IS_ARGUMENT:
        return *(const char *const *)field;
    default:
        return NULL;
    }
}

static const char *source_text(enum option_source source)
{
    switch (source) {
    case OPTION_FROM_ARGUMENTS:
        return "command line";
    case OPTION_FROM_ENVIRONMENT:
        return "environment";
    case OPTION_FROM_RECIPE:
        return "recipe";
    default:
        return "default";
    }
}

static const char *value_of(const struct options *options, const struct option *row,
                            struct arena *arena)
{
    enum option_source source = (enum option_source)options->sources[row - options->table];
    const char *value = NULL;
    if (source > OPTION_FROM_TABLE || (source == OPTION_FROM_TABLE && !row->initial_note))
        value = run_setting_text(row, options->settings, arena);
    return value ? value : row->initial_note; /* what it means when nobody said anything */
}

static void list_settings(const struct options *options, struct arena *arena,
                          struct record_facts *out)
{
    struct record_setting *settings = ARENA_ARRAY(arena, struct record_setting, OPTIONS_MAX);
    const char *section = "";
    for (const struct option *row = options->table; settings && row->type != OPTION_IS_END; row++) {
        if (row->type == OPTION_IS_SECTION)
            section = row->name;
        const char *value = value_of(options, row, arena);
        if (!value)
            continue;
        enum option_source source = (enum option_source)options->sources[row - options->table];
        settings[out->setting_count++] = (struct record_setting){
            .section = section, .name = row->name, .value = value, .source = source_text(source)};
    }
    out->settings = settings;
}

/* --- memory and layers ----------------------------------------------------------------------- */

static void list_memory(const struct plan *plan, struct arena *arena, struct record_facts *out)
{
    struct plan_memory memory;
    plan_memory(plan, &memory);
    const struct record_memory classes[] = {
        {"parameters", (double)memory.parameters},
        {"gradients", (double)memory.gradients},
        {"optimizer slots", (double)memory.slots},
        {"saved for backward", (double)memory.saved},
        {"other activations",
         (double)(memory.peak > memory.saved ? memory.peak - memory.saved : 0)},
    };
    struct record_memory *copy = arena_take(arena, sizeof classes);
    if (!copy)
        return;
    memcpy(copy, classes, sizeof classes);
    out->memory = copy;
    out->memory_count = (int)(sizeof classes / sizeof *classes);
}

static double layer_seconds(const void *plan, int index)
{
    struct plan_step_info info = plan_step(plan, index);
    return info.runs ? info.seconds / info.runs : 0;
}

static void list_layers(const struct plan *plan, struct arena *arena, struct record_facts *out)
{
    int count = plan_step_count(plan);
    struct record_layer *layers = ARENA_ARRAY(arena, struct record_layer, count + 1);
    for (int i = 0; layers && i < count; i++) {
        struct plan_step_info info = plan_step(plan, i);
        layers[i] = (struct record_layer){.node = info.node,
                                          .op = info.op,
                                          .pass = info.pass,
                                          .kernel = info.kernel,
                                          .reorder = info.reorder,
                                          .bytes = (double)info.bytes,
                                          .flops = info.flops};
    }
    out->layers = layers;
    out->layer_count = layers ? count : 0;
    out->layer_seconds = layer_seconds;
    out->layer_context = plan;
}

/* --- ranks ----------------------------------------------------------------------------------- */

static int list_ranks(const struct comm *comm, struct arena *arena, struct record_facts *out)
{
    int count = comm ? comm_size(comm) : 1;
    if (count < 2)
        return 0;
    const char **hosts = ARENA_ARRAY(arena, const char *, count);
    for (int r = 0; hosts && r < count; r++)
        hosts[r] = comm_host(comm, r);
    out->hosts = hosts;
    out->ranks = count;
    return hosts ? 0 : -1;
}

int run_facts(const struct watchers_run *run, struct arena *arena, struct record_facts *out,
              struct error *err)
{
    *out = (struct record_facts){.version = LOCKSTEP_VERSION,
                                 .command = run->command,
                                 .model = run->model,
                                 .data = run->data,
                                 .total_steps = run->total_steps,
                                 .batch = run->batch,
                                 .threads = run->threads};
    list_settings(run->options, arena, out);
    list_memory(run->plan, arena, out);
    list_layers(run->plan, arena, out);
    if (list_ranks(run->comm, arena, out) < 0 || !out->settings || !out->memory || !out->layers)
        return error_set(err, ERROR_MEMORY, "no memory for the facts of the run");
    return 0;
}
