/* The file is an object with a list "traceEvents" of complete events ("ph": "X", times in
 * microseconds) and names ("ph": "M"), as the Trace Event Format has it. */
#include "base/trace.h"

#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/strbuf.h"

enum { WRITTEN_AT_ONCE = 1 << 16 };

struct trace_track {
    struct trace_track *next;
    const char *name;
    int number; /* from 1 */
    struct trace_span *spans;
    size_t count, capacity;
    uint64_t left_out;
};

struct included {
    struct included *next;
    size_t bytes;
    char text[];
};

struct trace {
    struct arena *arena; /* of the tracks */
    int number;          /* of the process in the picture */
    double origin;       /* of the picture's time; NaN: the first span */
    struct included *others, **last_other;
    struct trace_track *first, **last;
    int track_count;
};

int trace_create(struct trace **out, struct error *err)
{
    struct trace *trace = memory_allocate(sizeof *trace);
    struct arena *arena = arena_create();
    if (!trace || !arena) {
        memory_free(trace);
        arena_destroy(arena);
        return error_set(err, ERROR_MEMORY, "no memory for the trace");
    }
    trace->arena = arena;
    trace->number = getpid();
    trace->origin = NAN;
    trace->last_other = &trace->others;
    trace->last = &trace->first;
    *out = trace;
    return 0;
}

void trace_destroy(struct trace *trace)
{
    if (!trace)
        return;
    for (struct trace_track *track = trace->first; track; track = track->next)
        memory_free(track->spans);
    for (struct included *other = trace->others, *next; other; other = next) {
        next = other->next;
        memory_free(other);
    }
    arena_destroy(trace->arena);
    memory_free(trace);
}

struct trace_track *trace_add_track(struct trace *trace, const char *name, size_t capacity)
{
    struct trace_track *track = ARENA_NEW(trace->arena, struct trace_track);
    if (!track)
        return NULL;
    track->name = arena_copy_text(trace->arena, name);
    track->spans = memory_allocate(capacity * sizeof *track->spans);
    track->capacity = capacity;
    track->number = ++trace->track_count;
    *trace->last = track;
    trace->last = &track->next;
    return track->name && track->spans ? track : NULL;
}

void trace_add(struct trace_track *track, const struct trace_span *span)
{
    if (track->count < track->capacity)
        track->spans[track->count++] = *span;
    else
        track->left_out++;
}

uint64_t trace_left_out(const struct trace *trace)
{
    uint64_t count = 0;
    for (const struct trace_track *track = trace->first; track; track = track->next)
        count += track->left_out;
    return count;
}

void trace_set_place(struct trace *trace, int number, double origin)
{
    trace->number = number;
    trace->origin = origin;
}

int trace_include(struct trace *trace, const char *text, size_t bytes, struct error *err)
{
    struct included *other = memory_allocate(sizeof *other + bytes);
    if (!other)
        return error_set(err, ERROR_MEMORY, "no memory for the trace of another process");
    memcpy(other->text, text, bytes);
    other->bytes = bytes;
    *trace->last_other = other;
    trace->last_other = &other->next;
    return 0;
}

/* --- writing -------------------------------------------------------------------------------- */

struct writer {
    struct file_draft *draft; /* NULL: the text stays where it is */
    struct strbuf *text;      /* not written yet */
    int process;
    double origin; /* of the times in the file */
    bool begun;    /* an event stands before */
    bool (*wanted)(const struct trace_span *span);
};

static int refuse(const struct writer *writer, struct error *err)
{
    return error_set(err, ERROR_MEMORY, "%s: no memory for writing",
                     writer->draft ? writer->draft->target : "the trace");
}

static int flush(struct writer *writer, struct error *err)
{
    if (writer->text->failed)
        return refuse(writer, err);
    if (!writer->draft)
        return 0;
    int status = file_draft_write(writer->draft, writer->text->text, writer->text->length, err);
    strbuf_clear(writer->text);
    return status;
}

static void separate(struct writer *writer)
{
    if (writer->begun)
        strbuf_add_char(writer->text, ',');
    writer->begun = true;
}

/* Takes `event` over. */
static int write_event(struct writer *writer, struct json *event, struct error *err)
{
    char *text = json_text(event, false);
    json_release(event);
    if (!text)
        return refuse(writer, err);
    separate(writer);
    strbuf_add(writer->text, text);
    memory_free(text);
    return writer->text->length > WRITTEN_AT_ONCE ? flush(writer, err) : 0;
}

static struct json *make_event(const struct writer *writer, const char *kind, const char *name,
                               int track)
{
    struct json *event = json_object_create();
    json_set_text(event, "ph", kind);
    json_set_text(event, "name", name);
    json_set_integer(event, "pid", writer->process);
    json_set_integer(event, "tid", track);
    return event;
}

static int write_name(struct writer *writer, const char *what, int track, const char *name,
                      struct error *err)
{
    struct json *event = make_event(writer, "M", what, track), *arguments = json_object_create();
    json_set_text(arguments, "name", name);
    json_set(event, "args", arguments);
    return write_event(writer, event, err);
}

/* Keeps tracks in the order they were made, and processes in that of their numbers. */
static int write_place(struct writer *writer, const char *what, int track, int place,
                       struct error *err)
{
    struct json *event = make_event(writer, "M", what, track);
    struct json *arguments = json_object_create();
    json_set_integer(arguments, "sort_index", place);
    json_set(event, "args", arguments);
    return write_event(writer, event, err);
}

static struct json *describe_arguments(const struct trace_span *span)
{
    struct json *arguments = json_object_create();
    for (int i = 0; i < TRACE_MAX_ARGUMENTS && span->arguments[i].key; i++) {
        const struct trace_argument *argument = &span->arguments[i];
        if (argument->text)
            json_set_text(arguments, argument->key, argument->text);
        else
            json_set_integer(arguments, argument->key, argument->number);
    }
    return arguments;
}

static int64_t nanoseconds(const struct writer *writer, double time)
{
    return llround((time - writer->origin) * 1e9);
}

/* Both ends are rounded, and the length is their difference: spans that nest still do. */
static int write_span(struct writer *writer, const struct trace_span *span, int track,
                      struct error *err)
{
    int64_t start = nanoseconds(writer, span->start), end = nanoseconds(writer, span->end);
    struct json *event = make_event(writer, "X", span->name ? span->name : span->label, track);
    json_set_text(event, "cat", span->category);
    json_set_number(event, "ts", (double)start / 1e3);
    json_set_number(event, "dur", (double)(end - start) / 1e3);
    json_set(event, "args", describe_arguments(span));
    return write_event(writer, event, err);
}

/* By their start; of two that start together, the one around the other first. */
static int compare_spans(const void *a, const void *b)
{
    const struct trace_span *first = a, *second = b;
    if (first->start != second->start)
        return first->start < second->start ? -1 : 1;
    return first->end == second->end ? 0 : first->end > second->end ? -1 : 1;
}

static int write_track(struct writer *writer, const struct trace_track *track, struct error *err)
{
    qsort(track->spans, track->count, sizeof *track->spans, compare_spans);
    if (write_name(writer, "thread_name", track->number, track->name, err) < 0 ||
        write_place(writer, "thread_sort_index", track->number, track->number, err) < 0)
        return -1;
    for (size_t i = 0; i < track->count; i++)
        if ((!writer->wanted || writer->wanted(&track->spans[i])) &&
            write_span(writer, &track->spans[i], track->number, err) < 0)
            return -1;
    return 0;
}

static double first_start(const struct trace *trace)
{
    double first = INFINITY;
    for (const struct trace_track *track = trace->first; track; track = track->next)
        for (size_t i = 0; i < track->count; i++)
            first = fmin(first, track->spans[i].start);
    return isfinite(first) ? first : 0;
}

static int write_process(struct writer *writer, const struct trace *trace, const char *process,
                         struct error *err)
{
    writer->process = trace->number;
    writer->origin = isnan(trace->origin) ? first_start(trace) : trace->origin;
    if (write_name(writer, "process_name", 0, process, err) < 0 ||
        write_place(writer, "process_sort_index", 0, trace->number, err) < 0)
        return -1;
    for (const struct trace_track *track = trace->first; track; track = track->next)
        if (write_track(writer, track, err) < 0)
            return -1;
    return 0;
}

int trace_text(const struct trace *trace, const char *process,
               bool (*wanted)(const struct trace_span *span), struct strbuf *out, struct error *err)
{
    struct writer writer = {.text = out, .wanted = wanted};
    return write_process(&writer, trace, process, err) < 0 ? -1 : flush(&writer, err);
}

static int write_all(struct writer *writer, const struct trace *trace, const char *process,
                     struct error *err)
{
    strbuf_add(writer->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    if (write_process(writer, trace, process, err) < 0)
        return -1;
    for (const struct included *other = trace->others; other; other = other->next) {
        separate(writer);
        strbuf_add_bytes(writer->text, other->text, other->bytes);
        if (flush(writer, err) < 0)
            return -1;
    }
    strbuf_add(writer->text, "]}\n");
    return flush(writer, err);
}

int trace_write(const struct trace *trace, const char *process, const char *path, struct error *err)
{
    struct file_draft draft;
    struct strbuf text;
    struct writer writer = {.draft = &draft, .text = &text};
    if (file_draft_begin(path, &draft, err) < 0)
        return -1;
    strbuf_init(&text);
    int status = write_all(&writer, trace, process, err);
    strbuf_release(&text);
    if (status < 0) {
        file_draft_drop(&draft);
        return -1;
    }
    return file_draft_finish(&draft, err);
}
