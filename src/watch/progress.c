#include "watch/progress.h"

#include <inttypes.h>
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer.h"
#include "watch/pace.h"

enum { MAX_COLUMNS = 240, MIN_BAR = 8, MAX_BAR = 40 };

struct progress {
    struct progress_options options;
    struct pace pace;
    double drawn; /* when */
    bool on_line; /* the cursor stands behind an unfinished line... */
    int length;   /* ...of so many columns */
};

int progress_create(const struct progress_options *options, struct progress **out,
                    struct error *err)
{
    struct progress *progress = memory_allocate(sizeof *progress);
    if (!progress)
        return error_set(err, ERROR_MEMORY, "no memory for the progress line");
    progress->options = *options;
    if (!progress->options.interval_seconds)
        progress->options.interval_seconds = 0.1;
    if (!progress->options.now)
        progress->options.now = clock_seconds;
    if (!progress->options.memory)
        progress->options.memory = memory_rss_bytes;
    *out = progress;
    return 0;
}

void progress_end_line(struct progress *progress)
{
    if (progress->on_line)
        fputc('\n', progress->options.out);
    progress->on_line = false;
    fflush(progress->options.out);
}

void progress_destroy(struct progress *progress)
{
    if (!progress)
        return;
    progress_end_line(progress);
    memory_free(progress);
}

static int columns(const struct progress *progress)
{
    struct winsize size = {0};
    int wide = progress->options.columns;
    if (!wide && ioctl(fileno(progress->options.out), TIOCGWINSZ, &size) == 0)
        wide = size.ws_col;
    if (!wide)
        wide = 80;
    return wide < MAX_COLUMNS ? wide : MAX_COLUMNS;
}

/* What goes back to the start of the line and clears it. A terminal that was made narrower has
 * wrapped the line meanwhile: then it began some rows above. */
static const char *start_over(const struct progress *progress, int wide, char *text, size_t bytes)
{
    int rows = progress->on_line && wide > 0 ? (progress->length - 1) / wide : 0;
    if (rows > 0)
        snprintf(text, bytes, "\r\033[%dA\033[J", rows);
    else
        snprintf(text, bytes, "\r");
    return text;
}

/* Puts `text` over whatever the line held, cut to the width (a wrapped line cannot be redrawn). All
 * of it is one write, so that nothing flickers. */
static void redraw(struct progress *progress, const char *text, int wide)
{
    char start[32];
    fprintf(progress->options.out, "%s%.*s\033[K", start_over(progress, wide, start, sizeof start),
            wide - 1, text);
    fflush(progress->options.out);
    int length = (int)strlen(text);
    progress->length = length < wide ? length : wide - 1;
    progress->on_line = true;
}

/* "[=====>    ]", `cells` wide without the brackets. */
static void draw_bar(char *text, int cells, double part)
{
    int done = (int)(part * cells);
    text[0] = '[';
    for (int i = 0; i < cells; i++)
        text[1 + i] = i < done ? '=' : i == done ? '>' : ' ';
    text[1 + cells] = ']';
    text[2 + cells] = '\0';
}

static int64_t epochs_in(const struct train_event *event)
{
    int64_t length = event->steps_per_epoch;
    return length ? (event->total + length - 1) / length : 0;
}

/* Where the run is: "epoch 2/5, step 1042/4690". */
static int write_place(const struct train_event *event, char *text, size_t bytes)
{
    int64_t epochs = epochs_in(event);
    if (epochs < 2)
        return snprintf(text, bytes, "step %" PRId64 "/%" PRId64, event->step, event->total);
    int64_t epoch = (event->step - 1) / event->steps_per_epoch + 1;
    return snprintf(text, bytes, "epoch %" PRId64 "/%" PRId64 ", step %" PRId64 "/%" PRId64, epoch,
                    epochs, event->step, event->total);
}

/* How well it goes: "loss 0.1234  accuracy 96.9 %  5321/s  0:12 left". */
static void write_numbers(const struct pace *pace, const struct train_event *event, char *text,
                          size_t bytes)
{
    char loss[32], rate[32], left[32], accuracy[32] = "";
    if (!isnan(pace->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.1f %%", 100 * pace->accuracy);
    snprintf(text, bytes, "loss %s%s  %s/s  %s left",
             pace_number_text(pace->loss, loss, sizeof loss), accuracy,
             pace_number_text(pace_examples_per_second(pace), rate, sizeof rate),
             pace_duration_text(pace_seconds_left(pace, event), left, sizeof left));
}

/* "  412 MB", "  12.3 GB", "  412 MB  2 ranks" */
static void write_memory(size_t bytes, int ranks, char *text, size_t room)
{
    double megabytes = (double)bytes / 1e6;
    int length = megabytes < 10000 ? snprintf(text, room, "  %.0f MB", megabytes)
                                   : snprintf(text, room, "  %.1f GB", megabytes / 1000);
    if (ranks > 1 && length > 0 && (size_t)length < room)
        snprintf(text + length, room - (size_t)length, "  %d ranks", ranks);
}

/* The bar gets what the numbers leave, of which the memory goes first when the line is narrow. */
static void draw(struct progress *progress, const struct train_event *event)
{
    char place[96], numbers[128], memory[32], bar[MAX_BAR + 3] = "", line[MAX_COLUMNS + 1];
    int wide = columns(progress);
    write_place(event, place, sizeof place);
    write_numbers(&progress->pace, event, numbers, sizeof numbers);
    write_memory(progress->options.memory(), event->rank_count, memory, sizeof memory);
    int text = (int)(strlen(place) + 2 + strlen(numbers));
    if (text + (int)strlen(memory) > wide - 1)
        memory[0] = '\0';
    int room = wide - 1 - text - (int)strlen(memory) - 4;
    if (room >= MIN_BAR)
        draw_bar(bar, room < MAX_BAR ? room : MAX_BAR,
                 event->total ? (double)event->step / (double)event->total : 0);
    snprintf(line, sizeof line, "%s%s%s  %s%s", place, *bar ? "  " : "", bar, numbers, memory);
    redraw(progress, line, wide);
}

static void on_step(struct progress *progress, const struct train_event *event)
{
    double now = progress->options.now();
    pace_add(&progress->pace, event);
    if (progress->on_line && event->step < event->total &&
        now - progress->drawn < progress->options.interval_seconds)
        return;
    progress->drawn = now;
    draw(progress, event);
}

/* An evaluation stays on the screen, so it may be wider than that; the moving line goes on below
 * it. */
static void on_evaluated(struct progress *progress, const struct train_event *event)
{
    char place[96], loss[32], accuracy[48] = "", auc[48] = "", start[32];
    write_place(event, place, sizeof place);
    if (!isnan(event->accuracy))
        snprintf(accuracy, sizeof accuracy, ", accuracy %.2f %%", 100 * event->accuracy);
    if (!isnan(event->auc))
        snprintf(auc, sizeof auc, ", auc %.4f", event->auc);
    fprintf(progress->options.out,
            "%s%s: evaluated %" PRId64 " examples in %.1f s: loss %s%s%s\033[K\n",
            start_over(progress, columns(progress), start, sizeof start), place, event->examples,
            event->step_seconds, pace_number_text(event->loss, loss, sizeof loss), accuracy, auc);
    fflush(progress->options.out);
    progress->on_line = false;
}

void progress_observe(void *context, const struct train_event *event)
{
    struct progress *progress = context;
    switch (event->kind) {
    case TRAIN_STARTED:
        break;
    case TRAIN_STEP:
        on_step(progress, event);
        break;
    case TRAIN_EVALUATED:
        on_evaluated(progress, event);
        break;
    case TRAIN_SAVED:
        break;
    case TRAIN_FINISHED:
        progress_end_line(progress);
        break; /* the results are the program's to tell */
    }
}
