#include "cli/display.h"

#include "cli/report.h"

static void add_step(struct display *display, const struct train_event *event)
{
    struct report_speed speed;
    report_measure(display->report, display->header.batch, &speed);
    /* The loss that tf_cnn_benchmarks shows has the weight decay in it. */
    bench_text_step(event->step, display->header.batch, &speed,
                    event->loss + updater_decay_loss(display->updater), &display->text);
}

static void add_total(struct display *display)
{
    struct report_speed speed;
    report_measure(display->report, display->header.batch, &speed);
    if (speed.steps)
        bench_text_total(display->header.batch / speed.mean_step_seconds, &display->text);
}

void display_observe(struct display *display, const struct train_event *event)
{
    const struct report *report = display->report;
    if (!display->every)
        return;
    if (event->kind == TRAIN_STARTED)
        bench_text_header(&display->header, &display->text);
    if (event->kind == TRAIN_STARTED && report->warmup_steps)
        strbuf_add(&display->text, "Running warm up\n");
    if ((event->kind == TRAIN_STARTED || event->kind == TRAIN_STEP) &&
        report->steps == report->warmup_steps)
        bench_text_columns(&display->text);
    if (event->kind == TRAIN_STEP && report->steps > report->warmup_steps &&
        event->step % display->every == 0)
        add_step(display, event);
    if (event->kind == TRAIN_FINISHED)
        add_total(display);
    if (!display->text.length)
        return;
    fputs(display->text.text, display->out);
    fflush(display->out);
    strbuf_clear(&display->text);
}

void display_release(struct display *display)
{
    if (display->every)
        strbuf_release(&display->text);
    *display = (struct display){0};
}
