#include "cli/data_parts.h"

#include <unistd.h>

#include "base/error.h"
#include "base/threads.h"
#include "cli/signals.h"
#include "exec/dnn.h"

static void show(void *context, const struct work_state *state)
{
    task_line_show(context, state->done, state->total, state->bytes);
}

struct work data_work_begin(struct task_line *line, int threads, const char *verb,
                            const char *items)
{
    struct task_line_options options = {
        .out = stderr, .terminal = isatty(STDERR_FILENO), .verb = verb, .items = items};
    task_line_init(line, &options);
    threads = threads > 0 ? threads : threads_available();
    dnn_set_threads(threads); /* of passes over tables, which use OpenMP */
    return (struct work){
        .threads = threads, .stop = signals_catch(), .observe = show, .context = line};
}

void data_work_end(struct task_line *line)
{
    task_line_release(line);
}

const char *data_bytes_text(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (unit < 4 && bytes >= 1000) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, capacity, unit && bytes < 10 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}
