#include "watch/task.h"

#include <inttypes.h>

#include "base/clock.h"
#include "watch/pace.h"

enum { PLAIN_SECONDS = 30, TEXT_BYTES = 160 };

static const double redraw_seconds = 0.1;

void task_line_init(struct task_line *line, const struct task_line_options *options)
{
    *line = (struct task_line){.options = *options};
    if (!line->options.now)
        line->options.now = clock_seconds;
    line->started = line->drawn = line->options.now();
}

/* "converting  1024/5000 pictures  20 %  312.5/s  45.1 MB/s  0:12 left" */
static void write_text(const struct task_line *line, int64_t done, int64_t total, uint64_t bytes,
                       char text[TEXT_BYTES])
{
    char rate[32], megabytes[32], left[32], count[96] = "", speed[48] = "";
    double seconds = line->options.now() - line->started;
    double per_second = seconds > 0 ? (double)(done - line->first) / seconds : 0;
    if (line->options.items) {
        snprintf(count, sizeof count, "  %" PRId64 "/%" PRId64 " %s", done, total,
                 line->options.items);
        snprintf(speed, sizeof speed, "  %s/s", pace_number_text(per_second, rate, sizeof rate));
    }
    snprintf(text, TEXT_BYTES, "%s%s  %.0f %%%s  %s MB/s  %s left", line->options.verb, count,
             total > 0 ? 100 * (double)done / (double)total : 0, speed,
             pace_number_text(seconds > 0 ? (double)bytes / seconds / 1e6 : 0, megabytes,
                              sizeof megabytes),
             pace_duration_text(per_second > 0 ? (double)(total - done) / per_second : -1, left,
                                sizeof left));
}

void task_line_show(struct task_line *line, int64_t done, int64_t total, uint64_t bytes)
{
    char text[TEXT_BYTES];
    double now = line->options.now();
    if (!line->seen) {
        line->seen = true;
        line->first = done;
    }
    if (now - line->drawn < (line->options.terminal ? redraw_seconds : PLAIN_SECONDS))
        return;
    line->drawn = now;
    write_text(line, done, total, bytes, text);
    if (line->options.terminal)
        fprintf(line->options.out, "\r%.79s\033[K", text);
    else
        fprintf(line->options.out, "%s\n", text);
    line->on_line = line->options.terminal;
    fflush(line->options.out);
}

void task_line_release(struct task_line *line)
{
    if (line->on_line)
        fputs("\r\033[K", line->options.out);
    line->on_line = false;
    fflush(line->options.out);
}
