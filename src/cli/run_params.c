#include "cli/run_params.h"

#include <inttypes.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "cli/options.h"
#include "cli/watchers.h"

struct list {
    struct arena *memory;
    struct mlflow_param *params; /* [capacity] */
    int count, capacity;
    bool failed;
};

static void add(struct list *list, const char *name, const char *value)
{
    char *copy = arena_copy_text(list->memory, name);
    const char *text = arena_copy_text(list->memory, value);
    list->failed |= !copy || !text;
    if (list->failed || list->count == list->capacity)
        return;
    for (char *at = copy; *at; at++)
        if (*at == '-')
            *at = '_';
    for (int i = 0; i < list->count; i++) /* what was resolved before stands */
        if (strcmp(list->params[i].name, copy) == 0)
            return;
    list->params[list->count++] = (struct mlflow_param){.name = copy, .value = text};
}

static void add_integer(struct list *list, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    add(list, name, text);
}

static void add_options(struct list *list, const struct options *options)
{
    struct strbuf value;
    strbuf_init(&value);
    for (int i = 0; options->table[i].type != OPTION_IS_END; i++) {
        const struct option *row = &options->table[i];
        if (row->type == OPTION_IS_SECTION || row->type == OPTION_IS_REFUSED ||
            row->type == OPTION_IS_ARGUMENT || options->sources[i] == OPTION_FROM_NOTHING)
            continue;
        strbuf_clear(&value);
        option_text(row, options->settings, &value);
        list->failed |= value.failed;
        if (value.length)
            add(list, row->name, value.text);
    }
    strbuf_release(&value);
}

int run_params(const struct watchers_run *run, struct arena *memory, struct mlflow_param **out)
{
    enum { RESOLVED = 5 };
    struct list list = {.memory = memory, .capacity = OPTIONS_MAX + RESOLVED};
    list.params = ARENA_ARRAY(memory, struct mlflow_param, list.capacity);
    list.failed = !list.params;
    if (!list.failed) {
        add(&list, "model", run->model);
        add(&list, "data", run->data);
        add_integer(&list, "steps", run->total_steps);
        add_integer(&list, "batch_size", run->batch);
        add_integer(&list, "threads", run->threads);
        add_options(&list, run->options);
    }
    *out = list.failed ? NULL : list.params;
    return list.failed ? 0 : list.count;
}
