/* The two observers of a training: a line that moves, and lines that stay. */
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/test.h"
#include "train/trainer.h"
#include "watch/lines.h"
#include "watch/progress.h"

static double seconds; /* what the observers' clock shows */

static double now(void)
{
    return seconds;
}

static double wall(void)
{
    return 1700000000 + seconds;
}

static size_t memory(void)
{
    return 412345678;
}

/* A training of 100 steps, each 0.05 s, evaluated in the middle and stopped after `steps`. */
static void train(train_observer *observe, void *observer, int steps)
{
    struct train_event event = {.kind = TRAIN_STARTED, .total = 100, .steps_per_epoch = 50};
    seconds = 0;
    observe(observer, &event);
    for (int step = 1; step <= steps; step++) {
        seconds += 0.05;
        event = (struct train_event){.kind = TRAIN_STEP,
                                     .step = step,
                                     .total = 100,
                                     .steps_per_epoch = 50,
                                     .examples = step * 64,
                                     .loss = 0.25,
                                     .accuracy = 0.9375,
                                     .rate = 0.001,
                                     .step_seconds = 0.05};
        observe(observer, &event);
        if (step == 50) {
            event = (struct train_event){.kind = TRAIN_EVALUATED,
                                         .auc = NAN,
                                         .log_loss = NAN,
                                         .step = step,
                                         .total = 100,
                                         .steps_per_epoch = 50,
                                         .examples = 1000,
                                         .loss = 0.5,
                                         .accuracy = 0.875,
                                         .step_seconds = 0.7};
            observe(observer, &event);
        }
    }
    event.kind = TRAIN_FINISHED;
    event.examples = steps * 64;
    observe(observer, &event);
}

struct recording {
    FILE *out;
    char *text;
    size_t bytes;
};

static void start_recording(struct recording *recording)
{
    recording->out = open_memstream(&recording->text, &recording->bytes);
    ASSERT_TRUE(recording->out);
}

static void stop_recording(struct recording *recording)
{
    fclose(recording->out);
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (; (text = strstr(text, part)); text++)
        found++;
    return found;
}

static void watch_progress(struct recording *recording, int columns, int steps)
{
    struct progress *progress;
    struct error err = {0};
    start_recording(recording);
    struct progress_options options = {
        .out = recording->out, .columns = columns, .now = now, .memory = memory};
    ASSERT_OK(progress_create(&options, &progress, &err), err);
    train(progress_observe, progress, steps);
    progress_destroy(progress);
    stop_recording(recording);
}

TEST(progress, shows_place_loss_accuracy_speed_and_time_left)
{
    struct recording recording;
    watch_progress(&recording, 120, 100);
    ASSERT_CONTAINS(recording.text, "epoch 1/2, step 9/100  [===>");
    ASSERT_CONTAINS(recording.text, "loss 0.2500  accuracy 93.8 %  1280/s  0:05 left");
    ASSERT_CONTAINS(recording.text, "evaluated 1000 examples in 0.7 s: loss 0.5000, "
                                    "accuracy 87.50 %");
    ASSERT_CONTAINS(recording.text, "epoch 2/2, step 100/100");
    free(recording.text);
}

TEST(progress, shows_the_memory_where_there_is_room)
{
    struct recording recording;
    watch_progress(&recording, 120, 100);
    ASSERT_CONTAINS(recording.text, "0:05 left  412 MB\033[K");
    free(recording.text);
    watch_progress(&recording, 60, 100);
    ASSERT_INT(count(recording.text, "MB"), ==, 0);
    free(recording.text);
}

/* --- a real terminal ------------------------------------------------------------------------ */

struct terminal {
    int master, slave;
    FILE *out;
    char text[4096]; /* what came since the last look */
};

static void set_columns(struct terminal *terminal, int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    ASSERT_INT(ioctl(terminal->slave, TIOCSWINSZ, &size), ==, 0);
}

static void open_terminal(struct terminal *terminal, int columns)
{
    struct termios raw;
    ASSERT_INT(openpty(&terminal->master, &terminal->slave, NULL, NULL, NULL), ==, 0);
    ASSERT_INT(tcgetattr(terminal->slave, &raw), ==, 0);
    cfmakeraw(&raw);
    ASSERT_INT(tcsetattr(terminal->slave, TCSANOW, &raw), ==, 0);
    ASSERT_INT(fcntl(terminal->master, F_SETFL, O_NONBLOCK), ==, 0);
    terminal->out = fdopen(terminal->slave, "w");
    ASSERT_TRUE(terminal->out);
    set_columns(terminal, columns);
}

static const char *look(struct terminal *terminal)
{
    ssize_t got = read(terminal->master, terminal->text, sizeof terminal->text - 1);
    terminal->text[got > 0 ? got : 0] = '\0';
    return terminal->text;
}

static void show_step(struct progress *progress, int step)
{
    seconds += 1;
    progress_observe(progress, &(struct train_event){.kind = TRAIN_STEP,
                                                     .step = step,
                                                     .total = 100,
                                                     .examples = step * 64,
                                                     .accuracy = NAN,
                                                     .step_seconds = 1});
}

/* Terminals wrap a line again when they get narrower: 99 columns take five rows of 20. */
TEST(progress, clears_the_rows_into_which_a_narrower_terminal_wrapped_it)
{
    struct terminal terminal;
    struct progress *progress;
    struct error err = {0};
    open_terminal(&terminal, 100);
    struct progress_options options = {.out = terminal.out, .now = now, .memory = memory};
    ASSERT_OK(progress_create(&options, &progress, &err), err);
    show_step(progress, 1);
    look(&terminal);
    int length = (int)strcspn(terminal.text + 1, "\033");
    ASSERT_INT(length, >, 80);
    set_columns(&terminal, 20);
    show_step(progress, 2);
    char expected[32];
    snprintf(expected, sizeof expected, "\r\033[%dA\033[Jstep 2/100", (length - 1) / 20);
    ASSERT_CONTAINS(look(&terminal), expected);
    ASSERT_INT(strcspn(strstr(terminal.text, "step"), "\033"), ==, 19);
    set_columns(&terminal, 200);
    show_step(progress, 3);
    ASSERT_INT(strncmp(look(&terminal), "\rstep 3/100", 11), ==, 0);
    progress_destroy(progress);
    fclose(terminal.out);
    close(terminal.master);
}

static ssize_t count_write(void *writes, const char *bytes, size_t size)
{
    (void)bytes;
    ++*(int *)writes;
    return (ssize_t)size;
}

/* Standard error has no buffer: what is printed in parts would flicker. */
TEST(progress, draws_with_one_write)
{
    int writes = 0;
    struct progress *progress;
    struct error err = {0};
    FILE *out = fopencookie(&writes, "w", (cookie_io_functions_t){.write = count_write});
    ASSERT_TRUE(out);
    setvbuf(out, NULL, _IONBF, 0);
    struct progress_options options = {.out = out, .columns = 120, .now = now, .memory = memory};
    ASSERT_OK(progress_create(&options, &progress, &err), err);
    for (int step = 1; step <= 10; step++)
        show_step(progress, step);
    ASSERT_INT(writes, ==, 10);
    progress_destroy(progress);
    fclose(out);
}

TEST(progress, draws_at_most_ten_times_a_second)
{
    struct recording recording;
    watch_progress(&recording, 120, 100);
    ASSERT_INT(count(recording.text, "left"), <=, 52);
    ASSERT_INT(count(recording.text, "left"), >=, 30);
    free(recording.text);
}

TEST(progress, the_line_that_moves_never_wraps)
{
    for (int columns = 10; columns < 120; columns += 7) {
        struct recording recording;
        watch_progress(&recording, columns, 100);
        for (const char *line = recording.text; *line; line += strcspn(line, "\r\n")) {
            line += strspn(line, "\r\n");
            if (!strstr(line, "evaluated") || strstr(line, "evaluated") > strchr(line, '\033'))
                ASSERT_INT(strcspn(line, "\033\r\n"), <, columns);
        }
        free(recording.text);
    }
}

TEST(progress, ends_its_line_when_the_training_stops_early)
{
    struct recording recording;
    watch_progress(&recording, 80, 7);
    ASSERT_INT(recording.text[recording.bytes - 1], ==, '\n');
    free(recording.text);
}

static void watch_lines(struct recording *recording, double interval)
{
    struct lines *lines;
    struct error err = {0};
    start_recording(recording);
    struct lines_options options = {
        .out = recording->out, .interval_seconds = interval, .now = now, .wall = wall};
    ASSERT_OK(lines_create(&options, &lines, &err), err);
    train(lines_observe, lines, 100);
    lines_destroy(lines);
    stop_recording(recording);
}

TEST(lines, are_plain_and_stamped)
{
    struct recording recording;
    watch_lines(&recording, 1);
    ASSERT_CONTAINS(recording.text, "2023-11-14T22:13:20Z training from step 0 to 100, 50 steps "
                                    "per epoch\n");
    ASSERT_CONTAINS(recording.text, "2023-11-14T22:13:20Z step 1/100, loss 0.2500, accuracy 0.9375,"
                                    " lr 0.0010, 1280 examples/s, 0:05 left\n");
    ASSERT_CONTAINS(recording.text, "Z evaluated after step 50: loss 0.5000, accuracy 0.8750, 1000 "
                                    "examples in 0.7 s\n");
    ASSERT_CONTAINS(recording.text, "2023-11-14T22:13:25Z finished 100 steps, 6400 examples in "
                                    "0:05\n");
    ASSERT_INT(count(recording.text, "\r") + count(recording.text, "\033"), ==, 0);
    free(recording.text);
}

TEST(lines, come_once_per_interval_and_at_the_last_step)
{
    struct recording recording;
    watch_lines(&recording, 1);
    ASSERT_INT(count(recording.text, " step "), <=, 8 + 1);
    ASSERT_CONTAINS(recording.text, "step 100/100");
    free(recording.text);
    watch_lines(&recording, 0);
    ASSERT_INT(count(recording.text, "Z step "), ==, 100);
    free(recording.text);
}

TEST(observers, allocate_nothing_while_they_watch)
{
    struct progress *progress;
    struct lines *lines;
    struct error err = {0};
    FILE *out = fopen("/dev/null", "w");
    ASSERT_TRUE(out);
    ASSERT_OK(progress_create(&(struct progress_options){.out = out}, &progress, &err), err);
    ASSERT_OK(lines_create(&(struct lines_options){.out = out}, &lines, &err), err);
    uint64_t before = memory_allocation_count();
    train(progress_observe, progress, 100);
    train(lines_observe, lines, 100);
    ASSERT_INT(memory_allocation_count() - before, ==, 0);
    progress_destroy(progress);
    lines_destroy(lines);
    fclose(out);
}
